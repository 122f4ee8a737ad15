/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/nccl: which library is taken, how its answers are understood, and what is
 * asked of it after an abort. dlopen() and dlsym() are the test's own, and so is NCCL.
 */
#include "tests/unit/unit.h"

#include <dlfcn.h>

#include "common/clock.h"
#include "trainer/compute/nccl.h"

enum { SUCCESS = 0, CUDA_ERROR = 1, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };

static const char *there; /* the only file that is; NULL: none */
static const char *lacks; /* a function that it does not have; NULL: has all */
static int version, init_status, async_status, polls_until_ready, aborts, destroys, sums;
static char comm[1];

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);
char *__wrap_dlerror(void);

void *__wrap_dlopen(const char *name, int flags)
{
    (void)flags;
    return there && strcmp(name, there) == 0 ? comm : NULL;
}

char *__wrap_dlerror(void)
{
    static char why[] = "it is not there";
    return why;
}

static int get_version(int *ret_version)
{
    *ret_version = version;
    return SUCCESS;
}

struct id {
    char bytes[NCCL_ID_BYTES];
};

static int get_id(struct id *id)
{
    memset(id, 'i', sizeof(*id));
    return SUCCESS;
}

/* As ncclConfig_t begins in every version from 2.14 on. */
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

static int init(void **ret_comm, int ranks, struct id id, int rank, const struct config *config)
{
    assert_int_equal(ranks, 4);
    assert_int_equal(rank, 3);
    assert_int_equal(id.bytes[NCCL_ID_BYTES - 1], 'i');
    assert_int_equal(config->size, sizeof(*config));
    assert_int_equal(config->magic, 0xcafebeefu);
    assert_int_equal(config->blocking, 0);
    *ret_comm = comm;
    return init_status;
}

static int get_async_error(const void *of, int *status)
{
    assert_ptr_equal(of, comm);
    *status = polls_until_ready-- > 0 ? IN_PROGRESS : async_status;
    return SUCCESS;
}

static int abort_comm(const void *of)
{
    assert_ptr_equal(of, comm);
    aborts++;
    return SUCCESS;
}

static int finalize(const void *of)
{
    assert_ptr_equal(of, comm);
    return IN_PROGRESS;
}

static int destroy(const void *of)
{
    assert_ptr_equal(of, comm);
    destroys++;
    return SUCCESS;
}

static int sum(const void *from, void *to, size_t count, int type, int operation, const void *of,
               void *stream)
{
    assert_ptr_equal(from, to);
    assert_ptr_equal(of, comm);
    assert_ptr_equal(stream, comm);
    assert_true(count == 9 && type == 7 && operation == 0);
    sums++;
    return IN_PROGRESS;
}

static const char *text_of(int status)
{
    return status == CUDA_ERROR ? "unhandled cuda error" : "another error";
}

static const char *last_error(const void *of)
{
    (void)of;
    return "two ranks have one GPU";
}

void *__wrap_dlsym(void *handle, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"ncclGetVersion", (void *)get_version},
        {"ncclGetUniqueId", (void *)get_id},
        {"ncclCommInitRankConfig", (void *)init},
        {"ncclCommGetAsyncError", (void *)get_async_error},
        {"ncclCommAbort", (void *)abort_comm},
        {"ncclCommFinalize", (void *)finalize},
        {"ncclCommDestroy", (void *)destroy},
        {"ncclAllReduce", (void *)sum},
        {"ncclBroadcast", (void *)sum},
        {"ncclGetErrorString", (void *)text_of},
        {"ncclGetLastError", (void *)last_error},
    };
    assert_ptr_equal(handle, comm);
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        if (strcmp(functions[i].name, name) == 0 && (!lacks || strcmp(name, lacks) != 0))
            return functions[i].function;
    }
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    there = "libnccl.so.2";
    lacks = NULL;
    version = 22809;
    init_status = IN_PROGRESS;
    async_status = polls_until_ready = aborts = destroys = sums = 0;
    return 0;
}

/* A communicator that is ready. */
static struct nccl *connected(void)
{
    struct nccl *nccl;
    char id[NCCL_ID_BYTES];
    assert_ok(nccl_open(&nccl));
    assert_ok(nccl_make_id(nccl, id));
    assert_ok(nccl_begin(nccl, id, 4, 3));
    assert_ok(nccl_poll(nccl));
    return nccl;
}

static void test_the_library_is_found(void **state)
{
    static const char *const files[] = {"libnccl.so.2", "libnccl.so",
                                        "/usr/local/cuda/lib64/libnccl.so.2"};
    struct nccl *nccl;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        there = files[i];
        assert_ok(nccl_open(&nccl));
        assert_string_equal(nccl_describe(nccl), "NCCL 2.28.9");
        nccl_close(nccl);
    }
}

static void test_a_library_that_is_no_good_is_named(void **state)
{
    struct nccl *nccl;
    (void)state;
    there = NULL;
    assert_fails(nccl_open(&nccl), ERROR_UNAVAILABLE,
                 "NCCL (libnccl.so.2): cannot load the library: it is not there");
    set_up(NULL);
    lacks = "ncclCommAbort";
    assert_fails(nccl_open(&nccl), ERROR_UNAVAILABLE, "NCCL has no function ncclCommAbort");
    set_up(NULL);
    version = 21307;
    assert_fails(nccl_open(&nccl), ERROR_UNAVAILABLE, "version 2.13.7 blocks");
}

static void test_connecting_takes_a_while(void **state)
{
    struct nccl *nccl;
    char id[NCCL_ID_BYTES];
    (void)state;
    polls_until_ready = 2;
    assert_ok(nccl_open(&nccl));
    assert_ok(nccl_make_id(nccl, id));
    assert_ok(nccl_begin(nccl, id, 4, 3));
    assert_int_equal(nccl_poll(nccl), ERROR_TIMEOUT);
    assert_int_equal(nccl_poll(nccl), ERROR_TIMEOUT);
    assert_ok(nccl_poll(nccl));
    nccl_close(nccl);
    assert_int_equal(aborts, 1);
}

static void test_errors_say_whose_they_are(void **state)
{
    struct nccl *nccl = connected();
    (void)state;
    async_status = INVALID_USAGE;
    assert_fails(nccl_poll(nccl), ERROR_CONFLICT, "two ranks have one GPU");
    async_status = REMOTE_ERROR;
    assert_int_equal(nccl_poll(nccl), ERROR_NETWORK);
    async_status = CUDA_ERROR;
    assert_fails(nccl_poll(nccl), ERROR_UNAVAILABLE, "unhandled cuda error");
    nccl_close(nccl);
}

static void test_work_is_taken_before_the_call_returns(void **state)
{
    struct nccl *nccl = connected();
    float values[9];
    (void)state;
    polls_until_ready = 3;
    assert_ok(nccl_sum(nccl, values, 9, comm));
    assert_int_equal(polls_until_ready, -1);
    async_status = REMOTE_ERROR;
    assert_int_equal(nccl_sum(nccl, values, 9, comm), ERROR_NETWORK);
    nccl_close(nccl);
}

static void test_nothing_is_asked_after_an_abort(void **state)
{
    struct nccl *nccl = connected();
    float values[9];
    (void)state;
    nccl_abort(nccl);
    assert_fails(nccl_sum(nccl, values, 9, comm), ERROR_NETWORK, "was aborted");
    assert_fails(nccl_poll(nccl), ERROR_NETWORK, "was aborted");
    nccl_abort(nccl);
    nccl_end(nccl, clock_deadline_ns(0));
    nccl_close(nccl);
    assert_int_equal(sums + destroys, 0);
    assert_int_equal(aborts, 1);
}

static void test_an_end_waits_for_the_others_until_its_deadline(void **state)
{
    struct nccl *nccl = connected();
    (void)state;
    polls_until_ready = 2;
    nccl_end(nccl, clock_deadline_ns(60000));
    assert_int_equal(destroys, 1);
    nccl_close(nccl);
    assert_int_equal(aborts, 0);
    nccl = connected();
    polls_until_ready = INT32_MAX;
    nccl_end(nccl, clock_deadline_ns(1));
    assert_int_equal(aborts, 1);
    nccl_close(nccl);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_the_library_is_found, set_up),
    cmocka_unit_test_setup(test_a_library_that_is_no_good_is_named, set_up),
    cmocka_unit_test_setup(test_connecting_takes_a_while, set_up),
    cmocka_unit_test_setup(test_errors_say_whose_they_are, set_up),
    cmocka_unit_test_setup(test_work_is_taken_before_the_call_returns, set_up),
    cmocka_unit_test_setup(test_nothing_is_asked_after_an_abort, set_up),
    cmocka_unit_test_setup(test_an_end_waits_for_the_others_until_its_deadline, set_up),
};

UNIT_MAIN(tests)
