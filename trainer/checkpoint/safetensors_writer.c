/* SPDX-License-Identifier: MIT */
/* The writer: a header with a digest of zeros, the data, then the digest in its place. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/file.h"
#include "common/json.h"
#include "trainer/checkpoint/safetensors.h"

#define DIGEST_DIGITS 32
static const char no_digest[] = "00000000000000000000000000000000";

static uint64_t entry_bytes(const struct safetensors_entry *entry)
{
    uint64_t bytes = safetensors_type_bytes(entry->type);
    for (size_t i = 0; i < entry->rank; i++)
        bytes *= entry->shape[i];
    return bytes;
}

static int compare_entries(const void *a, const void *b)
{
    const struct safetensors_entry *left = *(const struct safetensors_entry *const *)a;
    const struct safetensors_entry *right = *(const struct safetensors_entry *const *)b;
    if (left->type != right->type)
        return left->type > right->type ? -1 : 1;
    return strcmp(left->name, right->name);
}

/* `ret_digest_at` NULL: without a digest. */
static void add_metadata(struct buffer *header, const struct safetensors_pair *metadata,
                         size_t count, size_t *ret_digest_at)
{
    buffer_add_text(header, "{\"__metadata__\":{");
    if (ret_digest_at) {
        buffer_add_text(header, "\"" SAFETENSORS_DIGEST "\":\"");
        *ret_digest_at = header->length;
        buffer_print(header, "%s\"", no_digest);
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0 || ret_digest_at)
            buffer_add_text(header, ",");
        json_add_string(header, metadata[i].key);
        buffer_add_text(header, ":");
        json_add_string(header, metadata[i].value);
    }
    buffer_add_text(header, "}");
}

static void add_entry(struct buffer *header, const struct safetensors_entry *entry, uint64_t begin)
{
    buffer_add_text(header, ",");
    json_add_string(header, entry->name);
    buffer_print(header, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_type_name(entry->type));
    for (size_t i = 0; i < entry->rank; i++)
        buffer_print(header, "%s%" PRIu64, i ? "," : "", entry->shape[i]);
    buffer_print(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                 begin + entry_bytes(entry));
}

/* Makes the header, padded with spaces so that the data begins at a multiple of 8. */
static enum error make_header(struct buffer *header, const struct safetensors_entry **sorted,
                              size_t count, const struct safetensors_pair *metadata,
                              size_t metadata_count, size_t *ret_digest_at)
{
    uint64_t begin = 0;
    add_metadata(header, metadata, metadata_count, ret_digest_at);
    for (size_t i = 0; i < count; i++) {
        add_entry(header, sorted[i], begin);
        begin += entry_bytes(sorted[i]);
    }
    buffer_add_text(header, "}");
    while (!header->error && header->length % 8 != 0)
        buffer_add_text(header, " ");
    return header->error;
}

static void digest_text(XXH3_state_t *state, char out[DIGEST_DIGITS + 1])
{
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(out, DIGEST_DIGITS + 1, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

static enum error write_file(const char *path, const struct buffer *header, size_t digest_at,
                             const struct safetensors_entry **sorted, size_t count,
                             XXH3_state_t *state)
{
    uint64_t length = header->length;
    char digest[DIGEST_DIGITS + 1];
    struct file_writer *writer = NULL;
    enum error error = file_writer_open(path, &writer);
    if (!error)
        error = file_writer_add(writer, &length, sizeof(length));
    if (!error)
        error = file_writer_add(writer, header->data, header->length);
    if (error)
        goto out;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, header->data, header->length);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = entry_bytes(sorted[i]);
        if (bytes == 0)
            continue;
        error = file_writer_add(writer, sorted[i]->data, bytes);
        if (error)
            goto out;
        XXH3_128bits_update(state, sorted[i]->data, bytes);
    }
    digest_text(state, digest);
    error = file_writer_patch(writer, digest, DIGEST_DIGITS, sizeof(length) + digest_at);
    if (!error)
        error = file_writer_commit(writer);
out:
    file_writer_close(writer);
    return error;
}

static enum error sort(const struct safetensors_entry *entries, size_t count,
                       const struct safetensors_entry ***ret_sorted)
{
    const struct safetensors_entry **sorted =
        array_new(count, sizeof(const struct safetensors_entry *), "the tensors of a file");
    if (!sorted)
        return ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &entries[i];
    qsort(sorted, count, sizeof(const struct safetensors_entry *), compare_entries);
    *ret_sorted = sorted;
    return OK;
}

enum error safetensors_print(const struct safetensors_entry *entries, size_t count,
                             const struct safetensors_pair *metadata, size_t metadata_count,
                             struct buffer *out)
{
    struct buffer header = BUFFER_INIT(SAFETENSORS_HEADER_LIMIT);
    const struct safetensors_entry **sorted = NULL;
    enum error error = sort(entries, count, &sorted);
    if (!error)
        error = make_header(&header, sorted, count, metadata, metadata_count, NULL);
    if (!error) {
        uint64_t length = header.length;
        buffer_add(out, &length, sizeof(length));
        buffer_add(out, header.data, header.length);
        for (size_t i = 0; i < count; i++)
            buffer_add(out, sorted[i]->data, entry_bytes(sorted[i]));
        error = out->error;
    }
    free(sorted);
    buffer_release(&header);
    return error;
}

enum error safetensors_write(const char *path, const struct safetensors_entry *entries,
                             size_t count, const struct safetensors_pair *metadata,
                             size_t metadata_count)
{
    struct buffer header = BUFFER_INIT(SAFETENSORS_HEADER_LIMIT);
    const struct safetensors_entry **sorted = NULL;
    XXH3_state_t *state = NULL;
    size_t digest_at = 0;
    enum error error = sort(entries, count, &sorted);
    if (error)
        return error;
    state = XXH3_createState();
    if (!state) {
        error = error_set_memory(1024, "a digest");
        goto out;
    }
    error = make_header(&header, sorted, count, metadata, metadata_count, &digest_at);
    if (error) {
        error = error_prefix(error, "header of %s: ", path);
        goto out;
    }
    error = write_file(path, &header, digest_at, sorted, count, state);
out:
    XXH3_freeState(state);
    free(sorted);
    buffer_release(&header);
    return error;
}
