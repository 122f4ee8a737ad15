/* SPDX-License-Identifier: MIT */
/* Covers sampler/batch/batch_request. */
#include "tests/unit/unit.h"

#include "sampler/batch/batch_request.h"

static struct batch_lease lease;

static struct batch_request parsed(const char *query)
{
    struct batch_request request;
    memset(&lease, 'x', sizeof(lease)); /* nothing in it is relied on */
    assert_ok(batch_request_parse(query, 1000000, &request, &lease));
    return request;
}

static void test_defaults(void **state)
{
    (void)state;
    static const char *const empty[] = {NULL, ""};
    for (size_t i = 0; i < 2; i++) {
        struct batch_request request = parsed(empty[i]);
        assert_string_equal(request.stream, "default");
        assert_int_equal(request.size, 100);
        assert_int_equal(request.index, -1);
        assert_false(request.sort);
        assert_false(request.format_given);
        assert_false(request.size_given);
        assert_false(request.leased);
        assert_false(request.weights);
    }
    struct batch_request small;
    assert_ok(batch_request_parse("", 7, &small, &lease));
    assert_int_equal(small.size, 7);
}

static void test_every_parameter(void **state)
{
    (void)state;
    struct batch_request request =
        parsed("size=1000000&stream=a.B_9-&index=9223372036854775807&format=binary&sort=1");
    assert_string_equal(request.stream, "a.B_9-");
    assert_int_equal(request.size, 1000000);
    assert_int_equal(request.index, INT64_MAX);
    assert_true(request.sort);
    assert_true(request.format_given);
    assert_int_equal(request.format, BATCH_FORMAT_BINARY);
    assert_int_equal(parsed("s%69ze=%31%30").size, 10);
    assert_int_equal(parsed("format=csv&sort=0").format, BATCH_FORMAT_CSV);
}

static void test_bad_values_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *message;
    } cases[] = {
        {"size=0", "size"},
        {"size=-1", "\"-1\""},
        {"size=+1", "\"+1\""},
        {"size=1e9", "1 to 1000000"},
        {"size=1000001", "1 to 1000000"},
        {"size=abc", "abc"},
        {"size=", "size"},
        {"size", "size"},
        {"size=%20100", "size"},
        {"size=10.0", "10.0"},
        {"size=99999999999999999999", "1 to 1000000"},
        {"index=-1", "index"},
        {"index=9223372036854775808", "index"},
        {"sort=2", "sort"},
        {"sort=yes", "sort"},
        {"format=xml", "json, csv or binary"},
        {"format=JSON", "json, csv or binary"},
        {"stream=", "stream"},
        {"stream=a%2Fb", "[A-Za-z0-9._-]"},
        {"stream=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1 to 64"},
        {"size=1&size=1", "twice"},
        {"size=1&s%69ze=1", "twice"},
        {"Size=1", "Size"},
        {"batch=1", "unknown parameter"},
        {"batches=2", "worker and seq, of the first"},
        {"batches=2&index=0", "worker and seq, of the first"},
        {"batches=2&index=0&worker=w0", "worker and seq, of the first"},
        {"batches=0&worker=w0&seq=0", "1 to 64"},
        {"batches=65&worker=w0&seq=0", "1 to 64"},
        {"batches=2&worker=w0&seq=9223372036854775806", "no seqs for that many"},
        {"worker=w0", "worker and seq belong together"},
        {"seq=1", "worker and seq belong together"},
        {"ack=1", "ack: worker and seq"},
        {"worker=w0&ack=1", "belong together"},
        {"worker=w0&seq=1&index=0", "index=0 moves nothing"},
        {"ack=1&index=7", "index=7 moves nothing"},
        {"seq=1&index=7", "seq: index=7"},
        {"worker=w0&ack=1&index=7", "ack: index=7"},
        {"worker=a%20b&index=7", "[A-Za-z0-9._:-]"},
        {"worker=&seq=1", "1 to 128"},
        {"worker=a%20b&seq=1", "[A-Za-z0-9._:-]"},
        {"worker=w0&seq=-1", "seq"},
        {"worker=w0&seq=9223372036854775807", "seq"}, /* its end would be beyond all integers */
        {"worker=w0&seq=9223372036854775808", "seq"},
        {"worker=w0&seq=1&ack=", "ack"},
        {"worker=w0&seq=1&ack=1,", "ack"},
        {"worker=w0&seq=1&ack=,1", "ack"},
        {"worker=w0&seq=1&ack=1,,2", "ack"},
        {"worker=w0&seq=1&ack=1,x", "\"x\""},
        {"worker=w0&seq=1&ack=-1", "\"-1\""},
        {"weights=2", "weights"},
        {"size=%zz", ""},
        {"size=%", ""},
        {"size=1%00", ""},
        {"size=%ff", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct batch_request request = {.size = 77};
        assert_fails(batch_request_parse(cases[i].query, 1000000, &request, &lease), ERROR_USAGE,
                     cases[i].message);
        assert_int_equal(request.size, 77);
    }
}

static void test_leases(void **state)
{
    (void)state;
    struct batch_request request =
        parsed("worker=host-1:gpu.0_a&seq=9223372036854775806&ack=0,5,9223372036854775806&size=3");
    assert_true(request.leased);
    assert_true(request.size_given);
    assert_string_equal(lease.worker, "host-1:gpu.0_a");
    assert_true(lease.seq == SEQ_MOST);
    assert_int_equal(lease.ack_count, 3);
    assert_int_equal(lease.acks[1], 5);
    assert_true(lease.acks[2] == SEQ_MOST);
    assert_true(parsed("worker=w&seq=0").leased);
    assert_int_equal(lease.ack_count, 0);
    assert_true(parsed("weights=1").weights);
    assert_int_equal(parsed("worker=w&seq=0").batches, 0);
    assert_int_equal(parsed("worker=w&seq=9223372036854775805&batches=2").batches, 2);
    assert_int_equal(parsed("worker=w&seq=0&batches=64").batches, BATCHES_LIMIT);

    char query[64 + 2 * (BATCH_ACKS_LIMIT + 1)] = "worker=w&seq=0&ack=";
    for (int i = 0; i < BATCH_ACKS_LIMIT; i++)
        strcat(query, i > 0 ? ",1" : "1");
    assert_true(parsed(query).leased);
    assert_int_equal(lease.ack_count, BATCH_ACKS_LIMIT);
    strcat(query, ",1");
    assert_fails(batch_request_parse(query, 100, &request, &lease), ERROR_USAGE, "at most 1024");
}

static void test_accept(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum batch_format format;
    } cases[] = {
        {"", BATCH_FORMAT_JSON},
        {"*/*", BATCH_FORMAT_JSON},
        {"application/json", BATCH_FORMAT_JSON},
        {"text/csv", BATCH_FORMAT_CSV},
        {"TEXT/CSV", BATCH_FORMAT_CSV},
        {"text/csv; charset=utf-8", BATCH_FORMAT_CSV},
        {"text/csv ;q=1", BATCH_FORMAT_CSV},
        {"application/octet-stream\t, text/csv ;\tq=0.5", BATCH_FORMAT_BINARY},
        {"text/*", BATCH_FORMAT_CSV},
        {"application/octet-stream", BATCH_FORMAT_BINARY},
        {"application/*", BATCH_FORMAT_JSON},
        {"text/csv;q=0.5, application/octet-stream", BATCH_FORMAT_BINARY},
        {"application/json;q=0.1,text/csv;q=0.2 , application/octet-stream;q=0.15",
         BATCH_FORMAT_CSV},
        {"text/csv;q=0, */*", BATCH_FORMAT_JSON},
        {"application/json;q=0, */*", BATCH_FORMAT_CSV},
        {"application/json;q=0,text/*;q=0,*/*;q=0.1", BATCH_FORMAT_BINARY},
        {"text/csv;q=1.0, */*;q=0.8", BATCH_FORMAT_CSV},
        {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", BATCH_FORMAT_JSON},
        {"image/png", BATCH_FORMAT_JSON},
        {",,;;q=,=;,", BATCH_FORMAT_JSON},
        {"text/csv;q=abc", BATCH_FORMAT_CSV},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *accept = cases[i].accept;
        if (batch_format_of_accept(accept, strlen(accept)) != cases[i].format)
            fail_msg("Accept: %s", accept);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_defaults),
    cmocka_unit_test(test_every_parameter),
    cmocka_unit_test(test_bad_values_are_named),
    cmocka_unit_test(test_leases),
    cmocka_unit_test(test_accept),
};

UNIT_MAIN(tests)
