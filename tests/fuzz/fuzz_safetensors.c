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

#include "trainer/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_all(const struct safetensors *file, size_t length)
{
    uint64_t end = 0;

    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        size_t bytes = tensor->end - tensor->begin;
        void *out;

        check(tensor->begin == end && tensor->end >= tensor->begin && tensor->end <= length);
        check(safetensors_find(file, tensor->name) != NULL);
        end = tensor->end;
        out = malloc(bytes ? bytes : 1);
        check(out && !safetensors_read(file, tensor, out, bytes));
        free(out);
    }
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
        read_all(file, length);
    }
    safetensors_close(file);
    close(descriptor);
    return 0;
}
