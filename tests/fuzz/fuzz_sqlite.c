/* SPDX-License-Identifier: MIT */
/* The input is an SQLite file. Whatever opens must give the same rows to scan and fetch; but of a
 * view over a damaged table, a search may miss what a walk finds. Then fetch must say so. */
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
    fuzz_store(uri, data && memmem(data, length, "VIEW", 4) != NULL);
    return 0;
}
