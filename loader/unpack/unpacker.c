/* SPDX-License-Identifier: MIT */
#include "loader/unpack/unpacker.h"

#include <stdlib.h>

#include "common/array.h"

#define INPUT_BYTES ((size_t)128 << 10)

enum error unpacker_open(struct unpacker *unpacker, const struct packing *packing, const char *path,
                         const struct file_identity *identity)
{
    static const struct unpack_point beginning = {.packed_offset = 0};
    *unpacker = (struct unpacker){.packing = packing, .file = {.descriptor = -1}};
    enum error error = source_file_open(&unpacker->file, path, identity);
    if (error)
        return error;
    unpacker->input = array_new(INPUT_BYTES, 1, "a packed file");
    error = unpacker->input ? packing->open(&unpacker->state) : ERROR_MEMORY;
    if (!error)
        error = unpacker_begin(unpacker, &beginning);
    if (error)
        unpacker_close(unpacker);
    return error;
}

void unpacker_close(struct unpacker *unpacker)
{
    if (unpacker->state)
        unpacker->packing->close(unpacker->state);
    free(unpacker->input);
    source_file_close(&unpacker->file);
    *unpacker = (struct unpacker){.file = {.descriptor = -1}};
}

enum error unpacker_begin(struct unpacker *unpacker, const struct unpack_point *point)
{
    unpacker->input_end = point->packed_offset;
    unpacker->input_at = 0;
    unpacker->input_bytes = 0;
    unpacker->place = point->inner ? UNPACK_WITHIN : UNPACK_BETWEEN;
    return unpacker->packing->begin(unpacker->state, point);
}

uint64_t unpacker_packed_offset(const struct unpacker *unpacker)
{
    return unpacker->input_end - unpacker->input_bytes;
}

static enum error read_input(struct unpacker *unpacker)
{
    uint64_t left = unpacker->file.identity.size_bytes - unpacker->input_end;
    size_t bytes = left < INPUT_BYTES ? (size_t)left : INPUT_BYTES;
    if (unpacker->input_bytes > 0 || bytes == 0)
        return OK;
    enum error error =
        source_file_read(&unpacker->file, unpacker->input, bytes, unpacker->input_end);
    if (error)
        return error;
    unpacker->input_end += bytes;
    unpacker->input_at = 0;
    unpacker->input_bytes = bytes;
    return OK;
}

/* Neither input nor output. */
static enum error refuse_end(const struct unpacker *unpacker)
{
    return error_set(ERROR_INPUT,
                     "%s ends at byte %llu in the middle of its %s data; was all of it copied?",
                     unpacker->file.path, (unsigned long long)unpacker_packed_offset(unpacker),
                     unpacker->packing->name);
}

enum error unpacker_step(struct unpacker *unpacker, void *out, size_t bytes, size_t *ret_bytes)
{
    enum error error = read_input(unpacker);
    if (error)
        return error;
    if (unpacker->input_bytes == 0 && unpacker->place == UNPACK_BETWEEN)
        return ERROR_END;
    size_t had = unpacker->input_bytes;
    struct unpack_step step = {.in = unpacker->input + unpacker->input_at,
                               .in_bytes = unpacker->input_bytes,
                               .out = out,
                               .out_bytes = bytes};
    error = unpacker->packing->step(unpacker->state, &step, &unpacker->place);
    unpacker->input_at += had - step.in_bytes;
    unpacker->input_bytes = step.in_bytes;
    if (error == ERROR_INPUT)
        return error_prefix(error, "%s, byte %llu: ", unpacker->file.path,
                            (unsigned long long)unpacker_packed_offset(unpacker));
    *ret_bytes = bytes - step.out_bytes;
    if (!error && had == 0 && *ret_bytes == 0 && unpacker->place != UNPACK_BETWEEN)
        return refuse_end(unpacker);
    return error;
}

enum error unpacker_read(struct unpacker *unpacker, void *out, size_t bytes)
{
    size_t done = 0;
    enum error error = OK;
    while (done < bytes && !error) {
        size_t more = 0;
        error = unpacker_step(unpacker, (char *)out + done, bytes - done, &more);
        done += more;
    }
    return error == ERROR_END ? refuse_end(unpacker) : error;
}

enum error unpacker_mark(struct unpacker *unpacker, struct unpack_point *ret_point)
{
    enum error error = unpacker->packing->mark(unpacker->state, ret_point);
    if (error)
        return error;
    /* The bits left over belong to the previous byte. */
    ret_point->packed_offset = unpacker_packed_offset(unpacker) - (ret_point->bits > 0);
    return OK;
}
