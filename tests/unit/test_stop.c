/* SPDX-License-Identifier: MIT */
/*
 * Covers common/stop: Signals change the process for good: each test is a child, judged by how it
 * ends.
 */
#include "tests/unit/unit.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"

#define LONG_MS 60000

/* The child's exit status, 256 + signal when it was killed. */
static int status_of(int (*work)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(work());
    assert_true(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int is_readable(void)
{
    struct pollfd event = {.fd = stop_descriptor(), .events = POLLIN};
    return poll(&event, 1, 0) == 1;
}

static int work_term(void)
{
    if (stop_install() || stop_requested() || stop_signal() || is_readable())
        return 1;
    raise(SIGTERM);
    if (!stop_requested() || stop_signal() != SIGTERM || !is_readable())
        return 2;
    raise(SIGTERM); /* a second one changes nothing */
    raise(SIGINT);
    return stop_signal() == SIGTERM && stop_wait(clock_deadline_ns(LONG_MS)) ? 0 : 3;
}

static void test_signal_sets_flag_and_descriptor(void **state)
{
    (void)state;
    assert_int_equal(status_of(work_term), 0);
}

static int work_hangup(void)
{
    if (stop_install())
        return 1;
    raise(SIGHUP);
    return stop_signal() == SIGHUP && strcmp(stop_signal_name(), "SIGHUP") == 0 ? 0 : 2;
}

static int work_nohup(void)
{
    signal(SIGHUP, SIG_IGN);
    if (stop_install())
        return 1;
    stop_take_signals();
    raise(SIGHUP);
    return stop_requested() ? 2 : 0;
}

static sigset_t signals_left(void)
{
    sigset_t set;
    stop_leave_signals();
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    stop_take_signals();
    return set;
}

static int work_server(void)
{
    if (stop_install())
        return 1;
    sigset_t before = signals_left();
    stop_leave_hangup();
    sigset_t after = signals_left();
    return sigismember(&before, SIGHUP) == 1 && sigismember(&after, SIGHUP) == 0 ? 0 : 2;
}

static void test_a_closed_terminal_stops_all_but_servers(void **state)
{
    (void)state;
    assert_int_equal(status_of(work_hangup), 0);
    assert_int_equal(status_of(work_nohup), 0);
    assert_int_equal(status_of(work_server), 0);
}

static _Atomic(char *) handler_frame;

ssize_t __real_write(int file, const void *bytes, size_t count);
ssize_t __wrap_write(int file, const void *bytes, size_t count);
ssize_t __wrap_write(int file, const void *bytes, size_t count)
{
    atomic_store(&handler_frame, __builtin_frame_address(0));
    return __real_write(file, bytes, count);
}

static int work_stack(void)
{
    if (stop_install())
        return 1;
    raise(SIGTERM);
    const char *here = __builtin_frame_address(0), *there = atomic_load(&handler_frame);
    return there && labs(here - there) > (64 << 10) ? 0 : 2;
}

/* What the code that it interrupts keeps below its stack pointer stays. */
static void test_the_handler_has_a_stack_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(status_of(work_stack), 0);
}

static int work_blocked(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTERM);
    return stop_install() ? 1 : stop_signal() == SIGTERM ? 0 : 2;
}

/* Whoever starts a program may have them blocked; one that came meanwhile counts. */
static void test_signals_are_not_blocked(void **state)
{
    (void)state;
    assert_int_equal(status_of(work_blocked), 0);
}

static int work_second_interrupt(void)
{
    if (stop_install())
        return 1;
    raise(SIGINT);
    if (stop_signal() != SIGINT)
        return 2;
    raise(SIGINT);
    return 3;
}

static void test_second_interrupt_ends_at_once(void **state)
{
    (void)state;
    assert_int_equal(status_of(work_second_interrupt), 130);
}

static int work_pipe(void)
{
    int ends[2];
    if (stop_install() || pipe(ends))
        return 1;
    close(ends[0]);
    return write(ends[1], "x", 1) == -1 ? 0 : 2;
}

static void test_broken_pipes_do_not_kill(void **state)
{
    (void)state;
    assert_int_equal(status_of(work_pipe), 0);
}

static void *signal_soon(void *context)
{
    clock_sleep_ms(20);
    kill(getpid(), SIGTERM);
    return context;
}

static int work_signal(void)
{
    pthread_t thread;
    if (stop_install() || stop_wait(clock_deadline_ns(10)))
        return 1;
    if (pthread_create(&thread, NULL, signal_soon, NULL))
        return 2;
    int stopped = stop_wait(clock_deadline_ns(-1)); /* for ever, but for the signal */
    pthread_join(thread, NULL);
    return stopped && stop_signal() == SIGTERM ? 0 : 3;
}

static void test_a_signal_wakes_waits(void **state)
{
    (void)state;
    assert_int_equal(status_of(work_signal), 0);
}

static void *raise_flag(void *context)
{
    clock_sleep_ms(20);
    atomic_store((_Atomic bool *)context, true);
    return NULL;
}

static void *see_nothing(void *context)
{
    *(bool *)context = stop_requested();
    return NULL;
}

/* Of the thread that follows it, and while it does. */
static void test_a_flag_ends_waits(void **state)
{
    (void)state;
    _Atomic bool flag = false;
    bool is_seen_elsewhere = true;
    pthread_t thread;
    stop_follow(&flag);
    assert_false(stop_requested());
    assert_int_equal(pthread_create(&thread, NULL, raise_flag, (void *)&flag), 0);
    assert_true(stop_wait(clock_deadline_ns(-1)));
    pthread_join(thread, NULL);
    assert_int_equal(pthread_create(&thread, NULL, see_nothing, &is_seen_elsewhere), 0);
    pthread_join(thread, NULL);
    assert_false(is_seen_elsewhere);
    assert_int_equal(stop_signal(), 0);
    stop_follow(NULL);
    assert_false(stop_requested());
}

static void test_deadlines(void **state)
{
    (void)state;
    int64_t now = clock_now_ns();
    assert_true(clock_now_ns() >= now);
    assert_true(clock_deadline_ns(-1) == INT64_MAX);
    assert_true(clock_deadline_ns(INT64_MAX) == INT64_MAX);
    assert_true(clock_left_ms(INT64_MAX) == INT64_MAX);
    assert_int_equal(clock_left_ms(now - 1), 0);
    assert_int_equal(clock_left_ms(clock_deadline_ns(0)), 0);
    int64_t left = clock_left_ms(clock_deadline_ns(LONG_MS));
    assert_true(left > 0 && left <= LONG_MS);
    struct timespec point = clock_timespec(1500000007);
    assert_true(point.tv_sec == 1 && point.tv_nsec == 500000007);
}

static void *log_lines(void *name)
{
    for (int i = 0; i < 500; i++)
        log_info("%s %0500d end", (const char *)name, i);
    return NULL;
}

/* Standard error of a child is a pipe; every line must come whole, whatever thread wrote it. */
static void test_log_lines_stay_whole(void **state)
{
    (void)state;
    int ends[2];
    char line[2048];
    int lines = 0, status;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_t threads[4];
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, log_lines, "thread");
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        log_debug("not shown");
        _exit(0);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    while (fgets(line, sizeof(line), in)) {
        assert_non_null(strstr(line, " info    thread 0"));
        assert_string_equal(line + strlen(line) - 5, " end\n");
        lines++;
    }
    fclose(in);
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    assert_int_equal(lines, 2000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_signal_sets_flag_and_descriptor),
    cmocka_unit_test(test_a_closed_terminal_stops_all_but_servers),
    cmocka_unit_test(test_the_handler_has_a_stack_of_its_own),
    cmocka_unit_test(test_signals_are_not_blocked),
    cmocka_unit_test(test_second_interrupt_ends_at_once),
    cmocka_unit_test(test_broken_pipes_do_not_kill),
    cmocka_unit_test(test_a_signal_wakes_waits),
    cmocka_unit_test(test_a_flag_ends_waits),
    cmocka_unit_test(test_deadlines),
    cmocka_unit_test(test_log_lines_stay_whole),
};

UNIT_MAIN(tests)
