/* SPDX-License-Identifier: MIT */
/* The input is an IDX file, behind a byte: odd, and it is the file of labels as well. What opens must
 * give the same rows to scan and fetch. */
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#define INPUT_LIMIT_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char uri[2048];
    if (length == 0 || length > INPUT_LIMIT_BYTES)
        return 0;
    const char *path = fuzz_file_write(data + 1, length - 1);
    snprintf(uri, sizeof(uri), "idx:%s?labels=%s", path, data[0] % 2 ? path : "");
    fuzz_store(uri, NULL);
    return 0;
}
