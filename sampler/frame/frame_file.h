/* SPDX-License-Identifier: MIT */
/*
 * The frame file, version 1. Little-endian; made by frame_write(), mapped read-only by
 * frame_open().
 *
 *   offset  bytes
 *        0      8  magic "TMBLFRM1"
 *        8      4  version, 1
 *       12      4  number of sections S
 *       16      8  size of the file in bytes
 *       24      8  units N
 *       32     16  digest of the list (frame_digester.h)
 *       48      8  zero
 *       56      8  XXH3-64 of the first 1088 bytes, this field being 0
 *       64   1024  section table: S times struct frame_section, then zeros
 *     1088      -  sections, each filled up with zeros to a multiple of 64 bytes
 *
 * The sections present imply the form: no FRAME_IDS values, consecutive ids; no codes, a cyclic
 * column (id_column.h, partition.h). Groups have the kinds of labels + 8.
 *
 * A reader refuses other versions and unknown kinds. A file is never modified: build replaces it by
 * rename, and a server that has the old one mapped keeps it.
 */
#ifndef SAMPLER_FRAME_FRAME_FILE_H
#define SAMPLER_FRAME_FRAME_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/file.h"
#include "sampler/frame/frame_watch.h"

#define FRAME_FILE_MAGIC "TMBLFRM1"
#define FRAME_FILE_VERSION 1
#define FRAME_FILE_ALIGNMENT 64
#define FRAME_FILE_SECTIONS 16 /* at most */
#define FRAME_FILE_HEAD_BYTES 1088
/* A file up to this size is read completely, and all checksums are checked, when it is opened. */
#define FRAME_FILE_CHECKED_BYTES (64 << 20)

enum frame_section_kind {
    FRAME_IDS = 1,         /* values [N], width 4 or 8; or none, `first` the id of row 0 */
    FRAME_IDS_BY_ID = 2,   /* rows [N] ordered by id; absent: ids ascend */
    FRAME_WEIGHTS = 3,     /* doubles [N]; absent: no weights */
    FRAME_LABEL_NAMES = 8, /* NUL-terminated texts of L labels; `first` is 1 if they are integers */
    FRAME_LABEL_OFFSETS = 9, /* [L + 1] into the names */
    FRAME_LABEL_CODES = 10,  /* [N]; or none: cyclic, `first` the label of row 0 */
    FRAME_LABEL_ROWS = 11,   /* [N] sorted by label, row; absent when cyclic */
    FRAME_LABEL_STARTS = 12, /* [L + 1] into the rows; absent when cyclic */
    FRAME_GROUP_NAMES = 16,  /* and so on; absent: no groups */
};
#define FRAME_KINDS_OF_GROUPS 8 /* added to a kind of labels */

struct frame_section {
    uint32_t kind;
    uint32_t width;    /* bytes per element: 1, 2, 4 or 8 */
    uint64_t offset;   /* in the file */
    uint64_t count;    /* elements; bytes of texts */
    uint64_t first;    /* see the kinds; else 0 */
    uint64_t checksum; /* XXH3-64 of count * width bytes and the padding after them */
    uint64_t zeros[3];
};

struct frame_header {
    char magic[8];
    uint32_t version;
    uint32_t sections;
    uint64_t file_bytes;
    uint64_t units;
    uint8_t digest[16];
    uint64_t zero;
    uint64_t checksum;
};

static inline uint64_t frame_file_round_up(uint64_t bytes)
{
    return (bytes + FRAME_FILE_ALIGNMENT - 1) / FRAME_FILE_ALIGNMENT * FRAME_FILE_ALIGNMENT;
}

/* A file mapped read-only, with its section table. */
struct mapped_file {
    char *path;           /* owned, for messages; NULL: in memory only */
    const uint8_t *bytes; /* NULL: nothing is mapped */
    size_t size;
    int descriptor;                /* owned, if there is a path */
    struct file_identity identity; /* as opened */
    struct frame_watch *watch;     /* owned; NULL: not watched */
};

/* Maps the file; checks magic, version, size, header checksum, and that every section is within the
 * file, of a known kind and unique. The message of ERROR_INPUT names the failed check. */
enum error mapped_file_open(const char *path, struct mapped_file *ret_file) MUST_CHECK;
void mapped_file_close(struct mapped_file *file);
/* For a server: see frame_watch.h. Call once; does nothing for a frame in memory. */
enum error mapped_file_watch(struct mapped_file *file) MUST_CHECK;
/* ERROR_INPUT: it is watched, and was modified. */
enum error mapped_file_check_same(const struct mapped_file *file) MUST_CHECK;

const struct frame_header *mapped_file_header(const struct mapped_file *file);
/* The section of this kind, or NULL. */
const struct frame_section *mapped_file_section(const struct mapped_file *file, uint32_t kind);
/* Checks the checksum of one section, or of all; ERROR_INPUT names the section. */
enum error mapped_file_check(const struct mapped_file *file,
                             const struct frame_section *section) MUST_CHECK;
enum error mapped_file_check_all(const struct mapped_file *file) MUST_CHECK;

#endif
