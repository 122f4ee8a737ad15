/* SPDX-License-Identifier: MIT */
/*
 * The input is a packed file, behind two bytes that choose the size of a piece. The text that is
 * read in order, or its damage, must come again whatever is read before it; what zlib or libzstd
 * unpack at once must be the same text.
 */
#include <zlib.h>
#include <zstd.h>

#include "loader/unpack/text_source.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#define TEXT_LIMIT_BYTES ((size_t)1 << 20) /* longer texts are read no further */
#define READ_BYTES 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

struct whole {
    char *text; /* [TEXT_LIMIT_BYTES] */
    size_t length;
    bool ended, damaged;
};

static struct packed_text *open_text(const char *path, const struct packing *packing,
                                     size_t piece_bytes)
{
    struct file_identity identity;
    struct packed_text *text = NULL;
    if (file_identity_at(path, &identity) ||
        packed_text_new(path, &identity, packing, piece_bytes, &text))
        abort();
    return text;
}

static void read_in_order(struct packed_text *text, struct whole *whole)
{
    while (whole->length < TEXT_LIMIT_BYTES && !whole->ended && !whole->damaged) {
        size_t bytes = TEXT_LIMIT_BYTES - whole->length;
        size_t got = 0;
        bytes = bytes < READ_BYTES ? bytes : READ_BYTES;
        enum error error =
            packed_text_read(text, whole->text + whole->length, bytes, whole->length, &got);
        fuzz_check(!error || error == ERROR_INPUT || error == ERROR_MEMORY);
        whole->damaged = error != OK;
        whole->ended = !error && got < bytes;
        whole->length += got;
    }
    fuzz_check(!whole->ended || packed_text_length(text) == whole->length);
}

/* From the end on backwards, in steps that are no multiple of anything. */
static void read_backwards(struct packed_text *text, const struct whole *whole)
{
    char out[READ_BYTES];
    for (size_t at = whole->length; at > 0;) {
        size_t bytes = at < 977 ? at : 977;
        size_t got = 0;
        at -= bytes;
        if (packed_text_read(text, out, bytes, at, &got))
            fuzz_check(whole->damaged);
        else
            fuzz_check(got == bytes && memcmp(out, whole->text + at, bytes) == 0);
    }
}

/* Of one frame: that it ends where the text ends is checked for whole files alone. */
static void compare_zstd(const struct whole *whole, const uint8_t *data, size_t length)
{
    if (ZSTD_findFrameCompressedSize(data, length) != length)
        return;
    char *out = malloc(TEXT_LIMIT_BYTES);
    if (!out)
        abort();
    size_t bytes = ZSTD_decompress(out, TEXT_LIMIT_BYTES, data, length);
    fuzz_check(!ZSTD_isError(bytes) && bytes == whole->length);
    fuzz_check(memcmp(out, whole->text, bytes) == 0);
    free(out);
}

static void compare_gzip(const struct whole *whole, const uint8_t *data, size_t length)
{
    char *out = malloc(TEXT_LIMIT_BYTES);
    z_stream stream = {.next_in = (z_const Bytef *)data, .avail_in = (uInt)length};
    if (!out || inflateInit2(&stream, 31) != Z_OK)
        abort();
    stream.next_out = (Bytef *)out;
    stream.avail_out = TEXT_LIMIT_BYTES;
    fuzz_check(inflate(&stream, Z_FINISH) == Z_STREAM_END);
    size_t bytes = TEXT_LIMIT_BYTES - stream.avail_out;
    fuzz_check(stream.avail_in > 0 || bytes == whole->length);
    fuzz_check(bytes <= whole->length && memcmp(out, whole->text, bytes) == 0);
    inflateEnd(&stream);
    free(out);
}

static void check(const char *path, const struct packing *packing, const uint8_t *data,
                  size_t length, size_t piece_bytes)
{
    struct packed_text *text = open_text(path, packing, piece_bytes);
    struct whole whole = {.text = malloc(TEXT_LIMIT_BYTES)};
    if (!whole.text)
        abort();
    read_in_order(text, &whole);
    read_backwards(text, &whole);
    packed_text_free(text);
    text = open_text(path, packing, piece_bytes);
    read_backwards(text, &whole);
    if (whole.ended && packing == &zstd_packing)
        compare_zstd(&whole, data, length);
    else if (whole.ended)
        compare_gzip(&whole, data, length);
    packed_text_free(text);
    free(whole.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < 2)
        return 0;
    size_t piece_bytes = 1 + data[0] + ((size_t)data[1] << 8);
    const struct packing *packing = packing_of(data + 2, length - 2);
    if (packing)
        check(fuzz_file_write(data + 2, length - 2), packing, data + 2, length - 2, piece_bytes);
    return 0;
}
