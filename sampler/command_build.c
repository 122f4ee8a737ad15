/* SPDX-License-Identifier: MIT */
/* `tombola-sampler build`: a frame file from a store, all or nothing. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/command/options.h"
#include "common/hang.h"
#include "common/log.h"
#include "common/text.h"
#include "sampler/build/frame_build.h"
#include "sampler/commands.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/frame_file.h"
#include "sampler/frame/frame_summary.h"

#define STOP_MS 5000 /* time for disk I/O after a signal: may have to close files */

struct build_options {
    const char *store;
    const char *out;
    const char *memory;
    uint64_t memory_bytes; /* 0: see frame_build.h */
};

/* "512M", "2G", "800000000". */
static enum error read_memory(struct build_options *build)
{
    char shown[TEXT_QUOTE_BYTES];
    int64_t bytes;
    if (!build->memory)
        return OK;
    if (!text_parse_bytes(build->memory, FRAME_MEMORY_LEAST, &bytes))
        return error_set(
            ERROR_USAGE,
            "--memory is %s, must be a number of bytes, which may end in K, M, G or T, "
            "and at least %" PRIu64 "M",
            text_quote(shown, sizeof(shown), build->memory, strlen(build->memory)),
            FRAME_MEMORY_LEAST >> 20);
    build->memory_bytes = (uint64_t)bytes;
    return OK;
}

static enum error parse(struct build_options *build, const struct program *program, int argc,
                        char **argv)
{
    const struct option options[] = {
        {.name = "store",
         .type = OPTION_TEXT,
         .target = &build->store,
         .argument = "URI",
         .required = true,
         .repeated = true,
         .help = "the training set: csv:PATH, rows:PATH, parquet:PATH, sqlite:PATH, "
                 "postgresql://..., range:N?labels=K; repeated, or with a folder or a pattern "
                 "(csv:part-*.csv) for PATH, all files in that order"},
        {.name = "out",
         .type = OPTION_TEXT,
         .target = &build->out,
         .argument = "FILE",
         .required = true,
         .is_output = true,
         .help = "the frame file; it appears under this name once it is complete, and may replace "
                 "another frame, but no other file"},
        {.name = "memory",
         .type = OPTION_TEXT,
         .target = &build->memory,
         .argument = "BYTES",
         .help = "working memory, such as 512M or 2G, at least 64M; what does not fit is in "
                 "temporary files beside FILE (default: a quarter of the machine's or the "
                 "container's, at most 2G)"},
    };
    enum error error = options_parse(program, &command_build, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, NULL);
    return error ? error : read_memory(build);
}

/* Overwrites only a frame, or nothing: a typo would cost the data. */
static enum error check_out(const char *path)
{
    char magic[sizeof(FRAME_FILE_MAGIC) - 1];
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return OK; /* the writer reports what is wrong with it, if anything */
    ssize_t got = read(descriptor, magic, sizeof(magic));
    close(descriptor);
    if (got == 0 || got == -1 ||
        (got == sizeof(magic) && memcmp(magic, FRAME_FILE_MAGIC, sizeof(magic)) == 0))
        return OK;
    return error_set(ERROR_CONFLICT,
                     "--out %s exists, and is not a frame file; name another one, or remove it "
                     "first",
                     path);
}

static enum error report(const struct frame *frame, const char *path)
{
    char digest[FRAME_DIGEST_TEXT_BYTES], size[FRAME_SIZE_BYTES];
    frame_digest_text(frame_digest(frame), digest);
    frame_summary_size(frame, frame_units(frame), size);
    if (printf("%s: %s, digest %s\n", path, size, digest) < 0 || fflush(stdout) != 0)
        return error_set(ERROR_IO, "cannot write to standard output");
    return OK;
}

static enum error build(const struct build_options *options)
{
    int64_t start_ns = clock_now_ns();
    struct frame *frame = NULL;
    struct hang hang;
    hang_begin(&hang, STOP_MS, "while the disk of %s does not answer; what has that name is whole",
               options->out);
    enum error error = check_out(options->out);
    if (!error)
        error = frame_build_file(options->store, options->out, options->memory_bytes);
    if (!error)
        error = frame_open(options->out, &frame);
    if (!error) {
        log_info("built %s in %.1f s", options->out, 1e-9 * (double)(clock_now_ns() - start_ns));
        frame_warn_of_labels(frame, options->out);
        error = report(frame, options->out);
    }
    frame_free(frame);
    hang_end(&hang);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct build_options options = {.store = NULL};
    enum error error = parse(&options, program, argc, argv);
    if (!error)
        error = build(&options);
    return error;
}

const struct command command_build = {
    .name = "build",
    .summary = "make a frame file from a store",
    .details =
        "Reads ids and labels once, so that `serve --frame FILE` starts at once at any size.\n"
        "Prints the file's name, units, labels and digest; progress goes to the log.\n"
        "\n"
        "  tombola-sampler build --store csv:train.csv --out train.frame\n"
        "  tombola-sampler build --store 'csv:part-*.csv' --memory 1G --out train.frame\n"
        "  tombola-sampler build --store 'range:1000000000?labels=10' --out trial.frame\n",
    .run = run,
};
