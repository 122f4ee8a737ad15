/* SPDX-License-Identifier: MIT */
/*
 * safetensors: named tensors and text metadata in one file, written whole and read strictly.
 *
 *   u64 N | N bytes JSON | data          all little-endian, tensors in C order
 *   {"__metadata__":{key:text,...},"NAME":{"dtype":"F32","shape":[..],"data_offsets":[b,e]},...}
 *
 * The reader accepts what the format's definition allows and nothing else: the header begins with
 * '{' and may end in spaces; every name once; the tensors cover the data without holes, overlaps or
 * trailing bytes; each has exactly the bytes that its shape and type say.
 *
 * Files of the writer end whole or not at all (common/file.h) and carry the metadata entry
 * SAFETENSORS_DIGEST: XXH3-128 in hexadecimal over everything behind N, the digits of the digest
 * itself taken as zeros. safetensors_verify() finds any changed byte by it; other readers pass over
 * it.
 *
 * Threads: a reader is used by one at a time.
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

/* Opens `path` and checks its header and size; the data is not read. ERROR_INPUT says what is wrong
 * with the file, ERROR_NOT_FOUND that there is none. */
enum error safetensors_open(const char *path, struct safetensors **ret_file) MUST_CHECK;
/* The same of a file that is in memory (copied); `name` stands for its path in messages. */
enum error safetensors_open_bytes(const char *name, const void *bytes, size_t length,
                                  struct safetensors **ret_file) MUST_CHECK;
void safetensors_close(struct safetensors *file);

/* By name; NULL when there is none. Borrowed until safetensors_close(). */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

/* A metadata entry; NULL when there is none. Borrowed until safetensors_close(). */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* The tensor's bytes into `out`; `bytes` must be end - begin. Blocks on the disk. */
enum error safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                            void *out, size_t bytes) MUST_CHECK;

/* Reads the whole file and compares it with its digest. ERROR_INPUT when they differ, or when it
 * has none. */
enum error safetensors_verify(const struct safetensors *file) MUST_CHECK;
/* Its bytes into `path`: aside, fsynced, renamed. Also of a file whose name is gone. */
enum error safetensors_copy(const struct safetensors *file, const char *path) MUST_CHECK;

/* What the writer takes: a tensor in host memory, and a line of metadata. Both borrowed. */
struct safetensors_entry {
    const char *name;
    enum safetensors_type type;
    size_t rank;
    uint64_t shape[SAFETENSORS_RANK_LIMIT];
    const void *data; /* product(shape) elements; may be NULL when that is 0 */
};
struct safetensors_pair {
    const char *key, *value; /* UTF-8; the digest is added by the writer */
};

/* Writes `path` aside, fsyncs, renames. Types with larger elements first, then by name, as the
 * format's own writer does, so that the same content gives the same bytes. */
enum error safetensors_write(const char *path, const struct safetensors_entry *entries,
                             size_t count, const struct safetensors_pair *metadata,
                             size_t metadata_count) MUST_CHECK;
/* The same file's bytes, without a digest, behind what is in `out`. */
enum error safetensors_print(const struct safetensors_entry *entries, size_t count,
                             const struct safetensors_pair *metadata, size_t metadata_count,
                             struct buffer *out) MUST_CHECK;

#endif
