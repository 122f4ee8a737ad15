/* SPDX-License-Identifier: MIT */
/* The input is an IDX file, behind a byte: odd, and it is the file of labels as well; with the next
 * bit it is packed by gzip first (it may be a packed file by itself, too), and with the one after it
 * read as 32-bit integers. What opens must give the same rows to scan and fetch. */
#include <zlib.h>

#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#define INPUT_LIMIT_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static const char *write_packed(const uint8_t *data, size_t length)
{
    z_stream stream = {.next_in = (z_const Bytef *)data, .avail_in = (uInt)length};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    uLong room = deflateBound(&stream, length);
    uint8_t *packed = malloc(room);
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    if (!packed || deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    const char *path = fuzz_file_write(packed, room - stream.avail_out);
    deflateEnd(&stream);
    free(packed);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char uri[2048];
    if (length == 0 || length > INPUT_LIMIT_BYTES)
        return 0;
    const char *path = (data[0] & 2 ? write_packed : fuzz_file_write)(data + 1, length - 1);
    snprintf(uri, sizeof(uri), "idx:%s?labels=%s%s", path, data[0] % 2 ? path : "",
             data[0] & 4 ? "&element=i32" : "");
    fuzz_store(uri, NULL);
    return 0;
}
