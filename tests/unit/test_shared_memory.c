/* SPDX-License-Identifier: MIT */
/* Covers trainer/wire/shared_memory: only what cannot shrink, and is what was offered, is mapped. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "trainer/wire/shared_memory.h"

enum { PARAMETERS = 5000, PAGE = 4096 };

static struct shared_memory made, taken;
static struct shared_memory_offer offer;

static void make(void)
{
    assert_ok(shared_memory_make(&made, PARAMETERS, &offer));
}

static void refuse(const struct shared_memory_offer *wrong, size_t parameters, const char *why)
{
    assert_fails(shared_memory_take(&taken, parameters, wrong), ERROR_UNAVAILABLE, why);
    assert_null(taken.gradient);
    assert_null(taken.values);
}

static void test_what_one_side_writes_the_other_reads(void **state)
{
    (void)state;
    make();
    assert_ok(shared_memory_take(&taken, PARAMETERS, &offer));
    for (size_t i = 0; i < PARAMETERS; i++) {
        made.gradient[i] = (float)i;
        taken.values[i] = -(float)i;
    }
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(taken.gradient[i] == (float)i && made.values[i] == -(float)i);
    assert_ptr_not_equal(made.gradient, taken.gradient);
    shared_memory_was_taken(&made);
    assert_int_equal(fcntl((int)offer.descriptor, F_GETFD), -1);
    shared_memory_release(&made);
    assert_true(taken.gradient[1] == 1); /* it lives as long as one side has it */
    shared_memory_release(&taken);
    shared_memory_release(&taken);
}

static void test_its_size_cannot_change(void **state)
{
    (void)state;
    make();
    assert_int_equal(ftruncate(made.descriptor, PAGE), -1);
    assert_int_equal(ftruncate(made.descriptor, 1 << 30), -1);
    assert_int_equal(fcntl(made.descriptor, F_ADD_SEALS, F_SEAL_WRITE), -1);
    shared_memory_release(&made);
}

static void test_another_offer_is_refused(void **state)
{
    (void)state;
    make();
    struct shared_memory_offer wrong = offer;
    wrong.key[1] ^= 1;
    refuse(&wrong, PARAMETERS, "another process");
    refuse(&offer, PARAMETERS + 5000, "bytes");
    wrong = (struct shared_memory_offer){.process = offer.process, .descriptor = 1 << 20};
    refuse(&wrong, PARAMETERS, "/proc/");
    wrong = (struct shared_memory_offer){.process = INT64_MAX, .descriptor = -1};
    refuse(&wrong, PARAMETERS, "/proc/");
    shared_memory_release(&made);
}

/* Of the right size and with the right key, but its maker could cut it short. */
static void test_what_is_not_sealed_is_refused(void **state)
{
    (void)state;
    make();
    size_t bytes = PAGE + (PARAMETERS * sizeof(float) + PAGE - 1) / PAGE * PAGE * 2;
    char *begin = (char *)(void *)made.gradient - PAGE;
    for (unsigned seals = 0; seals < 2; seals++) {
        int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(write(file, begin, bytes), bytes);
        assert_int_equal(fcntl(file, F_ADD_SEALS, seals ? F_SEAL_GROW | F_SEAL_SEAL : 0), 0);
        struct shared_memory_offer wrong = offer;
        wrong.descriptor = file;
        refuse(&wrong, PARAMETERS, "sealed");
        close(file);
    }
    shared_memory_release(&made);
}

static void test_what_is_no_file_is_not_opened(void **state)
{
    (void)state;
    int ends[2];
    make();
    assert_int_equal(pipe(ends), 0);
    struct shared_memory_offer wrong = offer;
    wrong.descriptor = ends[0];
    refuse(&wrong, PARAMETERS, "is not of");
    close(ends[0]);
    close(ends[1]);
    shared_memory_release(&made);
}

/* The system gives no file, or no room in it. */
static void test_what_cannot_be_made(void **state)
{
    static const enum __rlimit_resource limits[] = {RLIMIT_NOFILE, RLIMIT_FSIZE};
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < 2; i++) {
        struct rlimit before, none;
        assert_int_equal(getrlimit(limits[i], &before), 0);
        none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(limits[i], &none), 0);
        enum error error = shared_memory_make(&made, PARAMETERS, &offer);
        assert_int_equal(setrlimit(limits[i], &before), 0); /* before anything is printed */
        assert_int_equal(error, ERROR_UNAVAILABLE);
        assert_non_null(strstr(error_message(), "no shared memory"));
        assert_null(made.gradient);
        assert_int_equal(made.descriptor, 0);
        shared_memory_release(&made);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_one_side_writes_the_other_reads),
    cmocka_unit_test(test_its_size_cannot_change),
    cmocka_unit_test(test_another_offer_is_refused),
    cmocka_unit_test(test_what_is_not_sealed_is_refused),
    cmocka_unit_test(test_what_is_no_file_is_not_opened),
    cmocka_unit_test(test_what_cannot_be_made),
};

UNIT_MAIN(tests)
