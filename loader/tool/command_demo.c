/* SPDX-License-Identifier: MIT */
/*
 * `tombola-loader demo DIR`: a training and a test set in the classic form, label,p0,...,p783
 * without a header. Test rows continue the sequence of digits where the training rows end, so no
 * row is in both. An existing file is kept if it holds the same bytes, and overwritten only with
 * --force: the names are also those of the real MNIST.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/command/options.h"
#include "common/file.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/tool/commands.h"
#include "loader/tool/digit.h"

#define ROW_BYTES (2 + DIGIT_PIXELS * 4)
#define ROWS_LIMIT 100000000
#define TEST_SHARE 5 /* training rows per test row */
#define PROGRESS_MS 2000

struct demo {
    const char *folder;
    int64_t rows;
    int64_t seed;
    bool force;
};

static size_t print_row(uint64_t seed, int64_t number, char *out)
{
    uint8_t pixels[DIGIT_PIXELS];
    char *end = text_write_integer(out, digit_draw(seed, (uint64_t)number, pixels));
    for (size_t i = 0; i < DIGIT_PIXELS; i++) {
        *end++ = ',';
        end = text_write_integer(end, pixels[i]);
    }
    *end++ = '\n';
    return (size_t)(end - out);
}

static enum error write_rows(struct file_writer *writer, const char *path, uint64_t seed,
                             int64_t first, int64_t rows)
{
    char row[ROW_BYTES];
    int64_t report_ns = clock_deadline_ns(PROGRESS_MS);
    for (int64_t i = 0; i < rows; i++) {
        enum error error = file_writer_add(writer, row, print_row(seed, first + i, row));
        if (error)
            return error;
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped before %s was complete; nothing was left",
                             path);
        if (clock_now_ns() > report_ns) {
            log_info("%s: %lld of %lld rows", path, (long long)(i + 1), (long long)rows);
            report_ns = clock_deadline_ns(PROGRESS_MS);
        }
    }
    return OK;
}

/* Do two open files hold the same bytes? */
static enum error compare(int a, const char *a_path, int b, const char *b_path, bool *ret_same)
{
    struct file_identity a_identity, b_identity;
    char a_bytes[1 << 14], b_bytes[1 << 14];
    enum error error = file_identity_of(a, a_path, &a_identity);
    if (!error)
        error = file_identity_of(b, b_path, &b_identity);
    if (error)
        return error;
    *ret_same = a_identity.size_bytes == b_identity.size_bytes;
    for (uint64_t at = 0; *ret_same && at < a_identity.size_bytes; at += sizeof(a_bytes)) {
        size_t part = sizeof(a_bytes);
        if (part > a_identity.size_bytes - at)
            part = (size_t)(a_identity.size_bytes - at);
        error = file_read_at(a, a_path, a_bytes, part, at);
        if (!error)
            error = file_read_at(b, b_path, b_bytes, part, at);
        if (error)
            return error;
        *ret_same = memcmp(a_bytes, b_bytes, part) == 0;
    }
    return OK;
}

/* *ret_same: `path` exists with the same bytes as the flushed temporary file. */
static enum error is_there(const char *path, struct file_writer *writer, bool *ret_exists,
                           bool *ret_same)
{
    const char *temporary = file_writer_temporary_path(writer);
    int old = -1, new = -1;
    *ret_exists = access(path, F_OK) == 0;
    *ret_same = false;
    if (!*ret_exists)
        return OK;
    enum error error = file_writer_flush(writer);
    if (!error)
        error = file_open_read(path, &old);
    if (!error)
        error = file_open_read(temporary, &new);
    if (!error)
        error = compare(old, path, new, temporary, ret_same);
    if (old >= 0)
        close(old);
    if (new >= 0)
        close(new);
    return error;
}

static enum error publish(const struct demo *demo, struct file_writer *writer, const char *path,
                          const char **ret_what)
{
    bool exists, same;
    enum error error = is_there(path, writer, &exists, &same);
    if (error)
        return error;
    if (same) {
        *ret_what = "was there already";
        return OK;
    }
    if (exists && !demo->force)
        return error_set(ERROR_CONFLICT,
                         "%s exists and holds something else; name another folder, or overwrite it "
                         "with --force",
                         path);
    *ret_what = exists ? "overwritten" : "written";
    return file_writer_commit(writer);
}

static enum error make_file(const struct demo *demo, const char *name, int64_t first, int64_t rows)
{
    struct file_writer *writer = NULL;
    char *path = NULL;
    const char *what = NULL;
    if (asprintf(&path, "%s/%s", demo->folder, name) < 0)
        return error_set_memory(strlen(demo->folder) + strlen(name), "a file name");
    enum error error = file_writer_open(path, &writer);
    if (!error)
        error = write_rows(writer, path, (uint64_t)demo->seed, first, rows);
    uint64_t bytes = !error ? file_writer_length(writer) : 0;
    if (!error)
        error = publish(demo, writer, path, &what);
    if (!error)
        printf("%s: %lld %s, %.1f MB, %s\n", path, (long long)rows,
               text_plural(rows, "row", "rows"), (double)bytes / 1e6, what);
    file_writer_close(writer);
    free(path);
    return error;
}

/* On failure, removes a folder that it created. */
static enum error make_files(const struct demo *demo)
{
    struct error_report report;
    size_t there = file_folders_there(demo->folder);
    enum error error = file_make_folders(demo->folder);
    if (!error)
        file_sync_above(demo->folder);
    if (!error)
        error = make_file(demo, "mnist_train.csv", 0, demo->rows);
    if (!error)
        error = make_file(demo, "mnist_test.csv", demo->rows,
                          demo->rows < TEST_SHARE ? 1 : demo->rows / TEST_SHARE);
    if (!error)
        return OK;
    error_report_take(error, &report);
    file_remove_folders(demo->folder, there);
    return error_restore(&report);
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct demo demo = {.rows = 20000, .seed = 1};
    char **positional;
    const struct option options[] = {
        {.name = "rows",
         .type = OPTION_INTEGER,
         .target = &demo.rows,
         .argument = "N",
         .help = "training rows; the test set has a fifth as many, at least 1",
         .minimum = 1,
         .maximum = ROWS_LIMIT},
        {.name = "seed",
         .type = OPTION_INTEGER,
         .target = &demo.seed,
         .argument = "S",
         .help = "seed of the digits; the same seed gives the same bytes on every "
                 "machine",
         .minimum = 0,
         .maximum = (long double)INT64_MAX},
        {.name = "force",
         .type = OPTION_FLAG,
         .target = &demo.force,
         .help = "overwrite existing files whose content differs"},
    };
    enum error error = options_parse(program, &command_demo, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, &positional);
    if (error)
        return error;
    demo.folder = positional[0];
    return make_files(&demo);
}

const struct command command_demo = {
    .name = "demo",
    .positional = "DIR",
    .summary =
        "make a demo data set of handwritten-looking digits: mnist_train.csv, mnist_test.csv",
    .details =
        "The files have the classic form of MNIST as CSV: label,p0,...,p783 (28 x 28 pixels, 0 to\n"
        "255), no header. A row of them takes 2 KB; 20000 rows are made in about a second.\n"
        "\n"
        "  tombola-loader demo data\n"
        "  tombola-loader info 'csv:data/mnist_train.csv?label=0&header=no'\n",
    .run = run,
    .ends_anywhere = true,
};
