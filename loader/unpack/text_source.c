/* SPDX-License-Identifier: MIT */
#include "loader/unpack/text_source.h"

#define USUAL_RATIO 4 /* bytes of text per packed byte */

enum error text_source_init(struct text_source *source, const char *path)
{
    struct source_file file;
    uint8_t head[PACKING_HEAD_BYTES];
    *source = (struct text_source){.path = path};
    enum error error = source_file_open(&file, path, NULL);
    if (error)
        return error;
    uint64_t size = file.identity.size_bytes;
    size_t bytes = size < sizeof(head) ? (size_t)size : sizeof(head);
    source->identity = file.identity;
    error = source_file_read(&file, head, bytes, 0);
    const struct packing *packing = error ? NULL : packing_of(head, bytes);
    if (packing)
        error =
            packed_text_new(path, &source->identity, packing, PACKED_PIECE_BYTES, &source->packed);
    source_file_close(&file);
    return error;
}

void text_source_release(struct text_source *source)
{
    packed_text_free(source->packed);
    source->packed = NULL;
}

uint64_t text_source_length(const struct text_source *source)
{
    return source->packed ? packed_text_length(source->packed) : source->identity.size_bytes;
}

uint64_t text_source_guess(const struct text_source *source)
{
    uint64_t length = text_source_length(source);
    return length == TEXT_LENGTH_UNKNOWN ? source->identity.size_bytes * USUAL_RATIO : length;
}

uint64_t text_source_done(const struct text_source *source, uint64_t offset)
{
    return source->packed ? packed_text_place(source->packed, offset) : offset;
}

enum error text_file_open(struct text_file *file, const struct text_source *source)
{
    file->source = source;
    return source_file_open(&file->file, source->path, &source->identity);
}

void text_file_close(struct text_file *file)
{
    source_file_close(&file->file);
}

enum error text_file_check(const struct text_file *file)
{
    return source_file_check(&file->file);
}

enum error text_file_read(struct text_file *file, void *out, size_t bytes, uint64_t offset,
                          size_t *ret_bytes)
{
    if (file->source->packed)
        return packed_text_read(file->source->packed, out, bytes, offset, ret_bytes);
    uint64_t size = file->source->identity.size_bytes;
    uint64_t left = offset < size ? size - offset : 0;
    bytes = bytes < left ? bytes : (size_t)left;
    enum error error = source_file_read(&file->file, out, bytes, offset);
    if (!error)
        *ret_bytes = bytes;
    return error;
}

enum error text_file_read_again(struct text_file *file, void *out, size_t bytes, uint64_t offset)
{
    size_t got = 0;
    enum error error = text_file_read(file, out, bytes, offset, &got);
    if (!error && got < bytes)
        return error_set(ERROR_INPUT, "the text of %s ends at byte %llu, %llu were expected",
                         file->source->path, (unsigned long long)(offset + got),
                         (unsigned long long)(offset + bytes));
    return error;
}
