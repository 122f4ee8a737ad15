/* SPDX-License-Identifier: MIT */
#include "sampler/frame/frame_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

_Static_assert(sizeof(struct frame_header) == 64, "the header's layout");
_Static_assert(sizeof(struct frame_section) == 64, "the section table's layout");
_Static_assert(sizeof(struct frame_header) + FRAME_FILE_SECTIONS * sizeof(struct frame_section) ==
                   FRAME_FILE_HEAD_BYTES,
               "header and table");

void mapped_file_close(struct mapped_file *file)
{
    frame_watch_free(file->watch);
    if (file->bytes)
        munmap((void *)file->bytes, file->size);
    if (file->path && file->descriptor >= 0)
        close(file->descriptor);
    free(file->path);
    *file = (struct mapped_file){.path = NULL};
}

const struct frame_header *mapped_file_header(const struct mapped_file *file)
{
    return (const struct frame_header *)file->bytes;
}

static const struct frame_section *sections_of(const struct mapped_file *file)
{
    return (const struct frame_section *)(file->bytes + sizeof(struct frame_header));
}

const struct frame_section *mapped_file_section(const struct mapped_file *file, uint32_t kind)
{
    const struct frame_section *sections = sections_of(file);
    for (uint32_t i = 0; i < mapped_file_header(file)->sections; i++) {
        if (sections[i].kind == kind)
            return &sections[i];
    }
    return NULL;
}

/* ---- names for messages ------------------------------------------------- */

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [FRAME_IDS] = "ids",
        [FRAME_IDS_BY_ID] = "rows by id",
        [FRAME_WEIGHTS] = "weights",
        [FRAME_LABEL_NAMES] = "label names",
        [FRAME_LABEL_OFFSETS] = "label offsets",
        [FRAME_LABEL_CODES] = "label codes",
        [FRAME_LABEL_ROWS] = "label rows",
        [FRAME_LABEL_STARTS] = "label starts",
        [FRAME_LABEL_NAMES + FRAME_KINDS_OF_GROUPS] = "group names",
        [FRAME_LABEL_OFFSETS + FRAME_KINDS_OF_GROUPS] = "group offsets",
        [FRAME_LABEL_CODES + FRAME_KINDS_OF_GROUPS] = "group codes",
        [FRAME_LABEL_ROWS + FRAME_KINDS_OF_GROUPS] = "group rows",
        [FRAME_LABEL_STARTS + FRAME_KINDS_OF_GROUPS] = "group starts",
    };
    return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : NULL;
}

static const char *shown_path(const struct mapped_file *file)
{
    return file->path ? file->path : "a frame in memory";
}

/* ---- opening ------------------------------------------------------------ */

static enum error check_header(const struct mapped_file *file)
{
    const struct frame_header *header = mapped_file_header(file);
    if (file->size < sizeof(*header) ||
        memcmp(header->magic, FRAME_FILE_MAGIC, sizeof(header->magic)) != 0)
        return error_set(ERROR_INPUT,
                         "%s is not a frame file (it does not begin with \"" FRAME_FILE_MAGIC
                         "\"); tombola-sampler build makes one",
                         file->path);
    if (header->version != FRAME_FILE_VERSION)
        return error_set(ERROR_INPUT,
                         "%s is a frame file of version %" PRIu32
                         ", this program reads version %d; build it again",
                         file->path, header->version, FRAME_FILE_VERSION);
    if (header->file_bytes != file->size)
        return error_set(ERROR_INPUT,
                         "%s has %zu bytes, its header says %" PRIu64
                         ": it is cut off or damaged; build it again",
                         file->path, file->size, header->file_bytes);
    if (header->sections > FRAME_FILE_SECTIONS || file->size < FRAME_FILE_HEAD_BYTES)
        return error_set(ERROR_INPUT, "%s is damaged: a table of %" PRIu32 " sections", file->path,
                         header->sections);
    return OK;
}

static enum error check_header_sum(const struct mapped_file *file)
{
    uint8_t copy[FRAME_FILE_HEAD_BYTES];
    uint64_t expected = mapped_file_header(file)->checksum;
    memcpy(copy, file->bytes, sizeof(copy));
    memset(copy + offsetof(struct frame_header, checksum), 0, sizeof(expected));
    uint64_t found = XXH3_64bits(copy, sizeof(copy));
    if (found != expected)
        return error_set(ERROR_INPUT,
                         "%s is damaged: the checksum of its header is %016" PRIx64 ", %016" PRIx64
                         " was expected; build it again",
                         file->path, found, expected);
    return OK;
}

static enum error check_section(const struct mapped_file *file, uint32_t number)
{
    const struct frame_section *sections = sections_of(file);
    const struct frame_section *section = &sections[number];
    uint64_t bytes;
    if (!kind_name(section->kind))
        return error_set(ERROR_INPUT, "%s has a section of the unknown kind %" PRIu32, file->path,
                         section->kind);
    for (uint32_t i = 0; i < number; i++) {
        if (sections[i].kind == section->kind)
            return error_set(ERROR_INPUT, "%s is damaged: its section \"%s\" is there twice",
                             file->path, kind_name(section->kind));
    }
    bool is_sound =
        section->width == 1 || section->width == 2 || section->width == 4 || section->width == 8;
    is_sound = is_sound && section->offset % FRAME_FILE_ALIGNMENT == 0 &&
               section->offset <= file->size &&
               !__builtin_mul_overflow(section->count, section->width, &bytes) &&
               bytes <= file->size && frame_file_round_up(bytes) <= file->size - section->offset;
    if (!is_sound)
        return error_set(ERROR_INPUT,
                         "%s is damaged: its section \"%s\" (%" PRIu64 " times %" PRIu32
                         " bytes at byte %" PRIu64 ") does not fit",
                         file->path, kind_name(section->kind), section->count, section->width,
                         section->offset);
    return OK;
}

static enum error check_table(const struct mapped_file *file)
{
    enum error error = check_header(file);
    if (!error)
        error = check_header_sum(file);
    for (uint32_t i = 0; !error && i < mapped_file_header(file)->sections; i++)
        error = check_section(file, i);
    return error;
}

static enum error map(struct mapped_file *file)
{
    enum error error = file_identity_of(file->descriptor, file->path, &file->identity);
    if (error)
        return error;
    size_t size = file->identity.size_bytes;
    if (size == 0)
        return error_set(ERROR_INPUT, "%s is empty, a frame file was expected", file->path);
    void *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, file->descriptor, 0);
    if (bytes == MAP_FAILED)
        return error_set_errno(ERROR_IO, errno, "cannot map %s", file->path);
    file->bytes = bytes;
    file->size = size;
    return OK;
}

enum error mapped_file_open(const char *path, struct mapped_file *ret_file)
{
    struct mapped_file file = {.path = strdup(path), .descriptor = -1};
    enum error error = file.path ? OK : error_set_memory(strlen(path), "a file's name");
    if (!error)
        error = file_as_input(file_open_read(path, &file.descriptor), path);
    if (!error)
        error = map(&file);
    if (!error)
        error = check_table(&file);
    if (!error && file.size <= FRAME_FILE_CHECKED_BYTES)
        error = mapped_file_check_all(&file);
    if (error) {
        mapped_file_close(&file);
        return error;
    }
    *ret_file = file;
    return OK;
}

enum error mapped_file_watch(struct mapped_file *file)
{
    if (!file->path || file->watch)
        return OK;
    return frame_watch_new(file->path, file->descriptor, &file->identity, file->bytes, file->size,
                           &file->watch);
}

enum error mapped_file_check_same(const struct mapped_file *file)
{
    return file->watch ? frame_watch_check(file->watch) : OK;
}

/* ---- checksums ---------------------------------------------------------- */

enum error mapped_file_check(const struct mapped_file *file, const struct frame_section *section)
{
    size_t bytes = frame_file_round_up(section->count * section->width);
    uint64_t found = XXH3_64bits(file->bytes + section->offset, bytes);
    if (found != section->checksum)
        return error_set(ERROR_INPUT,
                         "%s is damaged: the checksum of its section \"%s\" (%zu bytes at byte "
                         "%" PRIu64 ") is %016" PRIx64 ", %016" PRIx64
                         " was expected; build it again",
                         shown_path(file), kind_name(section->kind), bytes, section->offset, found,
                         section->checksum);
    return OK;
}

enum error mapped_file_check_all(const struct mapped_file *file)
{
    const struct frame_header *header = mapped_file_header(file);
    enum error error = OK;
    for (uint32_t i = 0; i < header->sections && !error; i++)
        error = mapped_file_check(file, &sections_of(file)[i]);
    return error;
}
