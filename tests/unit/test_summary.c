/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/run/summary: what is in a summary and when there is one, by a clock of the test's
 * own; read from events.jsonl.
 */
#include "tests/unit/folder_unit.h"

#include <stdatomic.h>

#include "common/file.h"
#include "common/json.h"
#include "trainer/run/summary.h"

#define SECOND_NS INT64_C(1000000000)

/* Ahead of the real one, so that no wait is over before what it waits for. */
static _Atomic int64_t clock_ns = 1000000000 * SECOND_NS;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void)
{
    return atomic_load(&clock_ns);
}

static struct summary *open_at(int64_t step)
{
    static struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "sgd", 0.5));
    optimizer.schedule =
        (struct schedule){.kind = SCHEDULE_STEP, .decay_steps = 1000000, .decay_rate = 0.5f};
    struct summary_options options = {.folder = folder,
                                      .seconds = 1,
                                      .step = step,
                                      .has_accuracy = true,
                                      .has_staleness = true,
                                      .optimizer = &optimizer};
    struct summary *summary;
    assert_ok(summary_open(&options, &summary));
    return summary;
}

/* `ms` later, on values of step `before`: half of ten rows were right. */
static void step_at(struct summary *summary, int64_t before, int64_t step, double loss, int64_t ms)
{
    static int64_t wait_ns;
    atomic_fetch_add(&clock_ns, ms * 1000000);
    wait_ns += ms * 250000;
    summary_step(summary, &(struct summary_step){.before = before,
                                                 .step = step,
                                                 .rows = 10,
                                                 .judged_rows = loss >= 0 ? 10 : 0,
                                                 .loss = loss,
                                                 .correct = 5,
                                                 .wait_ns = wait_ns});
}

/* All lines as a list; cJSON_Delete() it. */
static cJSON *read_lines(void)
{
    char path[512];
    struct buffer text = BUFFER_INIT(1 << 20);
    cJSON *lines = cJSON_CreateArray(), *line;
    snprintf(path, sizeof(path), "%s/events.jsonl", folder);
    assert_ok(file_read_whole(path, &text));
    for (char *at = text.data; *at; at = strchr(at, '\n') + 1) {
        assert_ok(json_parse(at, strcspn(at, "\n"), "a line", &line));
        cJSON_AddItemToArray(lines, line);
    }
    buffer_release(&text);
    return lines;
}

static void check_number(const cJSON *line, const char *key, double value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    assert_true(cJSON_IsNumber(item));
    assert_float_equal(item->valuedouble, value, 1e-9);
}

static void check_session(const cJSON *line, const char *session, double step)
{
    assert_string_equal(cJSON_GetObjectItem(line, "session")->valuestring, session);
    check_number(line, "step", step);
}

static void test_a_summary_is_of_all_since_the_last(void **state)
{
    struct summary *summary = open_at(0);
    (void)state;
    step_at(summary, 0, 1, 1.0, 400);
    step_at(summary, 0, 3, 2.0, 400); /* two steps of others between */
    step_at(summary, 3, 4, -1, 400);  /* a second is over; its loss was not read */
    step_at(summary, 4, 5, 7.0, 100);
    summary_close(summary);
    cJSON *lines = read_lines();
    assert_int_equal(cJSON_GetArraySize(lines), 4);
    check_session(cJSON_GetArrayItem(lines, 0), "start", 0);
    const cJSON *line = cJSON_GetArrayItem(lines, 1);
    check_number(line, "step", 4);
    check_number(line, "loss", 1.5);
    check_number(line, "accuracy", 0.5);
    check_number(line, "rows_per_s", 25);
    check_number(line, "steps_per_s", 4 / 1.2);
    check_number(line, "wait_for_data", 0.25);
    check_number(line, "learning_rate", 0.5);
    check_number(line, "staleness", 2 / 3.0);
    line = cJSON_GetArrayItem(lines, 2); /* the end shows what there is */
    check_number(line, "step", 5);
    check_number(line, "loss", 7);
    check_number(line, "steps_per_s", 10);
    check_number(line, "staleness", 0);
    check_session(cJSON_GetArrayItem(lines, 3), "stop", 5);
    cJSON_Delete(lines);
}

static void test_no_step_is_there_twice(void **state)
{
    struct summary *summary = open_at(7);
    (void)state;
    step_at(summary, 7, 8, 1, 1500);
    step_at(summary, 7, 8, 1, 1500); /* another's batch made this step */
    step_at(summary, 8, 9, 1, 100);
    summary_close(summary);
    cJSON *lines = read_lines();
    assert_int_equal(cJSON_GetArraySize(lines), 4);
    check_session(cJSON_GetArrayItem(lines, 0), "start", 8); /* step 7 was the run before */
    check_number(cJSON_GetArrayItem(lines, 1), "step", 8);
    check_number(cJSON_GetArrayItem(lines, 2), "step", 9);
    cJSON_Delete(lines);
}

static void test_a_cluster_may_go_back(void **state)
{
    struct summary *summary = open_at(0);
    (void)state;
    step_at(summary, 20, 21, 3, 1500);
    step_at(summary, 21, 11, 1, 100);
    step_at(summary, 11, 12, 2, 1500);
    summary_close(summary);
    cJSON *lines = read_lines();
    assert_int_equal(cJSON_GetArraySize(lines), 5);
    check_number(cJSON_GetArrayItem(lines, 1), "step", 21);
    check_session(cJSON_GetArrayItem(lines, 2), "start", 11);
    check_number(cJSON_GetArrayItem(lines, 3), "step", 12);
    check_number(cJSON_GetArrayItem(lines, 3), "loss", 1.5);
    check_number(cJSON_GetArrayItem(lines, 3), "staleness", 0);
    cJSON_Delete(lines);
}

static void test_tests_come_by_time_too(void **state)
{
    struct summary *summary = open_at(0);
    (void)state;
    summary_test(summary, 1, 0.25, 0.5);
    summary_test(summary, 2, 0.125, 0.75);
    summary_test(summary, 3, 0.0625, 0.875);
    summary_test(summary, 3, 0.0625, 0.875); /* at the end, once more */
    summary_checkpoint(summary, 3, "run/model.ckpt-3.safetensors");
    summary_close(summary);
    cJSON *lines = read_lines();
    assert_int_equal(cJSON_GetArraySize(lines), 5);
    check_number(cJSON_GetArrayItem(lines, 1), "step", 1);
    check_number(cJSON_GetArrayItem(lines, 1), "test_loss", 0.25);
    check_number(cJSON_GetArrayItem(lines, 1), "test_accuracy", 0.5);
    check_session(cJSON_GetArrayItem(lines, 2), "checkpoint", 3);
    check_number(cJSON_GetArrayItem(lines, 3), "step", 3);
    check_number(cJSON_GetArrayItem(lines, 3), "test_accuracy", 0.875);
    cJSON_Delete(lines);
}

static void test_there_may_be_none(void **state)
{
    (void)state;
    step_at(NULL, 0, 1, 1, 1);
    summary_test(NULL, 1, 1, 1);
    summary_checkpoint(NULL, 1, "path");
    summary_parameters(NULL, NULL, NULL);
    summary_close(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_a_summary_is_of_all_since_the_last, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_no_step_is_there_twice, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_cluster_may_go_back, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_tests_come_by_time_too, make_folder, remove_folder),
    cmocka_unit_test(test_there_may_be_none),
};

UNIT_MAIN(tests)
