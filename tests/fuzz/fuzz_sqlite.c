/* The input is an SQLite file. Whatever opens must give the same rows to scan and fetch. */
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#define INPUT_LIMIT_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char uri[1024];
    if (length > INPUT_LIMIT_BYTES)
        return 0;
    snprintf(uri, sizeof(uri), "sqlite:%s", fuzz_file_write(data, length));
    fuzz_store(uri);
    return 0;
}
