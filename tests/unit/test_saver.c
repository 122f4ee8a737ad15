/* SPDX-License-Identifier: MIT */
/* Covers trainer/checkpoint/saver. */
#include "tests/unit/checkpoint_unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "trainer/checkpoint/saver.h"
#include "trainer/compute/engine.h"

static char folder[256];
static struct engine engine;
static struct model *model;
static struct checkpoint_facts facts;
static struct logdir *logdir;
static struct saver *saver;

static int set_up(void **state)
{
    struct engine_options options = {.device = "cpu", .blas = "plain", .threads = 1};

    (void)state;
    unit_folder_make(folder);
    facts = small_facts();
    assert_ok(engine_open(&options, &engine));
    assert_ok(model_new(&facts.model, engine.kernel, &model));
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(saver_open(logdir, &saver));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    saver_close(saver);
    logdir_close(logdir);
    model_free(model);
    engine_close(&engine);
    unit_folder_remove(folder);
    return 0;
}

static void start(int64_t step)
{
    struct checkpoint_snapshot *snapshot = NULL;
    float values[3] = {(float)step, 0, 0};

    assert_ok(model_write(model, values, step));
    assert_ok(checkpoint_snapshot_new(model, &facts, &snapshot));
    assert_ok(saver_start(saver, snapshot));
    assert_true(saver_is_busy(saver));
    values[0] = -1; /* goes on while it is written */
    assert_ok(model_write(model, values, step + 1));
}

static void test_the_state_of_the_start_is_saved(void **state)
{
    struct checkpoint *checkpoint = NULL;
    float values[3];
    int64_t step;

    (void)state;
    assert_ok(saver_finish(saver, &step));
    assert_int_equal(step, -1);
    assert_false(saver_is_busy(saver));
    for (int64_t i = 1; i <= 20; i++) {
        start(i);
        assert_ok(saver_finish(saver, &step));
        assert_int_equal(step, i);
        assert_false(saver_is_busy(saver) || saver_is_done(saver));
    }
    assert_ok(logdir_newest(logdir, &checkpoint));
    assert_int_equal(checkpoint_step(checkpoint), 20);
    assert_ok(checkpoint_restore(checkpoint, model));
    assert_ok(model_read(model, values));
    assert_true(values[0] == 20);
    checkpoint_close(checkpoint);
}

static void test_a_failure_is_told_and_the_next_one_may_do(void **state)
{
    int64_t step;
    char path[300];

    (void)state;
    snprintf(path, sizeof(path), "%s/model.ckpt-7.safetensors", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    start(7);
    assert_int_not_equal(saver_finish(saver, &step), OK);
    assert_non_null(strstr(error_message(), "model.ckpt-7.safetensors"));
    assert_int_equal(step, 7);
    assert_int_equal(rmdir(path), 0);
    start(7);
    while (!saver_is_done(saver))
        usleep(1000);
    assert_ok(saver_finish(saver, &step));
    assert_int_equal(logdir_newest_step(logdir), 7);
}

/* As a disk that fails, which exits with 1 and may be tried again; and not as bad input. */
static void test_a_folder_that_is_gone_is_a_failed_disk(void **state)
{
    int64_t step;
    char away[300];

    (void)state;
    snprintf(away, sizeof(away), "%s.away", folder);
    assert_int_equal(rename(folder, away), 0);
    start(7);
    assert_int_equal(saver_finish(saver, &step), ERROR_IO);
    assert_int_equal(rename(away, folder), 0);
    start(7);
    assert_ok(saver_finish(saver, &step));
}

static struct checkpoint_snapshot *snapshot_of(int64_t step)
{
    struct checkpoint_snapshot *snapshot = NULL;
    float values[3] = {(float)step, 0, 0};
    assert_ok(model_write(model, values, step));
    assert_ok(checkpoint_snapshot_new(model, &facts, &snapshot));
    return snapshot;
}

static int64_t best_step(void)
{
    struct checkpoint *checkpoint;
    assert_ok(logdir_best(logdir, &checkpoint));
    int64_t step = checkpoint ? checkpoint_step(checkpoint) : -1;
    checkpoint_close(checkpoint);
    return step;
}

/* A checkpoint that is there has the best before it beside it. */
static void test_the_best_goes_first(void **state)
{
    int64_t step;
    char path[300];
    (void)state;
    assert_int_equal(best_step(), -1);
    saver_add_best(saver, snapshot_of(4));
    start(6);
    assert_ok(saver_finish(saver, &step));
    assert_int_equal(best_step(), 4);
    assert_null(saver_take_best(saver));
    start(7); /* with no better one */
    assert_ok(saver_finish(saver, &step));
    assert_int_equal(best_step(), 4);

    snprintf(path, sizeof(path), "%s/" LOGDIR_BEST, folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    saver_add_best(saver, snapshot_of(8));
    start(9);
    assert_int_not_equal(saver_finish(saver, &step), OK);
    assert_int_equal(logdir_newest_step(logdir), 7);
    assert_int_equal(rmdir(path), 0);
    struct checkpoint_snapshot *best = saver_take_best(saver);
    assert_int_equal(checkpoint_snapshot_step(best), 8);
    assert_ok(logdir_save_best(logdir, best));
    checkpoint_snapshot_free(best);
    assert_int_equal(best_step(), 8);
}

static void test_a_save_in_progress_ends_before_the_logdir(void **state)
{
    (void)state;
    start(3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_the_state_of_the_start_is_saved, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_a_failure_is_told_and_the_next_one_may_do, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(test_a_folder_that_is_gone_is_a_failed_disk, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_the_best_goes_first, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_a_save_in_progress_ends_before_the_logdir, set_up,
                                    tear_down),
};

UNIT_MAIN(tests)
