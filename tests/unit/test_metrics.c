/* SPDX-License-Identifier: MIT */
/* Covers common/http/metrics. */
#include "tests/unit/unit.h"

#include "common/http/http_problem.h"
#include "common/http/metrics.h"
#include "sampler/api/routes.h"

static const char *text_of(const struct metrics *metrics, struct buffer *buffer)
{
    struct metrics sum;
    memset(&sum, 0, sizeof(sum));
    metrics_sum(&sum, metrics);
    metrics_sum(&sum, metrics); /* as if two threads had counted the same */
    buffer_clear(buffer);
    const struct metrics_source source = {.sum = &sum};
    assert_ok(metrics_add_text(buffer, &sampler_metrics, &source, 1));
    return buffer->data;
}

static void assert_holds(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("no line %s in\n%s", line, text);
}

static void test_counts_of_all_threads_are_added(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1 << 20);
    struct metrics metrics;
    memset(&metrics, 0, sizeof(metrics));
    metrics_count(&metrics, PATH_BATCH, 200, 852, 100);
    metrics_time(&metrics, PATH_BATCH, 15000);
    metrics_count(&metrics, PATH_BATCH, 200, 852, 100);
    metrics_time(&metrics, PATH_BATCH, 10000);
    metrics_count(&metrics, PATH_BATCH, 400, 100, 0);
    metrics_time(&metrics, PATH_BATCH, INT64_C(3600000000000));
    metrics_count(&metrics, PATH_OTHER, 418, 7, 0);
    const char *text = text_of(&metrics, &buffer);
    assert_holds(text, "tombola_sampler_requests_total{path=\"/batch\",status=\"200\"} 4\n");
    assert_holds(text, "tombola_sampler_requests_total{path=\"/batch\",status=\"400\"} 2\n");
    assert_holds(text, "tombola_sampler_requests_total{path=\"other\",status=\"0\"} 2\n");
    assert_holds(text, "tombola_sampler_request_seconds_bucket{path=\"/batch\",le=\"1e-05\"} 2\n");
    assert_holds(text, "tombola_sampler_request_seconds_bucket{path=\"/batch\",le=\"2e-05\"} 4\n");
    assert_holds(text, "tombola_sampler_request_seconds_bucket{path=\"/batch\",le=\"10\"} 4\n");
    assert_holds(text, "tombola_sampler_request_seconds_bucket{path=\"/batch\",le=\"+Inf\"} 6\n");
    assert_holds(text, "tombola_sampler_request_seconds_count{path=\"/batch\"} 6\n");
    assert_holds(text, "tombola_sampler_request_seconds_sum{path=\"/batch\"} 7200.000050000\n");
    assert_holds(text, "tombola_sampler_ids_total 400\n");
    assert_holds(text, "tombola_sampler_body_bytes_total 3622\n");
    buffer_release(&buffer);
}

static void test_every_status_has_its_own_counter(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1 << 20);
    for (int status = 100; status < 600; status++) {
        struct metrics metrics;
        char line[64];
        if (strcmp(http_status_title(status), "Error") == 0)
            continue; /* none of ours */
        memset(&metrics, 0, sizeof(metrics));
        metrics_count(&metrics, PATH_BATCH, status, 0, 0);
        snprintf(line, sizeof(line), "{path=\"/batch\",status=\"%d\"} 2\n", status);
        assert_holds(text_of(&metrics, &buffer), line);
    }
    buffer_release(&buffer);
}

static void test_every_family_is_named_once(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1 << 20);
    struct metrics metrics;
    memset(&metrics, 0, sizeof(metrics));
    for (int path = 0; path < METRICS_PATHS; path++)
        metrics_count(&metrics, (enum metrics_path)path, 200, 1, 1);
    const char *text = text_of(&metrics, &buffer);
    static const char *const families[] = {
        "# TYPE tombola_sampler_requests_total counter\n",
        "# TYPE tombola_sampler_request_seconds histogram\n",
        "# TYPE tombola_sampler_ids_total counter\n",
        "# TYPE tombola_sampler_body_bytes_total counter\n",
    };
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const char *found = strstr(text, families[i]);
        assert_non_null(found);
        assert_null(strstr(found + 1, families[i]));
    }
    buffer_release(&buffer);
}

/* Each thread counts in a block of its own; the stream's samples are the sum. */
static void test_streams_are_told_apart(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1 << 20);
    struct metrics of_none = {.items = 0};
    struct metrics_blocks first = {.of_thread = {NULL}};
    struct metrics_blocks second = {.of_thread = {NULL}};
    for (uint32_t thread = 0; thread < METRICS_THREADS; thread++) {
        struct metrics *block = metrics_block(&first, thread);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_ptr_equal(metrics_block(&first, thread), block);
        metrics_count(block, PATH_BATCH, 200, 10, 5);
        metrics_time(block, PATH_BATCH, 1);
    }
    assert_null(metrics_block(&first, METRICS_THREADS));
    metrics_count(metrics_block(&second, 3), PATH_ACK, 409, 7, 0);
    metrics_count(&of_none, PATH_METRICS, 200, 99, 0);
    const struct metrics_source sources[] = {
        {.sum = &of_none}, {.label = "a", .blocks = &first}, {.label = "b", .blocks = &second}};
    assert_ok(metrics_add_text(&buffer, &sampler_metrics, sources, 3));
    static const char *const lines[] = {
        "tombola_sampler_requests_total{path=\"/batch\",stream=\"a\",status=\"200\"} 16\n",
        "tombola_sampler_requests_total{path=\"/ack\",stream=\"b\",status=\"409\"} 1\n",
        "tombola_sampler_requests_total{path=\"/metrics\",status=\"200\"} 1\n",
        "_seconds_bucket{path=\"/batch\",stream=\"a\",le=\"+Inf\"} 16\n",
        "_seconds_count{path=\"/batch\",stream=\"a\"} 16\n",
        "tombola_sampler_ids_total{stream=\"a\"} 80\n",
        "tombola_sampler_ids_total{stream=\"b\"} 0\n",
        "tombola_sampler_body_bytes_total 99\n",
        "tombola_sampler_body_bytes_total{stream=\"a\"} 160\n",
        "tombola_sampler_body_bytes_total{stream=\"b\"} 7\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_holds(buffer.data, lines[i]);
    assert_null(strstr(buffer.data, "tombola_sampler_ids_total 0"));
    metrics_blocks_release(&first);
    metrics_blocks_release(&second);
    buffer_release(&buffer);
}

/* What is over the limit is counted without its stream; released blocks make room again. */
static void test_blocks_have_a_limit(void **state)
{
    (void)state;
    enum { STREAMS = METRICS_BLOCKS_MOST / METRICS_THREADS };
    static struct metrics_blocks streams[STREAMS + 1];
    for (size_t i = 0; i < STREAMS; i++) {
        for (uint32_t thread = 0; thread < METRICS_THREADS; thread++)
            assert_non_null(metrics_block(&streams[i], thread));
    }
    assert_null(metrics_block(&streams[STREAMS], 0));
    metrics_blocks_release(&streams[7]);
    assert_non_null(metrics_block(&streams[STREAMS], 0));
    for (size_t i = 0; i <= STREAMS; i++)
        metrics_blocks_release(&streams[i]);
    assert_non_null(metrics_block(&streams[0], 0));
    metrics_blocks_release(&streams[0]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_counts_of_all_threads_are_added),
    cmocka_unit_test(test_every_status_has_its_own_counter),
    cmocka_unit_test(test_every_family_is_named_once),
    cmocka_unit_test(test_streams_are_told_apart),
    cmocka_unit_test(test_blocks_have_a_limit),
};

UNIT_MAIN(tests)
