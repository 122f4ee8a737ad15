/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/events/event_writer: with event_encoding and event_file. That TensorBoard reads
 * the records is seen in test_events.py; here, that whole events are all that is in a file.
 */
#include "tests/unit/folder_unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/json.h"
#include "trainer/events/event_file.h"
#include "trainer/events/event_writer.h"

/* ---- files -------------------------------------------------------------- */

/* The name of the only event file that `before` does not name. */
static void find_event_file(char path[512], const char *before)
{
    int found = 0;
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        char name[512];
        snprintf(name, sizeof(name), "%s/%.200s", folder, entry->d_name);
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) != 0 || strcmp(name, before) == 0)
            continue;
        strcpy(path, name);
        found++;
    }
    closedir(list);
    assert_int_equal(found, 1);
}

/* The number of records; each is whole. */
static size_t count_records(const char *path)
{
    size_t count = 0, at = 0;
    struct buffer text = BUFFER_INIT(1 << 24);
    assert_ok(file_read_whole(path, &text));
    for (; at < text.length; count++) {
        uint64_t length;
        assert_true(text.length - at >= 16);
        memcpy(&length, text.data + at, sizeof(length));
        assert_true(length <= text.length - at - 16);
        at += 16 + length;
    }
    buffer_release(&text);
    return count;
}

static const char *lines_path(void)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/events.jsonl", folder);
    return path;
}

/* Line `number` of events.jsonl, or NULL behind the last; cJSON_Delete() it. */
static cJSON *find_line(size_t number)
{
    struct buffer text = BUFFER_INIT(1 << 24);
    cJSON *json = NULL;
    assert_ok(file_read_whole(lines_path(), &text));
    assert_true(text.length == 0 || text.data[text.length - 1] == '\n');
    char *line = text.data ? text.data : (char[]){""};
    for (; number > 0 && *line; number--)
        line = strchr(line, '\n') + 1;
    if (*line)
        assert_ok(json_parse(line, strcspn(line, "\n"), "a line", &json));
    buffer_release(&text);
    return json;
}

static cJSON *read_line(size_t number)
{
    cJSON *line = find_line(number);
    assert_non_null(line);
    return line;
}

static size_t count_lines(void)
{
    size_t count = 0;
    for (cJSON *line = find_line(0); line; line = find_line(++count))
        cJSON_Delete(line);
    return count;
}

static double number_of(const cJSON *line, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static const char *text_of(const cJSON *line, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    assert_true(cJSON_IsString(item));
    return item->valuestring;
}

static void add_tensor(struct event_writer *writer, int64_t step, const char *tag,
                       const float *values, size_t count)
{
    struct event_tensor *tensor = calloc(1, sizeof(*tensor));
    float *copy = malloc(count * sizeof(*copy));
    assert_true(tensor && copy);
    *tensor = (struct event_tensor){.count = count};
    strcpy(tensor->tag, tag);
    memcpy(copy, values, count * sizeof(*copy));
    event_writer_tensors(writer, step, tensor, 1, copy);
}

/* ---- tests -------------------------------------------------------------- */

static void test_events_are_in_both_files(void **state)
{
    static const struct event_scalar scalars[] = {{"loss", 0.5}, {"a \"tag\"", NAN}};
    static const float values[] = {1, 2, 3};
    struct event_writer *writer;
    char path[512];
    (void)state;
    double before = clock_wall_seconds();
    assert_ok(event_writer_open(folder, false, &writer));
    event_writer_session(writer, 0, EVENT_START, NULL);
    event_writer_scalars(writer, 7, scalars, 2);
    event_writer_session(writer, 9, EVENT_CHECKPOINT, "run/model.ckpt-9.safetensors");
    add_tensor(writer, INT64_C(1) << 40, "hid_w", values, 3); /* the last line, whenever it goes */
    event_writer_close(writer);
    event_writer_close(NULL);

    find_event_file(path, "");
    assert_int_equal(count_records(path), 5); /* the version, too */
    cJSON *line = read_line(0);
    assert_string_equal(text_of(line, "session"), "start");
    assert_null(cJSON_GetObjectItem(line, "path"));
    cJSON_Delete(line);
    line = read_line(1);
    assert_true(number_of(line, "step") == 7 && number_of(line, "loss") == 0.5);
    assert_true(number_of(line, "wall_time") >= before - 1e-3);
    assert_true(number_of(line, "wall_time") <= clock_wall_seconds());
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(line, "a \"tag\"")));
    cJSON_Delete(line);
    line = read_line(2);
    assert_string_equal(text_of(line, "session"), "checkpoint");
    assert_string_equal(text_of(line, "path"), "run/model.ckpt-9.safetensors");
    cJSON_Delete(line);
    line = read_line(3);
    assert_true(number_of(line, "step") == 1099511627776.0 && number_of(line, "sum") == 6);
    assert_true(number_of(line, "sum_squares") == 14 && number_of(line, "num") == 3);
    assert_true(number_of(line, "min") == 1 && number_of(line, "max") == 3);
    assert_string_equal(text_of(line, "histogram"), "hid_w");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(line, "bucket")),
                     cJSON_GetArraySize(cJSON_GetObjectItem(line, "bucket_limit")));
    cJSON_Delete(line);
    assert_int_equal(count_lines(), 4);
}

static void test_a_later_start_appends(void **state)
{
    static const struct event_scalar loss = {"loss", 1};
    char first[512], second[512];
    (void)state;
    for (int start = 0; start < 2; start++) {
        struct event_writer *writer;
        assert_ok(event_writer_open(folder, false, &writer));
        event_writer_scalars(writer, start, &loss, 1);
        event_writer_close(writer);
        find_event_file(start == 0 ? first : second, start == 0 ? "" : first);
    }
    assert_int_equal(count_records(first), 2);
    assert_int_equal(count_records(second), 2);
    assert_int_equal(count_lines(), 2);
}

static void test_a_line_that_a_kill_cut_is_ended(void **state)
{
    static const struct event_scalar loss = {"loss", 1};
    struct event_writer *writer;
    (void)state;
    FILE *lines = fopen(lines_path(), "w");
    assert_non_null(lines);
    fputs("{\"step\":1}\n\"cut", lines);
    fclose(lines);
    assert_ok(event_writer_open(folder, false, &writer));
    event_writer_scalars(writer, 2, &loss, 1);
    event_writer_close(writer);
    struct buffer text = BUFFER_INIT(1 << 16);
    assert_ok(file_read_whole(lines_path(), &text));
    assert_memory_equal(text.data, "{\"step\":1}\n\"cut\n{", 17);
    buffer_release(&text);
}

/* ---- disks -------------------------------------------------------------- */

static int standard_error = -1;

static void name_log(char path[512])
{
    snprintf(path, 512, "%s/log", folder);
}

static void begin_log(void)
{
    char path[512];
    name_log(path);
    int log = open(path, O_RDWR | O_CREAT | O_APPEND, 0666);
    standard_error = dup(STDERR_FILENO);
    assert_true(log >= 0 && standard_error >= 0 && dup2(log, STDERR_FILENO) >= 0);
    close(log);
}

static void end_log(void)
{
    assert_true(dup2(standard_error, STDERR_FILENO) >= 0);
    close(standard_error);
}

/* How often the log has this text; *ret_numbers, unless NULL: the sum of the numbers in front. */
static int count_logged(const char *text, int64_t *ret_numbers)
{
    int count = 0;
    char path[512];
    struct buffer log = BUFFER_INIT(1 << 20);
    name_log(path);
    assert_ok(file_read_whole(path, &log));
    for (char *at = log.data ? strstr(log.data, text) : NULL; at; at = strstr(at + 1, text)) {
        char *digits = at;
        while (digits > log.data && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        if (ret_numbers)
            *ret_numbers += strtoll(digits, NULL, 10);
        count++;
    }
    buffer_release(&log);
    return count;
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A file that may not grow stands for a disk that is full: a write goes as far as there is room. */
static void test_a_full_disk_cuts_no_event(void **state)
{
    static const struct event_scalar loss = {"loss", 0.25};
    struct event_writer *writer;
    char path[512];
    int step = 0;
    (void)state;
    begin_log();
    assert_ok(event_writer_open(folder, false, &writer));
    signal(SIGXFSZ, SIG_IGN);
    limit_files(10001);
    while (count_logged("events are left out until it can be written again", NULL) < 2) {
        for (int i = 0; i < 100; i++)
            event_writer_scalars(writer, step++, &loss, 1);
        clock_sleep_ms(10);
    }
    for (int i = 0; i < 100; i++) { /* and some flushes more that fail */
        event_writer_scalars(writer, step++, &loss, 1);
        clock_sleep_ms(10);
    }
    limit_files(RLIM_INFINITY);
    event_writer_scalars(writer, INT64_C(123456789), &loss, 1);
    event_writer_close(writer);
    end_log();
    find_event_file(path, "");
    size_t records = count_records(path), lines = count_lines();
    assert_true(records > 1 && records < (size_t)step && lines > 0 && lines < (size_t)step);
    cJSON *last = read_line(lines - 1);
    assert_true(number_of(last, "step") == 123456789);
    cJSON_Delete(last);
    /* Little may still fit where much did not, and fails by turns: a line a minute and file. */
    assert_int_equal(count_logged("File too large; events are left out", NULL), 2);
    assert_int_equal(count_logged("is written again", NULL), 0);
    assert_int_equal(count_logged("half an event", NULL), 0);
}

static void test_failures_by_turns_are_summed_up(void **state)
{
    struct event_file file = {.descriptor = -1};
    struct buffer much = BUFFER_INIT(10000), little = BUFFER_INIT(10);
    int64_t sum = 0;
    (void)state;
    begin_log();
    assert_ok(event_file_append(&file, folder));
    for (int i = 0; i < 900; i++)
        assert_ok(buffer_add_text(&much, "0123456789"));
    assert_ok(buffer_add_text(&little, "\n"));
    signal(SIGXFSZ, SIG_IGN);
    limit_files(8000); /* of the log, too */
    for (int i = 0; i < 100; i++) {
        assert_false(event_file_write(&file, &much));
        assert_true(event_file_write(&file, &little));
    }
    assert_int_equal(count_logged("File too large; events are left out", NULL), 1);
    assert_int_equal(count_logged("is written again", NULL), 0);
    file.quiet_until_ns = 0; /* a minute is over */
    assert_false(event_file_write(&file, &much));
    assert_true(event_file_write(&file, &little));
    assert_int_equal(count_logged(" writes failed since the last such line", &sum), 1);
    assert_int_equal(sum, 100);
    file.quiet_until_ns = 0; /* the next one: all is well again */
    assert_true(event_file_write(&file, &little));
    assert_int_equal(count_logged("is written again", NULL), 1);
    file.quiet_until_ns = 0;
    assert_true(event_file_write(&file, &little));
    assert_int_equal(count_logged("is written again", NULL), 1);
    limit_files(RLIM_INFINITY);
    end_log();
    event_file_close(&file);
    buffer_release(&much);
    buffer_release(&little);
}

/* The end of a line that a kill cut may itself find no room; the next attempt writes it. */
static void test_a_cut_line_is_ended_before_others(void **state)
{
    struct event_file file = {.descriptor = -1};
    struct buffer text = BUFFER_INIT(100);
    (void)state;
    assert_ok(file_write_whole(lines_path(), "{\"step\":", 8));
    signal(SIGXFSZ, SIG_IGN);
    limit_files(8);
    assert_int_equal(event_file_append(&file, folder), ERROR_IO);
    limit_files(RLIM_INFINITY);
    assert_int_equal(file.descriptor, -1);
    assert_ok(event_file_append(&file, folder));
    event_file_close(&file);
    assert_ok(file_read_whole(lines_path(), &text));
    assert_string_equal(text.data, "{\"step\":\n");
    buffer_release(&text);
}

static bool is_uncut; /* no file can be made shorter */

int __real_ftruncate(int descriptor, off_t length);
int __wrap_ftruncate(int descriptor, off_t length);
int __wrap_ftruncate(int descriptor, off_t length)
{
    if (!is_uncut)
        return __real_ftruncate(descriptor, length);
    errno = EIO;
    return -1;
}

/* The disk fails in the middle of a write, and then altogether. */
static void test_half_an_event_is_cut_off_later(void **state)
{
    struct event_file file = {.descriptor = -1};
    struct buffer event = BUFFER_INIT(10), found = BUFFER_INIT(100);
    (void)state;
    begin_log();
    assert_ok(event_file_append(&file, folder));
    assert_ok(buffer_add_text(&event, "event\n"));
    assert_true(event_file_write(&file, &event));
    signal(SIGXFSZ, SIG_IGN);
    is_uncut = true;
    limit_files(9);
    assert_false(event_file_write(&file, &event));
    limit_files(RLIM_INFINITY);
    assert_false(event_file_write(&file, &event)); /* there is room, behind the half */
    is_uncut = false;
    assert_true(event_file_write(&file, &event));
    assert_ok(file_read_whole(file.path, &found));
    assert_int_equal(found.length, 12);
    assert_memory_equal(found.data, "event\nevent\n", 12);
    end_log();
    event_file_close(&file);
    buffer_release(&event);
    buffer_release(&found);
}

/* A file stands in its way, until it goes. What is added waits, but of states only two. */
static void test_a_folder_that_cannot_be_made_yet(void **state)
{
    static const struct event_scalar loss = {"loss", 1};
    static const float values[] = {1, 2, 3};
    struct event_writer *writer;
    int64_t left_out = 0;
    char blocked[512], below[600];
    (void)state;
    begin_log();
    snprintf(blocked, sizeof(blocked), "%s/run", folder);
    snprintf(below, sizeof(below), "%s/worker-1", blocked);
    close(open(blocked, O_CREAT | O_WRONLY, 0666));
    assert_ok(event_writer_open(below, true, &writer));
    event_writer_scalars(writer, 1, &loss, 1);
    while (count_logged("no events for TensorBoard until this changes", NULL) == 0)
        clock_sleep_ms(10);
    add_tensor(writer, 3, "hid_w", values, 3);
    add_tensor(writer, 4, "hid_w", values, 3);
    add_tensor(writer, 5, "hid_w", values, 3);
    assert_int_equal(unlink(blocked), 0);
    clock_sleep_ms(EVENT_FLUSH_MS + 500); /* it tries again, and does not say so again */
    struct stat status;
    assert_int_not_equal(stat(blocked, &status), 0); /* a logdir is not the writer's to make */
    assert_int_equal(mkdir(blocked, 0777), 0);
    while (stat(below, &status) != 0)
        clock_sleep_ms(10);
    event_writer_scalars(writer, 2, &loss, 1);
    event_writer_close(writer);
    assert_int_equal(count_logged("no events for TensorBoard", NULL), 1);
    assert_int_equal(count_logged(" events were left out", &left_out), 1);
    assert_int_equal(left_out, 1);
    end_log();
    snprintf(folder + strlen(folder), sizeof(folder) - strlen(folder), "/run/worker-1");
    find_event_file(blocked, "");
    assert_int_equal(count_records(blocked), 5); /* what waited is there */
    assert_int_equal(count_lines(), 4);
    *strstr(folder, "/run/worker-1") = '\0';
}

/* `rm -r` of the logdir: events go on in the folder that somebody makes there. */
static void test_files_that_are_removed_are_opened_anew(void **state)
{
    static const struct event_scalar loss = {"loss", 1};
    struct event_writer *writer;
    char run[512], records[512], lines[600];
    struct stat status;
    size_t length = strlen(folder);
    (void)state;
    begin_log();
    snprintf(run, sizeof(run), "%s/run", folder);
    snprintf(lines, sizeof(lines), "%s/events.jsonl", run);
    assert_ok(event_writer_open(run, false, &writer));
    event_writer_scalars(writer, 1, &loss, 1);
    while (stat(lines, &status) != 0 || status.st_size == 0)
        clock_sleep_ms(10);
    snprintf(folder + length, sizeof(folder) - length, "/run");
    find_event_file(records, "");
    folder[length] = '\0';
    assert_int_equal(unlink(records) || unlink(lines) || rmdir(run), 0);
    while (count_logged("no events for TensorBoard until this changes", NULL) == 0)
        clock_sleep_ms(10);
    event_writer_scalars(writer, 2, &loss, 1);
    assert_int_not_equal(stat(run, &status), 0); /* nor is a logdir made again for checkpoints */
    assert_int_equal(mkdir(run, 0777), 0);
    event_writer_scalars(writer, 3, &loss, 1);
    event_writer_close(writer);
    assert_int_equal(count_logged(" was removed, with its events", NULL), 2);
    end_log();
    snprintf(folder + length, sizeof(folder) - length, "/run");
    find_event_file(records, "");
    assert_int_equal(count_records(records), 3); /* with the version */
    assert_int_equal(count_lines(), 2);
    folder[length] = '\0';
}

/* A pipe that nobody reads stands for a disk that hangs: its writer is left behind, and ends when
 * the disk comes back. Flushes are more frequent in all tests. */
int64_t __real_clock_deadline_ns(int64_t milliseconds);
int64_t __wrap_clock_deadline_ns(int64_t milliseconds);
static _Atomic bool is_hanging;
int64_t __wrap_clock_deadline_ns(int64_t milliseconds)
{
    bool is_patient = milliseconds == EVENT_CLOSE_MS && !atomic_load(&is_hanging);
    return __real_clock_deadline_ns(is_patient ? 60000 : 200);
}

static void test_a_disk_that_hangs_keeps_its_thread_alone(void **state)
{
    enum { STEPS = 30000 }; /* more than pipe and queue hold */
    static char bytes[1 << 16], tag[401];
    const struct event_scalar loss = {tag, 0.25};
    struct event_writer *writer;
    char path[512];
    int64_t lines = 0, left_out = 0;
    (void)state;
    begin_log();
    memset(tag, 'a', sizeof(tag) - 1);
    assert_int_equal(mkfifo(lines_path(), 0666), 0);
    assert_ok(event_writer_open(folder, false, &writer));
    for (int64_t step = 0; step < STEPS; step++)
        event_writer_scalars(writer, step, &loss, 1);
    atomic_store(&is_hanging, true);
    event_writer_close(writer);
    atomic_store(&is_hanging, false);
    assert_int_equal(count_logged("the last events were not written", NULL), 1);
    int reader = open(lines_path(), O_RDONLY);
    assert_true(reader >= 0);
    for (ssize_t got = 1; got > 0;) {
        got = read(reader, bytes, sizeof(bytes)); /* until the thread has closed it */
        for (ssize_t i = 0; i < got; i++)
            lines += bytes[i] == '\n';
    }
    close(reader);
    end_log();
    find_event_file(path, "");
    assert_int_equal(count_records(path), lines + 1);
    assert_true(count_logged(" events were left out", &left_out) > 0);
    assert_true(left_out > 0 && lines > 1000);
    assert_int_equal(lines + left_out, STEPS);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_events_are_in_both_files, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_later_start_appends, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_line_that_a_kill_cut_is_ended, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_files_that_are_removed_are_opened_anew, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_folder_that_cannot_be_made_yet, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_failures_by_turns_are_summed_up, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_cut_line_is_ended_before_others, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_half_an_event_is_cut_off_later, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_full_disk_cuts_no_event, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_disk_that_hangs_keeps_its_thread_alone, make_folder,
                                    remove_folder),
};

UNIT_MAIN(tests)
