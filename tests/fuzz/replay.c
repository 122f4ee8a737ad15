/* SPDX-License-Identifier: MIT */
/*
 * main() of the fuzz targets where libFuzzer is not: runs the target once over every file of its
 * corpus and prints TAP, so that `make check` does it in every build. Arguments are files to run
 * instead. fuzz_uri's corpus is tests/fuzz/corpus/uri under $srcdir.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"

#define INPUT_BYTES_LIMIT (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static int run_file(const char *path)
{
    struct buffer input = BUFFER_INIT(INPUT_BYTES_LIMIT);
    enum error error = file_read_whole(path, &input);
    if (!error) {
        uint8_t *exact = malloc(input.length ? input.length : 1); /* the sanitizer sees the end */
        if (exact) {
            memcpy(exact, input.data, input.length);
            LLVMFuzzerTestOneInput(exact, input.length);
        }
        free(exact);
    } else {
        printf("# %s\n", error_message());
    }
    buffer_release(&input);
    return error;
}

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run_corpus(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_input, alphasort);
    int failures = 0;
    if (count <= 0) {
        printf("1..1\nnot ok 1 - no inputs in %s\n", folder);
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        fflush(stdout); /* what ran last is known when the target crashes */
        int failed = run_file(path);
        printf("%sok %d - %s\n", failed ? "not " : "", i + 1, entries[i]->d_name);
        failures += failed;
        free(entries[i]);
    }
    free(entries);
    return failures;
}

int main(int argc, char **argv)
{
    int failures = 0;
    if (argc > 1) {
        for (int i = 1; i < argc; i++)
            failures += run_file(argv[i]);
        return failures != 0;
    }
    char folder[2048];
    const char *root = getenv("srcdir");
    const char *name = strstr(argv[0], "fuzz_");
    for (const char *next = name; next; next = strstr(next + 1, "fuzz_"))
        name = next;
    snprintf(folder, sizeof(folder), "%s/tests/fuzz/corpus/%s", root ? root : ".",
             name ? name + strlen("fuzz_") : argv[0]);
    return run_corpus(folder) != 0;
}
