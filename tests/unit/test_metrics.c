#include "tests/unit/unit.h"

#include "sampler/metrics.h"

static const char *text_of(const struct metrics *metrics, struct buffer *buffer)
{
    struct metrics sum;
    memset(&sum, 0, sizeof(sum));
    metrics_sum(&sum, metrics);
    metrics_sum(&sum, metrics); /* as if two threads had counted the same */
    buffer_clear(buffer);
    assert_ok(metrics_add_text(buffer, &sum));
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_counts_of_all_threads_are_added),
    cmocka_unit_test(test_every_family_is_named_once),
};

UNIT_MAIN(tests)
