/* SPDX-License-Identifier: MIT */
/*
 * The first byte chooses the columns, all others are rows: the quick way to the keys and
 * csv_decode_row() must give the same rows, or the same error in the same line.
 */
#include <stdint.h>

#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static const char *const headers[] = {"id,label",
                                          "label,id",
                                          "id",
                                          "label",
                                          "a,b",
                                          "id,label,weight,group",
                                          "a,b,label,c,id",
                                          "group,x,weight,y",
                                          "id,label,a,b,c,d"};
    struct csv_columns columns;
    if (length == 0)
        return 0;
    const char *header = headers[data[0] % (sizeof(headers) / sizeof(headers[0]))];
    if (!keys_columns(header, ',', &columns))
        abort();
    if (!keys_agree(&columns, ',', data + 1, length - 1))
        abort();
    csv_columns_release(&columns);
    return 0;
}
