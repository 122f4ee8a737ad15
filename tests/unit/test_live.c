/* SPDX-License-Identifier: MIT */
/* Covers sampler/service/live: What the live page gets, from streams that draw. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "common/json.h"
#include "sampler/api/live_json.h"

#define PATIENCE_MS 600000

/* ---- a machine that sleeps while the streams are read ------------------ */

static _Atomic int slept_seconds;
static _Atomic int readings; /* since it slept */
static _Atomic bool will_sleep;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int status = __real_clock_gettime(clock, ret_time);
    ret_time->tv_sec += slept_seconds;
    return status;
}

enum error __real_streams_list(struct streams *streams, struct stream ***ret_taken,
                               size_t *ret_count);
enum error __wrap_streams_list(struct streams *streams, struct stream ***ret_taken,
                               size_t *ret_count);
enum error __wrap_streams_list(struct streams *streams, struct stream ***ret_taken,
                               size_t *ret_count)
{
    readings += slept_seconds > 0;
    if (will_sleep)
        slept_seconds = 3600;
    return __real_streams_list(streams, ret_taken, ret_count);
}

/* ---- a server ----------------------------------------------------------- */

struct server {
    struct frame_set *frames;
    struct streams *streams;
    struct live *live;
};

static struct sampling_plan *open_walk(struct server *server,
                                       const struct stream_definition *definition)
{
    struct sampling_plan *plan;
    assert_int_equal(sampling_plan_open(server->frames, NULL, definition, &plan), OK);
    return plan;
}

static struct stream_definition define(const char *name, const char *design)
{
    static char no_fields[] = "";
    struct stream_definition definition = {
        .frame = "default", .seed = 1, .epochs = 2, .fields = no_fields};
    snprintf(definition.name, sizeof(definition.name), "%s", name);
    snprintf(definition.design, sizeof(definition.design), "%s", design);
    return definition;
}

static int setup(void **state)
{
    struct server *server = calloc(1, sizeof(*server));
    struct stream_definition definition = define(STREAM_DEFAULT, "proportional");
    assert_int_equal(frame_set_new(&server->frames), OK);
    assert_int_equal(frame_set_add(server->frames, "default", "range:1000?labels=4", NULL), OK);
    struct streams_options options = {.max_streams = 10};
    assert_int_equal(streams_open(&options, &server->streams), OK);
    assert_int_equal(streams_start(server->streams, server->frames, NULL, &definition,
                                   open_walk(server, &definition)),
                     OK);
    assert_int_equal(live_new(server->streams, &server->live), OK);
    *state = server;
    return 0;
}

static int teardown(void **state)
{
    struct server *server = *state;
    live_free(server->live);
    streams_free(server->streams);
    frame_set_free(server->frames);
    free(server);
    return 0;
}

static void draw(struct server *server, const char *name, const char *worker, int64_t seq,
                 int64_t size)
{
    struct ledger_pull pull = {.size = size, .worker = worker, .seq = seq, .room = size};
    struct stream *stream = streams_take(server->streams, name);
    struct stream_batch batch;
    bool wait;
    assert_non_null(stream);
    assert_int_equal(stream_draw(stream, &pull, NULL, &batch, &wait), OK);
    stream_put(stream);
}

static cJSON *ask(struct server *server, const char *chosen)
{
    struct buffer text = BUFFER_INIT(1 << 20);
    cJSON *json;
    assert_int_equal(buffer_add_text(&text, "{"), OK);
    assert_int_equal(live_json_add(server->streams, server->live, chosen, &text), OK);
    assert_int_equal(buffer_add_text(&text, "}"), OK);
    assert_int_equal(json_parse(text.data, text.length, "the live page's", &json), OK);
    buffer_release(&text);
    return json;
}

static int64_t number(const cJSON *object, const char *key)
{
    int64_t value;
    assert_int_equal(json_get_integer(object, key, "the test's", &value), OK);
    return value;
}

static int64_t sum_of_column(const cJSON *labels, int column)
{
    int64_t sum = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(labels, "rows"))
    {
        sum += (int64_t)cJSON_GetNumberValue(cJSON_GetArrayItem(row, column));
    }
    return sum;
}

/* Asks until the balance knows all that was drawn in the last minute. */
static cJSON *ask_until_counted(struct server *server, const char *chosen, int64_t units)
{
    int64_t deadline_ns = clock_deadline_ns(PATIENCE_MS);
    while (clock_left_ms(deadline_ns) > 0) {
        cJSON *json = ask(server, chosen);
        const cJSON *labels = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "chosen"), "labels");
        if (cJSON_IsObject(labels) && sum_of_column(labels, 4) == units)
            return json;
        cJSON_Delete(json);
        clock_sleep_ms(20);
    }
    fail_msg("the balance never knew %d units", (int)units);
    return NULL;
}

static void test_a_stream_that_nobody_drew_from(void **state)
{
    cJSON *json = ask(*state, "nobody");
    const cJSON *stream = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "streams"), 0);
    assert_int_equal(number(json, "streams_count"), 1);
    assert_int_equal(number(stream, "position"), 0);
    assert_int_equal(number(stream, "epoch_draws"), 1000);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(stream, "left_s")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(stream, "fields")));
    cJSON_Delete(json);
}

static void test_draws_leases_and_labels(void **state)
{
    draw(*state, "default", NULL, 0, 90);
    draw(*state, "default", "w:1", 0, 10);
    cJSON *json = ask_until_counted(*state, "default", 100);
    const cJSON *stream = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "streams"), 0);
    const cJSON *chosen = cJSON_GetObjectItem(json, "chosen");
    const cJSON *workers = cJSON_GetObjectItem(chosen, "workers");
    const cJSON *worker = cJSON_GetArrayItem(cJSON_GetObjectItem(workers, "rows"), 0);
    assert_int_equal(number(stream, "position"), 100);
    assert_int_equal(number(stream, "leased"), 1);
    assert_int_equal(number(workers, "count"), 1);
    assert_int_equal(number(worker, "leased"), 1);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(worker, "name")), "w:1");
    assert_int_equal(sum_of_column(cJSON_GetObjectItem(chosen, "labels"), 2), 100);
    cJSON_Delete(json);
}

static void test_designs_that_are_counted(void **state)
{
    struct server *server = *state;
    struct stream_definition definition = define("plain", "srs");
    struct stream *stream;
    bool wait;
    assert_int_equal(streams_create(server->streams, &definition, open_walk(server, &definition), 0,
                                    NULL, &stream, &wait),
                     OK);
    live_notice(server->live, stream);
    stream_put(stream);
    for (int i = 0; i < 15; i++)
        draw(server, "plain", NULL, 0, 100);
    cJSON *json = ask_until_counted(server, "plain", 1500);
    const cJSON *labels = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "chosen"), "labels");
    assert_int_equal(number(labels, "epoch"), 1);
    assert_int_equal(number(labels, "drawn"), 500);
    cJSON_Delete(json);
}

static void test_the_end_and_a_seek(void **state)
{
    struct server *server = *state;
    bool wait;
    for (int i = 0; i < 20; i++)
        draw(server, "default", NULL, 0, 100);
    cJSON *json = ask_until_counted(server, "default", 2000);
    const cJSON *labels = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "chosen"), "labels");
    assert_int_equal(number(labels, "epoch"), 1); /* the last one, whole */
    assert_int_equal(number(labels, "drawn"), 1000);
    cJSON_Delete(json);
    struct stream *stream = streams_take(server->streams, "default");
    live_notice(server->live, stream);
    assert_int_equal(stream_seek(stream, 700, NULL, &wait), OK);
    live_notice(server->live, stream);
    stream_put(stream);
    draw(server, "default", NULL, 0, 50);
    cJSON_Delete(ask_until_counted(server, "default", 2050));
}

/* Seconds that the machine slept through are not made up for: the history has a hole. */
static void test_a_machine_that_slept(void **state)
{
    (void)state;
    int64_t deadline_ns = clock_deadline_ns(PATIENCE_MS);
    will_sleep = true;
    while (slept_seconds == 0 && clock_left_ms(deadline_ns) > 0)
        clock_sleep_ms(10);
    assert_true(slept_seconds > 0);
    clock_sleep_ms(200);               /* time for all of them */
    assert_in_range(readings, 0, 100); /* those of seconds that passed meanwhile */
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_a_stream_that_nobody_drew_from, setup, teardown),
    cmocka_unit_test_setup_teardown(test_draws_leases_and_labels, setup, teardown),
    cmocka_unit_test_setup_teardown(test_designs_that_are_counted, setup, teardown),
    cmocka_unit_test_setup_teardown(test_the_end_and_a_seek, setup, teardown),
    cmocka_unit_test_setup_teardown(test_a_machine_that_slept, setup, teardown),
};

UNIT_MAIN(tests)
