/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/stream/stream: Every allocation and every call of the system fails once, of a
 * state folder, a journal, its compaction, ledgers, streams and their history: the program is
 * linked with --wrap. What was refused is asked for again, as a client does after a 503, until it
 * is done, and must then be what it is where nothing fails: nothing is lost and nothing given
 * twice, also when the process is killed afterwards.
 */
#include "tests/unit/stream_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "sampler/journal/journal_private.h"
#include "sampler/service/history.h"
#include "sampler/stream/stream_private.h"
#include "tests/unit/failing_allocator.h"

#define STEPS_MOST 64

static struct stream_unit unit;
static enum durability durability;
static char *token;                           /* of the stream before it is sought */
static struct stream *other;                  /* another stream, taken */
static struct stream_batch right[STEPS_MOST]; /* what each draw gives where nothing fails */
static struct stream_status right_status;
static char *right_token;
static uint64_t accept_loss;
static size_t drawn;      /* draws of this run so far */
static enum error failed; /* the first failure of this run */

/* ---- calls of the system ------------------------------------------------ */

static int refusal; /* errno of the call that fails */

static bool only_writes; /* only what writes fails */

static bool write_fails(void)
{
    if (!fails_now())
        return false;
    errno = refusal;
    return true;
}

static bool call_fails(void)
{
    return !only_writes && write_fails();
}

/* A call that answers -1 and sets errno. */
#define WRAP(type, name, parameters, arguments)             \
    type __real_##name parameters;                          \
    type __wrap_##name parameters;                          \
    type __wrap_##name parameters                           \
    {                                                       \
        return call_fails() ? -1 : __real_##name arguments; \
    }

WRAP(int, fdatasync, (int file), (file))
WRAP(int, flock, (int file, int operation), (file, operation))
WRAP(int, fstat, (int file, struct stat *status), (file, status))
WRAP(int, fsync, (int file), (file))
WRAP(int, ftruncate, (int file, off_t length), (file, length))
WRAP(int, link, (const char *from, const char *to), (from, to))
WRAP(int, lstat, (const char *path, struct stat *status), (path, status))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, stat, (const char *path, struct stat *status), (path, status))
WRAP(int, statfs, (const char *path, struct statfs *facts), (path, facts))
WRAP(int, sync_file_range, (int file, off64_t at, off64_t count, unsigned flags),
     (file, at, count, flags))
WRAP(int, unlink, (const char *path), (path))
WRAP(ssize_t, getrandom, (void *out, size_t bytes, unsigned flags), (out, bytes, flags))
WRAP(ssize_t, pread, (int file, void *out, size_t bytes, off_t at), (file, out, bytes, at))

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    return call_fails() ? -1 : __real_open(path, flags, mode);
}

ssize_t __real_pwrite(int file, const void *in, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *in, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *in, size_t bytes, off_t at)
{
    return write_fails() ? -1 : __real_pwrite(file, in, bytes, at);
}

int __real_posix_fallocate(int file, off_t at, off_t bytes);
int __wrap_posix_fallocate(int file, off_t at, off_t bytes);
int __wrap_posix_fallocate(int file, off_t at, off_t bytes)
{
    return write_fails() ? refusal : __real_posix_fallocate(file, at, bytes);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *facts, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *facts, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *facts, void *(*run)(void *),
                          void *context)
{
    return call_fails() ? EAGAIN : __real_pthread_create(thread, facts, run, context);
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return call_fails() ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, file, offset);
}

void *__real_mremap(void *at, size_t before, size_t now, int flags);
void *__wrap_mremap(void *at, size_t before, size_t now, int flags);
void *__wrap_mremap(void *at, size_t before, size_t now, int flags)
{
    return call_fails() ? MAP_FAILED : __real_mremap(at, before, now, flags);
}

/* ---- one step ----------------------------------------------------------- */

static bool may_fail(enum error error)
{
    return failures > 0 && (error == ERROR_MEMORY || error == ERROR_IO || error == ERROR_NO_SPACE);
}

/* A step that is refused is tried again until it is done. */
static void must(enum error (*step)(int64_t number), int64_t number)
{
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    enum error error;
    while ((error = step(number))) {
        if (!may_fail(error) || clock_left_ms(deadline_ns) == 0)
            fail_msg("step %lld: %d, %s", (long long)number, error, error_message());
        failed = error;
        clock_sleep_ms(1);
    }
}

static void close_all(void)
{
    if (unit.stream)
        stream_put(unit.stream);
    unit.stream = NULL;
    streams_free(unit.streams);
    state_close(unit.state);
    unit.streams = NULL;
    unit.state = NULL;
}

static enum error open_all(int64_t number)
{
    (void)number;
    struct streams_options options = {
        .durability = durability, .max_streams = 3, .accept_loss = accept_loss};
    struct sampling_plan *plan;
    enum error error = state_open(unit.folder, &unit.state);
    options.state = unit.state;
    if (!error)
        error = streams_open(&options, &unit.streams);
    if (!error)
        error = sampling_plan_open(unit.frames, NULL, &unit.definition, &plan);
    if (!error)
        error = streams_start(unit.streams, unit.frames, NULL, &unit.definition, plan);
    if (!error)
        unit.stream = streams_take(unit.streams, "default");
    if (error)
        close_all();
    return error == ERROR_NOT_FOUND ? ERROR_IO : error; /* nobody could say that it is not there */
}

static enum error note(enum error error, const struct stream_batch *batch)
{
    if (error)
        return error;
    assert_true(drawn < STEPS_MOST);
    struct stream_batch *expected = &right[drawn++];
    if (expected->span.units == 0)
        *expected = *batch;
    assert_int_equal(batch->span.first, expected->span.first);
    assert_int_equal(batch->span.units, expected->span.units);
    assert_int_equal(batch->attempt, expected->attempt);
    return OK;
}

static enum error lease_batch(int64_t number)
{
    struct stream_batch batch;
    char worker[16];
    snprintf(worker, sizeof(worker), "w%d", (int)(number % 5));
    return note(unit_lease(unit.stream, worker, number / 5 * 2, 7, &batch), &batch);
}

/* Of several at once; what was not to be had yet is asked for again. */
static enum error lease_several(int64_t number)
{
    struct stream_batch batches[3];
    struct ledger_pull pull = {.size = 5, .worker = "several", .seq = 3 * number, .room = 1000000};
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    size_t count;
    bool waits;
    enum error error =
        stream_draw_several(unit.stream, &pull, 3, &caller.waiter, batches, &count, &waits);
    error = stream_caller_wait(&caller, error, waits);
    if (!error && count < 3) { /* what refused the next one may be over */
        assert_true(failures > 0);
        return ERROR_IO;
    }
    for (size_t i = 0; i < 3 && !error; i++)
        error = note(OK, &batches[i]);
    return error;
}

static enum error draw(int64_t number)
{
    (void)number;
    struct stream_batch batch;
    return note(unit_draw(unit.stream, 11, &batch), &batch);
}

static enum error ack(int64_t number)
{
    char worker[16];
    snprintf(worker, sizeof(worker), "w%d", (int)(number % 5));
    return unit_ack(unit.stream, worker, number / 5 * 2);
}

static enum error release(int64_t number)
{
    (void)number;
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    int64_t released;
    bool waits;
    enum error error = stream_release(unit.stream, "w1", &caller.waiter, &released, &waits);
    return stream_caller_wait(&caller, error, waits);
}

static enum error seek(int64_t position)
{
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    enum error error = stream_seek(unit.stream, position, &caller.waiter, &waits);
    return stream_caller_wait(&caller, error, waits);
}

static enum error checkpoint(int64_t number)
{
    (void)number;
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits = false;
    free(token);
    token = NULL;
    enum error error = stream_checkpoint(unit.stream, &caller.waiter, &token, &waits);
    return stream_caller_wait(&caller, error, waits);
}

static enum error restore(int64_t number)
{
    (void)number;
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    enum error error = stream_restore(unit.stream, token, &caller.waiter, &waits);
    return stream_caller_wait(&caller, error, waits);
}

/* A change that could not be written may have been made all the same. */
static enum error create(int64_t number)
{
    (void)number;
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    struct stream_definition definition = unit.definition;
    struct sampling_plan *plan;
    bool waits = false;
    strcpy(definition.name, "other");
    definition.rows_end = 100;
    enum error error = sampling_plan_open(unit.frames, NULL, &definition, &plan);
    if (error)
        return error;
    error = streams_create(unit.streams, &definition, plan, 10, &caller.waiter, &other, &waits);
    bool made = !error;
    error = stream_caller_wait(&caller, error, waits);
    if (error && made)
        stream_put(other);
    if (error != ERROR_CONFLICT || !failed)
        return error;
    other = streams_take(unit.streams, "other");
    return OK;
}

static enum error delete_other(int64_t number)
{
    (void)number;
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    enum error error = streams_delete(unit.streams, other, &caller.waiter, &waits);
    error = stream_caller_wait(&caller, error, waits);
    return error == ERROR_NOT_FOUND && failed ? OK : error;
}

static enum error report(int64_t number)
{
    (void)number;
    struct stream **list;
    struct stream_worker workers[8];
    struct stream_drawn spans;
    size_t count, known;
    enum error error = streams_list(unit.streams, &list, &count);
    if (error)
        return error;
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++)
        stream_put(list[i]);
    free(list);
    error = stream_drawn(unit.stream, &spans);
    if (error)
        return error;
    free(spans.spans);
    error = stream_workers(unit.stream, workers, 8, &count, &known);
    if (!error)
        assert_int_equal(known, 5);
    return error;
}

/* A compaction that found no memory is given up, and begins again later. */
static void compact(void)
{
    struct journal_counts counts;
    uint64_t before;
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    streams_journal_counts(unit.streams, &counts);
    before = counts.rewrites;
    while (counts.rewrites == before) {
        assert_true(clock_left_ms(deadline_ns) > 0);
        pthread_mutex_lock(&unit.streams->mutex);
        if (unit.streams->journal->rewrite_at != UINT64_MAX) /* not under way */
            unit.streams->journal->rewrite_at = 0;
        pthread_cond_signal(&unit.streams->journal->changed);
        pthread_mutex_unlock(&unit.streams->mutex);
        clock_sleep_ms(1);
        streams_journal_counts(unit.streams, &counts);
    }
}

/* ---- the whole ---------------------------------------------------------- */

static void compare(void)
{
    struct stream_status status;
    stream_status(unit.stream, &status);
    must(checkpoint, 0);
    if (!right_token) {
        right_token = strdup(token);
        right_status = status;
    }
    assert_string_equal(token, right_token);
    assert_int_equal(status.position, right_status.position);
    assert_int_equal(status.leased, right_status.leased);
    assert_int_equal(status.waiting, right_status.waiting);
    assert_int_equal(status.acked, right_status.acked);
    assert_int_equal(status.redelivered, right_status.redelivered);
    assert_int_equal(status.batches, right_status.batches);
    assert_int_equal(status.workers, right_status.workers);
}

static enum error live(void)
{
    failed = OK;
    drawn = 0;
    unit_folder_make(unit.folder);
    must(open_all, 0);
    for (int64_t i = 0; i < 5; i++)
        must(lease_batch, i);
    for (int64_t i = 0; i < 5; i += 2)
        must(ack, i);
    must(lease_several, 0);
    must(draw, 0);
    must(checkpoint, 0);
    must(seek, 500);
    must(restore, 0);
    must(draw, 0);
    for (int64_t i = 20; i < 25; i++)
        must(lease_batch, i);
    must(release, 0);
    must(lease_batch, 31); /* what was released, again */
    must(create, 0);
    must(report, 0);
    must(delete_other, 0);
    stream_put(other);
    compact();
    compare();
    close_all(); /* as a kill does: nothing is finished */
    must(open_all, 0);
    compare();
    enum error error = streams_finish(unit.streams);
    if (error && !may_fail(error))
        fail_msg("the end: %d, %s", error, error_message());
    close_all();
    must(open_all, 0);
    compare();
    close_all();
    unit_folder_remove(unit.folder);
    free(token);
    token = NULL;
    return failed;
}

/* What is only faster with memory may fail unnoticed; so may what makes sure of what is sure. */
static void check(long nth, enum error error)
{
    (void)nth;
    assert_true(!error || may_fail(error));
}

static void begin(enum durability which)
{
    durability = which;
    log_set_level((enum log_level)(LOG_ERROR + 1));
    stream_unit_define(&unit, 0, TAIL_SPAN);
    unit.definition.lease_ms = 3600000;
    assert_ok(frame_set_new(&unit.frames));
    assert_ok(frame_set_add(unit.frames, "default", "range:1000?labels=10", NULL));
    memset(right, 0, sizeof(right));
    right_token = NULL;
    accept_loss = 0;
    refusal = EIO;
}

static void end(void)
{
    free(right_token);
    frame_set_free(unit.frames);
}

/* Then calls that write, for lack of room and for a signal: the latter is no failure. */
static void fail_each_way(enum error (*work)(void))
{
    fail_each(work, check);
    allocations_hold = only_writes = true;
    refusal = ENOSPC;
    fail_each(work, check);
    refusal = EINTR;
    fail_each(work, check);
    allocations_hold = only_writes = false;
}

static void test_a_mapped_journal(void **unused)
{
    (void)unused;
    begin(DURABILITY_PROCESS);
    fail_each_way(live);
    end();
}

static void test_a_synchronized_journal(void **unused)
{
    (void)unused;
    begin(DURABILITY_FSYNC);
    fail_each_way(live);
    end();
}

/* ---- a journal that is not whole ---------------------------------------- */

static char *found; /* [found_bytes]: the journal that a start meets */
static size_t found_bytes;
static int64_t found_position; /* where the stream stands by it */

static FILE *journal_stream(const char *name, const char *mode)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", unit.folder, name);
    return fopen(path, mode);
}

/* 50 draws of 3, then a kill. */
static void make_journal(void)
{
    struct stream_batch batch;
    unit_folder_make(unit.folder);
    assert_ok(open_all(0));
    for (int i = 0; i < 50; i++)
        assert_ok(unit_draw(unit.stream, 3, &batch));
    close_all();
    FILE *file = journal_stream("journal", "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    found_bytes = (size_t)ftell(file);
    found = calloc(1, found_bytes);
    rewind(file);
    assert_int_equal(fread(found, 1, found_bytes, file), found_bytes);
    fclose(file);
    unit_folder_remove(unit.folder);
}

/* Where the record of draw `number` from the end begins: 1 is the last one. */
static size_t record_from_end(int number)
{
    size_t begins[200], count = 0;
    for (size_t at = JOURNAL_HEADER_BYTES;;) {
        size_t length = journal_record_length((const uint8_t *)found + at);
        if (length <= JOURNAL_RECORD_HEAD_BYTES)
            return begins[count - (size_t)number];
        begins[count++] = at;
        at += length;
    }
}

static int64_t position(void)
{
    struct stream_status status;
    stream_status(unit.stream, &status);
    return status.position;
}

/* What was lost stays lost, and is drawn again; the damaged file is kept. */
static enum error start_again(void)
{
    failed = OK;
    drawn = 0;
    unit_folder_make(unit.folder);
    FILE *file = journal_stream("journal", "w");
    assert_int_equal(fwrite(found, 1, found_bytes, file), found_bytes);
    assert_int_equal(fclose(file), 0);
    must(open_all, 0);
    assert_int_equal(position(), found_position);
    must(draw, 0);
    close_all();
    if (accept_loss) {
        file = journal_stream("journal.damaged", "r");
        assert_non_null(file);
        fclose(file);
    }
    must(open_all, 0);
    assert_int_equal(position(), found_position + 11);
    close_all();
    unit_folder_remove(unit.folder);
    return failed;
}

static void check_starts(enum durability which, bool is_torn)
{
    begin(which);
    make_journal();
    size_t at = record_from_end(is_torn ? 1 : 10);
    found_position = is_torn ? 147 : 120;
    found[at + JOURNAL_RECORD_HEAD_BYTES] ^= 1;
    memset(found + JOURNAL_WATERMARK_OFFSET, 0x55,
           JOURNAL_WATERMARK_BYTES); /* torn: says nothing */
    accept_loss = is_torn ? 0 : at;
    fail_each_way(start_again);
    free(found);
    end();
}

static void test_a_torn_tail(void **unused)
{
    (void)unused;
    check_starts(DURABILITY_FSYNC, true);
    check_starts(DURABILITY_PROCESS, true);
}

static void test_a_loss_that_is_accepted(void **unused)
{
    (void)unused;
    check_starts(DURABILITY_PROCESS, false);
}

/* ---- the figures of the live page --------------------------------------- */

/* A reading for which there is no room is left out, and the next one is taken. */
static enum error note_readings(void)
{
    struct history *history = NULL;
    struct history_rates rates;
    enum error error = history_new(&history);
    if (error)
        return error;
    for (int i = 0; i < 40; i++) {
        char name[16];
        struct history_counts counts = {.generation = 1};
        snprintf(name, sizeof(name), "s%d", i);
        enum error refused = history_note(history, name, &counts, i);
        if (refused)
            assert_ok(history_note(history, name, &counts, i));
        assert_true(history_rates(history, name, 1, &rates));
        error = error ? error : refused;
    }
    history_free(history);
    return error;
}

static void test_readings(void **unused)
{
    (void)unused;
    fail_each(note_readings, check);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_mapped_journal), cmocka_unit_test(test_a_synchronized_journal),
    cmocka_unit_test(test_a_torn_tail),      cmocka_unit_test(test_a_loss_that_is_accepted),
    cmocka_unit_test(test_readings),
};

UNIT_MAIN(tests)
