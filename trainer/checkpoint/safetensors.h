/* SPDX-License-Identifier: MIT */
/*
 * safetensors: named tensors and text metadata in one file, written atomically and read strictly.
 *
 *   u64 N | N bytes JSON | data          all little-endian, tensors in C order
 *   {"__metadata__":{key:text,...},"NAME":{"dtype":"F32","shape":[..],"data_offsets":[b,e]},...}
 *
 * The reader accepts exactly what the format allows: the header begins with '{' and may end in
 * spaces; names are unique; the tensors cover the data without holes, overlaps or trailing bytes;
 * each has exactly the bytes that follow from its shape and type.
 *
 * The writer creates complete files or none (common/file.h), with the metadata entry
 * SAFETENSORS_DIGEST: XXH3-128 in hexadecimal over everything after N, with the digest's own digits
 * as zeros. safetensors_verify() uses it to detect any changed byte; other readers ignore it.
 *
 * Threads: one at a time per reader.
 */
#ifndef TRAINER_CHECKPOINT_SAFETENSORS_H
#define TRAINER_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

#define SAFETENSORS_HEADER_LIMIT 100000000 /* bytes of JSON; the format's own limit */
#define SAFETENSORS_RANK_LIMIT 8
#define SAFETENSORS_DIGEST "xxh3_128"

enum safetensors_type {
    SAFETENSORS_BOOL,
    SAFETENSORS_U8,
    SAFETENSORS_I8,
    SAFETENSORS_F8_E5M2,
    SAFETENSORS_F8_E4M3,
    SAFETENSORS_F8_E8M0,
    SAFETENSORS_I16,
    SAFETENSORS_U16,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I32,
    SAFETENSORS_U32,
    SAFETENSORS_F32,
    SAFETENSORS_C64,
    SAFETENSORS_F64,
    SAFETENSORS_I64,
    SAFETENSORS_U64
};

/* "F32" */
const char *safetensors_type_name(enum safetensors_type type);
size_t safetensors_type_bytes(enum safetensors_type type);

struct safetensors_tensor {
    char *name; /* owned by the reader */
    enum safetensors_type type;
    size_t rank; /* 0: a scalar */
    uint64_t shape[SAFETENSORS_RANK_LIMIT];
    uint64_t begin, end; /* bytes from the beginning of the data */
};

struct safetensors;

/* Opens `path` and checks its header and size, without reading the data. ERROR_INPUT says what is
 * wrong with the file; ERROR_NOT_FOUND: no such file. */
enum error safetensors_open(const char *path, struct safetensors **ret_file) MUST_CHECK;
/* The same for a file in memory (copied); `name` stands for its path in messages. */
enum error safetensors_open_bytes(const char *name, const void *bytes, size_t length,
                                  struct safetensors **ret_file) MUST_CHECK;
void safetensors_close(struct safetensors *file);

/* By name; NULL if there is none. Borrowed until safetensors_close(). */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

/* A metadata entry; NULL if there is none. Borrowed until safetensors_close(). */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* Reads the tensor's bytes into `out`; `bytes` must be end - begin. Blocks on the disk. */
enum error safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                            void *out, size_t bytes) MUST_CHECK;

/* Reads the whole file and compares it with its digest. ERROR_INPUT if they differ, or there is
 * none. */
enum error safetensors_verify(const struct safetensors *file) MUST_CHECK;
/* Copies the file to `path`: aside, fsynced, renamed. Works even if its name is gone. */
enum error safetensors_copy(const struct safetensors *file, const char *path) MUST_CHECK;

/* Input of the writer: a tensor in host memory, and a metadata entry. Both borrowed. */
struct safetensors_entry {
    const char *name;
    enum safetensors_type type;
    size_t rank;
    uint64_t shape[SAFETENSORS_RANK_LIMIT];
    const void *data; /* product(shape) elements; may be NULL if that is 0 */
};
struct safetensors_pair {
    const char *key, *value; /* UTF-8; the writer adds the digest */
};

/* Writes `path` aside, fsyncs, renames. Sorts by descending element size, then by name, like the
 * format's reference writer, so that the same content gives the same bytes. */
enum error safetensors_write(const char *path, const struct safetensors_entry *entries,
                             size_t count, const struct safetensors_pair *metadata,
                             size_t metadata_count) MUST_CHECK;
/* Appends the same file's bytes, without a digest, to `out`. */
enum error safetensors_print(const struct safetensors_entry *entries, size_t count,
                             const struct safetensors_pair *metadata, size_t metadata_count,
                             struct buffer *out) MUST_CHECK;

#endif
