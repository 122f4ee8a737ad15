/* SPDX-License-Identifier: MIT */
/* Types and reader. The header is parsed once, at open; data is read on demand with pread. */
#include "trainer/checkpoint/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"

#define PREFIX_BYTES 8
#define CHUNK_BYTES (1 << 20)

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [SAFETENSORS_BOOL] = {"BOOL", 1},       [SAFETENSORS_U8] = {"U8", 1},
    [SAFETENSORS_I8] = {"I8", 1},           [SAFETENSORS_F8_E5M2] = {"F8_E5M2", 1},
    [SAFETENSORS_F8_E4M3] = {"F8_E4M3", 1}, [SAFETENSORS_F8_E8M0] = {"F8_E8M0", 1},
    [SAFETENSORS_I16] = {"I16", 2},         [SAFETENSORS_U16] = {"U16", 2},
    [SAFETENSORS_F16] = {"F16", 2},         [SAFETENSORS_BF16] = {"BF16", 2},
    [SAFETENSORS_I32] = {"I32", 4},         [SAFETENSORS_U32] = {"U32", 4},
    [SAFETENSORS_F32] = {"F32", 4},         [SAFETENSORS_C64] = {"C64", 8},
    [SAFETENSORS_F64] = {"F64", 8},         [SAFETENSORS_I64] = {"I64", 8},
    [SAFETENSORS_U64] = {"U64", 8},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

struct safetensors {
    char *path;
    int descriptor;
    uint64_t header_bytes; /* N */
    uint64_t data_bytes;   /* after the header */
    char *header;          /* [N], NUL-terminated */
    cJSON *json;
    const cJSON *metadata; /* in json; NULL: none */
    struct safetensors_tensor *tensors;
    size_t count;
};

const char *safetensors_type_name(enum safetensors_type type)
{
    return types[type].name;
}

size_t safetensors_type_bytes(enum safetensors_type type)
{
    return types[type].bytes;
}

static const char *quote(char out[TEXT_QUOTE_BYTES], const char *text)
{
    return text_quote(out, TEXT_QUOTE_BYTES, text, strlen(text));
}

static enum error parse_type(const cJSON *item, const char *name, enum safetensors_type *ret_type)
{
    const char *text;
    enum error error = json_get_text(item, "dtype", name, &text);
    if (error)
        return error;
    for (size_t i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, text) == 0) {
            *ret_type = (enum safetensors_type)i;
            return OK;
        }
    }
    char quoted[TEXT_QUOTE_BYTES];
    return error_set(ERROR_INPUT, "%s has the unknown dtype %s", name, quote(quoted, text));
}

static bool read_count(const cJSON *item, uint64_t *ret_value)
{
    int64_t value;
    if (!json_integer(item, &value) || value < 0)
        return false;
    *ret_value = (uint64_t)value;
    return true;
}

static enum error parse_shape(const cJSON *item, const char *name,
                              struct safetensors_tensor *tensor, uint64_t *ret_bytes)
{
    uint64_t bytes = safetensors_type_bytes(tensor->type);
    const cJSON *shape, *dimension;
    enum error error = json_get_array(item, "shape", name, &shape);
    if (error)
        return error;
    cJSON_ArrayForEach(dimension, shape)
    {
        if (tensor->rank == SAFETENSORS_RANK_LIMIT)
            return error_set(ERROR_INPUT, "%s has more than %d dimensions", name,
                             SAFETENSORS_RANK_LIMIT);
        uint64_t size;
        if (!read_count(dimension, &size))
            return error_set(ERROR_INPUT, "%s: dimension %zu of its shape is not a count", name,
                             tensor->rank);
        tensor->shape[tensor->rank++] = size;
        if (__builtin_mul_overflow(bytes, size, &bytes))
            return error_set(ERROR_INPUT, "%s: its shape has more than 2^64 bytes", name);
    }
    *ret_bytes = bytes;
    return OK;
}

static enum error parse_offsets(const cJSON *item, const char *name, uint64_t bytes,
                                struct safetensors_tensor *tensor)
{
    const cJSON *offsets;
    enum error error = json_get_array(item, "data_offsets", name, &offsets);
    if (error)
        return error;
    if (cJSON_GetArraySize(offsets) != 2 || !read_count(offsets->child, &tensor->begin) ||
        !read_count(offsets->child->next, &tensor->end) || tensor->begin > tensor->end)
        return error_set(ERROR_INPUT, "%s: data_offsets are not [begin, end]", name);
    if (tensor->end - tensor->begin != bytes)
        return error_set(ERROR_INPUT, "%s: data_offsets span %llu bytes, its shape needs %llu",
                         name, (unsigned long long)(tensor->end - tensor->begin),
                         (unsigned long long)bytes);
    return OK;
}

static enum error parse_tensor(const cJSON *item, struct safetensors_tensor *tensor)
{
    char name[TEXT_QUOTE_BYTES + 16], quoted[TEXT_QUOTE_BYTES];
    uint64_t bytes = 0;
    snprintf(name, sizeof(name), "tensor %s", quote(quoted, item->string));
    if (!cJSON_IsObject(item))
        return error_set(ERROR_INPUT, "%s is not described by an object", name);
    if (cJSON_GetArraySize(item) != 3)
        return error_set(ERROR_INPUT, "%s: not exactly dtype, shape and data_offsets", name);
    enum error error = parse_type(item, name, &tensor->type);
    if (!error)
        error = parse_shape(item, name, tensor, &bytes);
    if (!error)
        error = parse_offsets(item, name, bytes, tensor);
    if (error)
        return error;
    tensor->name = strdup(item->string);
    return tensor->name ? OK : error_set_memory(strlen(item->string), "a tensor's name");
}

static enum error parse_metadata(const cJSON *item)
{
    if (!cJSON_IsObject(item))
        return error_set(ERROR_INPUT, "__metadata__ is not an object");
    const cJSON *entry;
    char quoted[TEXT_QUOTE_BYTES];
    cJSON_ArrayForEach(entry, item)
    {
        if (!cJSON_IsString(entry))
            return error_set(ERROR_INPUT, "metadata entry %s is not a text",
                             quote(quoted, entry->string));
    }
    return OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

static enum error check_layout(struct safetensors *file)
{
    uint64_t end = 0;
    qsort(file->tensors, file->count, sizeof(*file->tensors), compare_offsets);
    char quoted[TEXT_QUOTE_BYTES];
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->begin != end)
            return error_set(ERROR_INPUT, "tensor %s begins at byte %llu of the data, not at %llu",
                             quote(quoted, tensor->name), (unsigned long long)tensor->begin,
                             (unsigned long long)end);
        end = tensor->end;
    }
    if (end != file->data_bytes)
        return error_set(ERROR_INPUT, "the tensors have %llu bytes, the file has %llu for them",
                         (unsigned long long)end, (unsigned long long)file->data_bytes);
    return OK;
}

static enum error parse_header(struct safetensors *file)
{
    size_t length = file->header_bytes;
    if (length == 0 || file->header[0] != '{')
        return error_set(ERROR_INPUT, "the header does not begin with '{'");
    while (file->header[length - 1] == ' ')
        length--;
    enum error error = json_parse(file->header, length, "the header", &file->json);
    if (error)
        return error;
    file->tensors = array_new((size_t)cJSON_GetArraySize(file->json), sizeof(*file->tensors),
                              "the tensors of a file");
    if (!file->tensors)
        return ERROR_MEMORY;
    const cJSON *item;
    cJSON_ArrayForEach(item, file->json)
    {
        if (strcmp(item->string, "__metadata__") == 0) {
            file->metadata = item;
            error = parse_metadata(item);
        } else {
            error = parse_tensor(item, &file->tensors[file->count++]);
        }
        if (error)
            return error;
    }
    return check_layout(file);
}

static enum error read_header(struct safetensors *file)
{
    struct file_identity identity;
    uint64_t length = 0;
    enum error error = file_identity_of(file->descriptor, file->path, &identity);
    if (error)
        return error;
    if (identity.size_bytes < PREFIX_BYTES + 2)
        return error_set(ERROR_INPUT, "%llu bytes are too few for a safetensors file",
                         (unsigned long long)identity.size_bytes);
    unsigned char prefix[PREFIX_BYTES];
    error = file_read_at(file->descriptor, file->path, prefix, sizeof(prefix), 0);
    if (error)
        return error;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | prefix[i];
    if (length > SAFETENSORS_HEADER_LIMIT)
        return error_set(ERROR_INPUT, "not a safetensors file: a header of %llu bytes (limit %d)",
                         (unsigned long long)length, SAFETENSORS_HEADER_LIMIT);
    if (length > identity.size_bytes - PREFIX_BYTES)
        return error_set(ERROR_INPUT, "it ends inside its header, at byte %llu of %llu",
                         (unsigned long long)identity.size_bytes,
                         (unsigned long long)length + PREFIX_BYTES);
    file->header_bytes = length;
    file->data_bytes = identity.size_bytes - PREFIX_BYTES - length;
    file->header = array_new(length + 1, 1, "the header of a safetensors file");
    if (!file->header)
        return ERROR_MEMORY;
    return file_read_at(file->descriptor, file->path, file->header, length, PREFIX_BYTES);
}

/* Takes the descriptor. */
static enum error open_descriptor(int descriptor, const char *path, struct safetensors **ret_file)
{
    struct safetensors *file = array_new(1, sizeof(*file), "a safetensors file");
    if (!file) {
        close(descriptor);
        return ERROR_MEMORY;
    }
    file->descriptor = descriptor;
    file->path = strdup(path);
    enum error error = file->path ? OK : error_set_memory(strlen(path), "a path");
    if (!error)
        error = read_header(file);
    if (!error)
        error = parse_header(file);
    if (error) {
        safetensors_close(file);
        return error_prefix(error, "%s: ", path);
    }
    *ret_file = file;
    return OK;
}

enum error safetensors_open(const char *path, struct safetensors **ret_file)
{
    int descriptor;
    enum error error = file_open_read(path, &descriptor);
    return error ? error : open_descriptor(descriptor, path, ret_file);
}

enum error safetensors_open_bytes(const char *name, const void *bytes, size_t length,
                                  struct safetensors **ret_file)
{
    int descriptor = memfd_create("safetensors", MFD_CLOEXEC);
    if (descriptor < 0 || write(descriptor, bytes, length) != (ssize_t)length) {
        enum error error = error_set_errno(ERROR_MEMORY, errno, "no memory for %s", name);
        if (descriptor >= 0)
            close(descriptor);
        return error;
    }
    return open_descriptor(descriptor, name, ret_file);
}

void safetensors_close(struct safetensors *file)
{
    if (!file)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    for (size_t i = 0; i < file->count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    cJSON_Delete(file->json);
    free(file->header);
    free(file->path);
    free(file);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    }
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(file->metadata, key);
    return item ? item->valuestring : NULL;
}

enum error safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                            void *out, size_t bytes)
{
    char quoted[TEXT_QUOTE_BYTES];
    if (bytes != tensor->end - tensor->begin)
        return error_set(ERROR_INPUT, "%s: tensor %s has %llu bytes, %zu were expected", file->path,
                         quote(quoted, tensor->name),
                         (unsigned long long)(tensor->end - tensor->begin), bytes);
    return file_read_at(file->descriptor, file->path, out, bytes,
                        PREFIX_BYTES + file->header_bytes + tensor->begin);
}

/* Hashes the header as the writer did: with zeros in place of the digest's digits. */
static enum error hash_header(const struct safetensors *file, const char *digest,
                              XXH3_state_t *state)
{
    size_t length = strlen(digest);
    char *place = memmem(file->header, file->header_bytes, digest, length);
    if (length != 32 || !place)
        return error_set(ERROR_INPUT, "%s: its digest is not a hexadecimal XXH3-128", file->path);
    char *copy = array_new(file->header_bytes, 1, "the header of a safetensors file");
    if (!copy)
        return ERROR_MEMORY;
    memcpy(copy, file->header, file->header_bytes);
    memset(copy + (place - file->header), '0', length);
    XXH3_128bits_update(state, copy, file->header_bytes);
    free(copy);
    return OK;
}

static enum error hash_data(const struct safetensors *file, XXH3_state_t *state)
{
    char *chunk = array_new(CHUNK_BYTES, 1, "reading a safetensors file");
    enum error error = chunk ? OK : ERROR_MEMORY;
    for (uint64_t at = 0; at < file->data_bytes && !error;) {
        uint64_t left = file->data_bytes - at;
        size_t bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        error = file_read_at(file->descriptor, file->path, chunk, bytes,
                             PREFIX_BYTES + file->header_bytes + at);
        if (!error)
            XXH3_128bits_update(state, chunk, bytes);
        at += bytes;
    }
    free(chunk);
    return error;
}

enum error safetensors_copy(const struct safetensors *file, const char *path)
{
    struct file_writer *writer = NULL;
    uint64_t end = PREFIX_BYTES + file->header_bytes + file->data_bytes;
    char *chunk = array_new(CHUNK_BYTES, 1, "a copy of a safetensors file");
    enum error error = chunk ? file_writer_open(path, &writer) : ERROR_MEMORY;
    for (uint64_t at = 0; at < end && !error; at += CHUNK_BYTES) {
        size_t bytes = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
        error = file_read_at(file->descriptor, file->path, chunk, bytes, at);
        if (!error)
            error = file_writer_add(writer, chunk, bytes);
    }
    if (!error)
        error = file_writer_commit(writer);
    file_writer_close(writer);
    free(chunk);
    return error;
}

enum error safetensors_verify(const struct safetensors *file)
{
    const char *digest = safetensors_metadata(file, SAFETENSORS_DIGEST);
    XXH3_state_t *state;
    XXH128_hash_t hash;
    char text[33];
    if (!digest)
        return error_set(ERROR_INPUT, "%s: has no digest (metadata %s): not a file of this program",
                         file->path, SAFETENSORS_DIGEST);
    state = XXH3_createState();
    if (!state)
        return error_set_memory(1024, "a digest");
    XXH3_128bits_reset(state);
    enum error error = hash_header(file, digest, state);
    if (!error)
        error = hash_data(file, state);
    if (error)
        goto out;
    hash = XXH3_128bits_digest(state);
    snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    if (strcmp(text, digest) != 0)
        error = error_set(ERROR_INPUT,
                          "%s is damaged: its digest is %s, it says %s (a program that rewrites it "
                          "must leave the metadata entry " SAFETENSORS_DIGEST " out)",
                          file->path, text, digest);
out:
    XXH3_freeState(state);
    return error;
}
