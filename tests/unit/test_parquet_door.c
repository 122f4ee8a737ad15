/* SPDX-License-Identifier: MIT */
/* Covers loader/parquet/parquet_door. */
#include "tests/unit/folder_unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/parquet/parquet_door.h"

static void *load(void *unused)
{
    const struct parquet_module *module;
    (void)unused;
    return parquet_door_open(&module) == ERROR_UNAVAILABLE ? &load : NULL;
}

static sem_t is_loading;

/* Of the module. While it is loaded, glibc starts no thread. */
static void *end_of_file(void *path)
{
    int writer = open(path, O_WRONLY);
    sem_post(&is_loading);
    usleep(100000); /* fork() has begun by then; if not, the test finds nothing */
    close(writer);
    return NULL;
}

/* A thread is in the middle of loading the module: of a pipe, whose end is to come. */
static void test_a_child_loads_too(void **state)
{
    char path[512];
    pthread_t threads[2];
    int status = -1;
    void *result = NULL;
    (void)state;
    snprintf(path, sizeof(path), "%s/module.so", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(setenv("TOMBOLA_PARQUET_MODULE", path, 1), 0);
    assert_int_equal(sem_init(&is_loading, 0, 0), 0);
    assert_int_equal(pthread_create(&threads[0], NULL, end_of_file, path), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, load, NULL), 0);
    assert_int_equal(sem_wait(&is_loading), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(30); /* it hangs */
        setenv("TOMBOLA_PARQUET_MODULE", "/dev/null", 1);
        if (load(NULL))
            kill(getpid(), SIGKILL); /* at an exit ThreadSanitizer looks for the parent's threads */
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(pthread_join(threads[1], &result), 0);
    assert_non_null(result);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_a_child_loads_too, make_folder, remove_folder),
};

UNIT_MAIN(tests)
