#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/log.h"
#include "sampler/committer.h"
#include "sampler/stream.h"

#define THREADS 8
#define PATIENCE_MS 60000

static const struct state_binding binding = {
    .units = 1000, .epoch_positions = 1000, .design = "srs", .seed = 1};

/* A stream with everything that belongs to it. */
struct setup {
    char folder[256];
    struct state *state;
    struct stream *stream;
    struct committer *committer;
};

static void open_setup(struct setup *setup, const struct cut *cut, enum durability durability)
{
    assert_ok(state_open(setup->folder, &setup->state));
    assert_ok(state_bind(setup->state, &binding));
    assert_ok(stream_new(cut, setup->state, durability, &setup->stream));
    setup->committer = NULL;
    if (stream_waits(setup->stream))
        assert_ok(committer_new(setup->stream, &setup->committer));
}

static void close_setup(struct setup *setup)
{
    committer_free(setup->committer);
    assert_ok(stream_finish(setup->stream));
    stream_free(setup->stream);
    state_close(setup->state);
}

/* ---- a caller that waits as an HTTP connection does ------------------------------------------ */

struct caller {
    struct stream_waiter waiter;
    _Atomic bool told;
};

static void on_ready(struct stream_waiter *waiter)
{
    struct caller *caller = (struct caller *)waiter; /* its first member */
    atomic_store(&caller->told, true);
}

static enum error draw(struct stream *stream, int64_t size, struct span *ret_span)
{
    struct caller caller = {.waiter.ready = on_ready};
    bool waits;
    enum error error = stream_draw(stream, size, &caller.waiter, ret_span, &waits);
    if (error != OK || !waits)
        return error;
    int64_t deadline_ns = clock_deadline_ns(PATIENCE_MS);
    while (!atomic_load(&caller.told)) {
        if (clock_left_ms(deadline_ns) == 0)
            return ERROR_TIMEOUT;
        sched_yield();
    }
    return caller.waiter.error;
}

/* ---- many threads ---------------------------------------------------------------------------- */

struct drawer {
    struct stream *stream;
    int64_t size;
    _Atomic int *times; /* [positions]: how often each was given */
    enum error error;
};

static void *draw_all(void *context)
{
    struct drawer *drawer = context;
    struct span span;
    for (;;) {
        drawer->error = draw(drawer->stream, drawer->size, &span);
        if (drawer->error != OK || span.size == 0)
            return NULL;
        for (int64_t i = 0; i < span.size; i++)
            atomic_fetch_add(&drawer->times[span.first + i], 1);
    }
}

static void check_each_once(enum durability durability, enum tail tail)
{
    struct cut cut = {.epoch_positions = 1000, .epochs = 3, .tail = tail};
    static _Atomic int times[3000];
    struct setup setup;
    struct drawer drawers[THREADS];
    pthread_t threads[THREADS];
    memset(times, 0, sizeof(times));
    unit_folder_make(setup.folder);
    open_setup(&setup, &cut, durability);
    for (int i = 0; i < THREADS; i++) {
        drawers[i] = (struct drawer){.stream = setup.stream, .size = 1 + i * 3, .times = times};
        assert_int_equal(pthread_create(&threads[i], NULL, draw_all, &drawers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(drawers[i].error, OK);
    }
    for (int position = 0; position < 3000; position++) {
        int once = atomic_load(&times[position]);
        bool may_be_dropped = tail == TAIL_DROP && position % 1000 >= 1000 - 22;
        assert_true(once == 1 || (once == 0 && may_be_dropped));
    }
    struct stream_status status;
    stream_status(setup.stream, &status);
    assert_int_equal(status.position, 3000);
    assert_int_equal(status.epoch, 3);
    assert_true(status.ended);
    close_setup(&setup);
    unit_folder_remove(setup.folder);
}

static void test_each_position_goes_to_one_draw(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_NONE; durability++) {
        for (int tail = TAIL_KEEP; tail <= TAIL_SPAN; tail++)
            check_each_once((enum durability)durability, (enum tail)tail);
    }
}

/* ---- starts and ends ------------------------------------------------------------------------- */

static void test_a_restart_goes_on(void **unused)
{
    (void)unused;
    struct cut cut = {.epoch_positions = 1000};
    struct setup setup;
    struct span span;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_NONE; durability++) {
        unit_folder_make(setup.folder);
        for (int64_t start = 0; start < 5; start++) {
            open_setup(&setup, &cut, (enum durability)durability);
            assert_ok(draw(setup.stream, 30, &span));
            assert_int_equal(span.first, start * 30);
            struct stream_status status;
            stream_status(setup.stream, &status);
            assert_int_equal(status.batches, start + 1);
            close_setup(&setup);
        }
        unit_folder_remove(setup.folder);
    }
}

static void test_without_a_state_nothing_waits(void **unused)
{
    (void)unused;
    struct cut cut = {.epoch_positions = 10, .epochs = 1};
    struct stream *stream;
    struct span span;
    bool waits = true;
    assert_ok(stream_new(&cut, NULL, DURABILITY_FSYNC, &stream));
    assert_false(stream_waits(stream));
    assert_ok(stream_draw(stream, 7, NULL, &span, &waits));
    assert_false(waits);
    assert_ok(stream_peek(stream, 7, &span));
    assert_int_equal(span.first, 7);
    assert_int_equal(span.size, 3);
    assert_ok(stream_draw(stream, 7, NULL, &span, &waits));
    assert_int_equal(span.size, 3);
    for (int i = 0; i < 3; i++) {
        assert_ok(stream_draw(stream, 7, NULL, &span, &waits));
        assert_int_equal(span.size, 0);
    }
    assert_ok(stream_finish(stream));
    stream_free(stream);
}

static void test_a_position_beyond_a_nearer_end_stays(void **unused)
{
    (void)unused;
    struct cut cut = {.epoch_positions = 1000, .epochs = 5};
    struct setup setup;
    struct span span;
    unit_folder_make(setup.folder);
    open_setup(&setup, &cut, DURABILITY_PROCESS);
    for (int i = 0; i < 3; i++)
        assert_ok(draw(setup.stream, 1000, &span));
    close_setup(&setup);
    cut.epochs = 2;
    open_setup(&setup, &cut, DURABILITY_PROCESS);
    assert_ok(draw(setup.stream, 10, &span));
    assert_int_equal(span.size, 0);
    close_setup(&setup);
    cut.epochs = 5;
    open_setup(&setup, &cut, DURABILITY_PROCESS);
    assert_ok(draw(setup.stream, 10, &span));
    assert_int_equal(span.first, 3000);
    close_setup(&setup);
    unit_folder_remove(setup.folder);
}

/* ---- a disk that refuses --------------------------------------------------------------------- */

static void refuse_writes(bool refuse)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = refuse ? 0 : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static enum error draw_until_it_works(struct stream *stream, struct span *ret_span)
{
    int64_t deadline_ns = clock_deadline_ns(PATIENCE_MS);
    enum error error;
    do {
        error = draw(stream, 10, ret_span);
    } while (error == ERROR_NO_SPACE && clock_left_ms(deadline_ns) > 0);
    return error;
}

static void check_refusal(enum durability durability)
{
    struct cut cut = {.epoch_positions = 1000};
    struct setup setup;
    struct span span;
    struct stream_status status;
    unit_folder_make(setup.folder);
    open_setup(&setup, &cut, durability);
    for (int64_t round = 0; round < 3; round++) {
        assert_ok(draw_until_it_works(setup.stream, &span));
        assert_int_equal(span.first, round * 10);
        refuse_writes(true);
        enum error first = draw(setup.stream, 10, &span);
        enum error second = draw(setup.stream, 10, &span);
        enum error told = stream_failure(setup.stream);
        stream_status(setup.stream, &status);
        refuse_writes(false);
        assert_int_equal(first, ERROR_NO_SPACE);
        assert_int_equal(second, ERROR_NO_SPACE);
        assert_int_equal(told, ERROR_NO_SPACE);
        assert_true(status.failing);
        assert_int_equal(status.position, (round + 1) * 10);
        assert_int_equal(status.batches, round + 1);
    }
    close_setup(&setup);
    open_setup(&setup, &cut, durability);
    assert_ok(draw(setup.stream, 10, &span));
    assert_int_equal(span.first, 30);
    close_setup(&setup);
    unit_folder_remove(setup.folder);
}

static void test_a_refused_draw_is_taken_back(void **unused)
{
    (void)unused;
    check_refusal(DURABILITY_FSYNC);
    check_refusal(DURABILITY_PROCESS);
}

/* A write that fails under many draws takes back all of them, and each position still comes once.
 */
struct stubborn {
    struct stream *stream;
    _Atomic int *times;
    int refused;
};

static void *draw_stubbornly(void *context)
{
    struct stubborn *stubborn = context;
    struct span span;
    for (;;) {
        enum error error = draw(stubborn->stream, 3, &span);
        if (error == ERROR_NO_SPACE) {
            stubborn->refused++;
            clock_sleep_ms(1);
            continue;
        }
        if (error != OK || span.size == 0)
            return NULL;
        for (int64_t i = 0; i < span.size; i++)
            atomic_fetch_add(&stubborn->times[span.first + i], 1);
    }
}

static void test_failing_under_load_loses_and_repeats_nothing(void **unused)
{
    (void)unused;
    struct cut cut = {.epoch_positions = 1000, .epochs = 30};
    static _Atomic int times[30000];
    struct setup setup;
    struct stubborn drawers[THREADS];
    pthread_t threads[THREADS];
    unit_folder_make(setup.folder);
    open_setup(&setup, &cut, DURABILITY_FSYNC);
    for (int i = 0; i < THREADS; i++) {
        drawers[i] = (struct stubborn){.stream = setup.stream, .times = times};
        assert_int_equal(pthread_create(&threads[i], NULL, draw_stubbornly, &drawers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        clock_sleep_ms(20);
        refuse_writes(true);
        clock_sleep_ms(20);
        refuse_writes(false);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int position = 0; position < 30000; position++)
        assert_int_equal(atomic_load(&times[position]), 1);
    close_setup(&setup);
    unit_folder_remove(setup.folder);
}

static int silence(void **unused)
{
    (void)unused;
    log_set_level(LOG_ERROR + 1);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_each_position_goes_to_one_draw, silence),
    cmocka_unit_test(test_a_restart_goes_on),
    cmocka_unit_test(test_without_a_state_nothing_waits),
    cmocka_unit_test(test_a_position_beyond_a_nearer_end_stays),
    cmocka_unit_test(test_a_refused_draw_is_taken_back),
    cmocka_unit_test(test_failing_under_load_loses_and_repeats_nothing),
};

UNIT_MAIN(tests)
