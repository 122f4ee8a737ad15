/* SPDX-License-Identifier: MIT */
/* Whatever the bytes: the reader refuses them, or every tensor lies inside the file and can be
 * read. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/json.h"
#include "trainer/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Every tensor that the header names; together they are all of the data. */
static void read_all(const struct safetensors *file, const uint8_t *data, size_t length)
{
    uint64_t header, total = 0;
    const cJSON *item;
    cJSON *json;
    memcpy(&header, data, sizeof(header));
    check(header <= length - sizeof(header));
    length -= sizeof(header) + header;
    check(!json_parse((const char *)data + sizeof(header), header, "the header", &json));
    cJSON_ArrayForEach(item, json)
    {
        if (strcmp(item->string, "__metadata__") == 0)
            continue;
        const struct safetensors_tensor *tensor = safetensors_find(file, item->string);
        check(tensor && tensor->end >= tensor->begin && tensor->end <= length);
        size_t bytes = tensor->end - tensor->begin;
        total += bytes;
        void *out = malloc(bytes ? bytes : 1);
        check(out && !safetensors_read(file, tensor, out, bytes));
        free(out);
    }
    check(total == length);
    cJSON_Delete(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct safetensors *file = NULL;
    char path[64];
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);

    check(descriptor >= 0 && write(descriptor, data, length) == (ssize_t)length);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
    if (!safetensors_open(path, &file)) {
        enum error error = safetensors_verify(file);

        check(!error || error == ERROR_INPUT);
        (void)safetensors_metadata(file, "format");
        read_all(file, data, length);
    }
    safetensors_close(file);
    close(descriptor);
    return 0;
}
