/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/sampler_client. */
#include "tests/unit/fake_sampler.h"

#include "common/log.h"
#include "loader/feed/sampler_client.h"

/* ---- the bytes of a batch ----------------------------------------------- */

struct bytes {
    _Alignas(8) char data[32 + 12 * 3];
};

static struct bytes batch_bytes(void)
{
    static const int64_t facts[2] = {4, 4000};
    static const uint32_t counts[2] = {3, 0};
    static const int64_t ids[3] = {7, 0, INT64_MAX};
    static const uint32_t labels[3] = {1, 2, 3};
    struct bytes bytes;
    memcpy(bytes.data, "TMBLBAT1", 8);
    memcpy(bytes.data + 8, facts, 16);
    memcpy(bytes.data + 24, counts, 8);
    memcpy(bytes.data + 32, ids, 24);
    memcpy(bytes.data + 56, labels, 12);
    return bytes;
}

static void test_a_right_batch(void **state)
{
    (void)state;
    struct bytes bytes = batch_bytes();
    struct sampler_batch batch;
    assert_ok(sampler_batch_parse(bytes.data, sizeof(bytes.data), &batch));
    assert_int_equal(batch.epoch, 4);
    assert_int_equal(batch.first, 4000);
    assert_int_equal(batch.rows, 3);
    assert_true(batch.ids[2] == INT64_MAX);
    assert_int_equal(batch.labels[0], 1);
    assert_int_equal(batch.labels[2], 3);
}

static void test_wrong_bytes(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        int byte;
        const char *text;
    } cases[] = {{0, 'X', "not a binary batch"},
                 {7, '2', "not a binary batch"},
                 {28, 1, "flags 1"},
                 {31, 0x80, "flags 2147483648"},
                 {24, 0, "a batch of 0 units"},
                 {24, 2, "a batch of 2 units in 68 bytes"},
                 {24, 4, "a batch of 4 units"},
                 {27, 1, "1 to 1000000 are possible"},
                 {15, 0x80, "neither can be"},
                 {23, 0x80, "neither can be"},
                 {39, 0x80, "at place 0"},
                 {47, 0x80, "at place 1"}};
    struct sampler_batch batch;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes bytes = batch_bytes();
        bytes.data[cases[i].at] = (char)cases[i].byte;
        assert_fails(sampler_batch_parse(bytes.data, sizeof(bytes.data), &batch), ERROR_INPUT,
                     cases[i].text);
    }
}

/* Whoever adds its rows to its position stays within 64 bits. */
static void test_a_batch_behind_every_order(void **state)
{
    (void)state;
    struct bytes bytes = batch_bytes();
    struct sampler_batch batch;
    int64_t first = INT64_MAX - 3;
    memcpy(bytes.data + 16, &first, sizeof(first));
    assert_ok(sampler_batch_parse(bytes.data, sizeof(bytes.data), &batch));
    first++;
    memcpy(bytes.data + 16, &first, sizeof(first));
    assert_fails(sampler_batch_parse(bytes.data, sizeof(bytes.data), &batch), ERROR_INPUT,
                 "no order is that long");
}

static void test_every_other_length(void **state)
{
    (void)state;
    struct bytes bytes = batch_bytes();
    struct sampler_batch batch;
    struct bytes head = bytes;
    memset(head.data + 24, 0, 4); /* of no units, and as long as it says */
    assert_fails(sampler_batch_parse(head.data, SAMPLER_BATCH_HEADER_BYTES, &batch), ERROR_INPUT,
                 "a batch of 0 units");
    for (size_t length = 0; length < sizeof(bytes.data); length++)
        assert_int_equal(sampler_batch_parse(bytes.data, length, &batch), ERROR_INPUT);
}

/* ---- several batches ----------------------------------------------------- */

#define LISTED_BYTES (32 + 24 + 12 * 3 + 4)

struct listed {
    _Alignas(8) char data[2 * LISTED_BYTES];
};

static struct listed listed_bytes(void)
{
    struct bytes one = batch_bytes();
    struct listed list = {{0}};
    for (int64_t i = 0; i < 2; i++) {
        const int64_t lease[3] = {9 + i, 1 + i, 30000};
        char *out = list.data + i * LISTED_BYTES;
        memcpy(out, one.data, 32);
        out[28] = SAMPLER_BATCH_LISTED;
        memcpy(out + 32, lease, 24);
        memcpy(out + 56, one.data + 32, 36);
    }
    return list;
}

static void test_a_right_list(void **state)
{
    (void)state;
    struct listed list = listed_bytes();
    struct sampler_batch batch;
    size_t used;
    for (int64_t i = 0; i < 2; i++) {
        size_t at = (size_t)i * LISTED_BYTES;
        assert_ok(
            sampler_batch_parse_listed(list.data + at, sizeof(list.data) - at, &batch, &used));
        assert_int_equal(used, LISTED_BYTES);
        assert_int_equal(batch.first, 4000);
        assert_int_equal(batch.lease.seq, 9 + i);
        assert_int_equal(batch.lease.attempt, 1 + i);
        assert_int_equal(batch.lease.expires_ms, 30000);
        assert_true(batch.ids[2] == INT64_MAX);
        assert_int_equal(batch.labels[2], 3);
    }
}

static void test_wrong_lists(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        int byte;
        const char *text;
    } cases[] = {{0, 'X', "not a binary batch"},   {28, 0, "flags 0; 1 is what"},
                 {28, 3, "flags 3; 1 is what"},    {24, 20, "a batch of 20 units"},
                 {39, 0x80, "a lease with seq -"}, {40, 0, "attempt 0"},
                 {47, 0x80, "attempt -"},          {55, 0x80, "and -"},
                 {63, 0x80, "a batch with id -"}};
    struct sampler_batch batch;
    size_t used;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct listed list = listed_bytes();
        list.data[cases[i].at] = (char)cases[i].byte;
        assert_fails(sampler_batch_parse_listed(list.data, sizeof(list.data), &batch, &used),
                     ERROR_INPUT, cases[i].text);
    }
    struct listed list = listed_bytes();
    for (size_t length = 0; length < LISTED_BYTES; length++)
        assert_int_equal(sampler_batch_parse_listed(list.data, length, &batch, &used), ERROR_INPUT);
    assert_fails(sampler_batch_parse(list.data, LISTED_BYTES, &batch), ERROR_INPUT, "flags 1");
}

/* ---- a stream's description --------------------------------------------- */

static const char right_stream[] =
    "{\"name\":\"default\",\"frame\":\"default\",\"digest\":\"ab\",\"design\":\"srs\","
    "\"replacement\":true,\"seed\":9007199254740993,\"generation\":1,\"units\":10,\"epochs\":0,"
    "\"tail\":\"keep\",\"position\":4200,\"new\":[1],\"epoch_draws\":12}";

static void test_a_right_description(void **state)
{
    (void)state;
    struct sampler_stream stream;
    assert_ok(sampler_stream_parse(right_stream, strlen(right_stream), "x", &stream));
    assert_string_equal(stream.name, "default");
    assert_string_equal(stream.digest, "ab");
    assert_string_equal(stream.design, "srs");
    assert_string_equal(stream.tail, "keep");
    assert_true(stream.replacement);
    assert_true(stream.seed == 9007199254740993); /* 2^53 + 1 */
    assert_int_equal(stream.units, 10);
    assert_int_equal(stream.epochs, 0);
    assert_int_equal(stream.epoch_draws, 12);
}

static void check_changed(const char *from, const char *to, const char *text)
{
    char changed[1024];
    struct sampler_stream stream;
    const char *at = strstr(right_stream, from);
    assert_non_null(at);
    snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - right_stream), right_stream, to,
             at + strlen(from));
    assert_fails(sampler_stream_parse(changed, strlen(changed), "the answer", &stream), ERROR_INPUT,
                 text);
}

static void test_wrong_descriptions(void **state)
{
    (void)state;
    check_changed("\"digest\":\"ab\",", "", "digest");
    check_changed("\"design\":\"srs\"", "\"design\":5", "design");
    check_changed("\"replacement\":true", "\"replacement\":1", "neither true nor false");
    check_changed("9007199254740993", "-1", "\"seed\" is not an integer");
    check_changed("9007199254740993", "1.5", "\"seed\" is not an integer");
    check_changed("9007199254740993", "9223372036854775808", "\"seed\" is not an integer");
    check_changed("9007199254740993", "\"7\"", "\"seed\" is not an integer");
    check_changed("\"units\":10", "\"units\":0", "is 0, less than 1");
    check_changed("\"epochs\":0", "\"epochs\":-1", "is -1, less than 0");
    check_changed("\"epoch_draws\":12", "\"epoch_draws\":0", "is 0, less than 1");
    check_changed(",\"epoch_draws\":12", "", "epoch_draws");
    check_changed("\"tail\":\"keep\"",
                  "\"tail\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
                  "longer than 64");
    check_changed("}", "", "the answer");
}

static void test_comparison(void **state)
{
    (void)state;
    struct sampler_stream stream, other;
    assert_ok(sampler_stream_parse(right_stream, strlen(right_stream), "x", &stream));
    other = stream;
    snprintf(other.name, sizeof(other.name), "another");
    other.units++; /* for people; the digest decides */
    assert_ok(sampler_stream_compare(&stream, &other));
    snprintf(other.digest, sizeof(other.digest), "cd");
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "was ab and is cd now");
    other = stream;
    snprintf(other.design, sizeof(other.design), "sequential");
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "design");
    other = stream;
    other.replacement = false;
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "was on and is off");
    stream.replacement = false;
    assert_fails(sampler_stream_compare(&stream, &(struct sampler_stream){.digest = "ab",
                                                                          .design = "srs",
                                                                          .replacement = true}),
                 ERROR_CONFLICT, "was off and is on");
    stream.replacement = true;
    other = stream;
    snprintf(other.order, sizeof(other.order), "another");
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "order");
    other = stream;
    other.seed--;
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "9007199254740992");
    other = stream;
    snprintf(other.tail, sizeof(other.tail), "span");
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "tail");
    other = stream;
    other.epoch_draws = 8765;
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "draws an epoch");
    assert_non_null(strstr(error_message(), "is 8765 now"));
    other = stream;
    other.epochs = 4321;
    assert_fails(sampler_stream_compare(&stream, &other), ERROR_CONFLICT, "number of epochs");
    assert_non_null(strstr(error_message(), "is 4321 now"));
}

/* ---- requests ----------------------------------------------------------- */

static enum fake_answer second_is_wrong(int64_t request, void *context)
{
    const enum fake_answer *answer = context;
    return request == 1 ? *answer : FAKE_RIGHT;
}

static void test_requests(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250, .epochs = 1};
    struct sampler_client *client;
    struct sampler_stream stream;
    struct sampler_batch batch;
    fake_start(&sampler);
    assert_ok(sampler_client_open(sampler.url, NULL, NULL, 5000, &client));
    assert_ok(sampler_client_describe(client, &stream));
    assert_int_equal(stream.epoch_draws, 250);
    assert_true(stream.seed == INT64_MAX); /* though the stream's name is "seed" */
    assert_true(sampler_client_reconnected(client));
    assert_ok(sampler_client_index(client, 100, 2, &batch));
    assert_false(sampler_client_reconnected(client));
    assert_int_equal(batch.first, 200);
    assert_int_equal(batch.rows, 50);
    assert_int_equal(batch.ids[0], fake_id(&sampler, 200));
    assert_int_equal(sampler_client_index(client, 100, 3, &batch), ERROR_END);
    assert_ok(sampler_client_draw(client, 200, &batch));
    assert_int_equal(batch.first, 0);
    assert_ok(sampler_client_draw(client, 200, &batch));
    assert_int_equal(batch.rows, 50);
    assert_int_equal(sampler_client_draw(client, 200, &batch), ERROR_END);
    assert_int_equal(atomic_load(&sampler.connections), 1); /* kept */
    sampler_client_cancel(client);
    assert_int_equal(sampler_client_draw(client, 200, &batch), ERROR_CANCELLED);
    sampler_client_close(client);
    sampler_client_close(NULL);
    fake_stop(&sampler);
}

static void test_a_reader_names_itself(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250, .epochs = 1};
    struct sampler_client *client;
    struct sampler_batch batch;
    fake_start(&sampler);
    assert_ok(sampler_client_open(sampler.url, NULL, NULL, 5000, &client));
    assert_ok(sampler_client_index(client, 100, 1, &batch));
    assert_ok(sampler_client_draw(client, 100, &batch)); /* a draw with a worker would be a lease */
    assert_int_equal(atomic_load(&sampler.named), 1);
    sampler_client_close(client);
    fake_stop(&sampler);
}

/* One request more, once. */
static void test_a_sampler_of_old_is_read_without_a_name(void **state)
{
    (void)state;
    struct fake_sampler sampler = {.units = 250, .epochs = 1, .unnamed = true};
    struct sampler_client *client;
    struct sampler_batch batch;
    fake_start(&sampler);
    assert_ok(sampler_client_open(sampler.url, NULL, NULL, 5000, &client));
    assert_ok(sampler_client_index(client, 100, 2, &batch));
    assert_int_equal(batch.first, 200);
    assert_ok(sampler_client_index(client, 100, 1, &batch));
    assert_int_equal(atomic_load(&sampler.named), 1);
    assert_int_equal(atomic_load(&sampler.batch_requests), 3);
    sampler_client_close(client);
    fake_stop(&sampler);
}

static void test_refusals(void **state)
{
    (void)state;
    enum fake_answer answer = FAKE_GARBAGE;
    struct fake_sampler sampler = {
        .units = 250, .max_size = 100, .script = second_is_wrong, .context = &answer};
    struct sampler_client *client;
    struct sampler_batch batch;
    fake_start(&sampler);
    assert_ok(sampler_client_open(sampler.url, NULL, "other", 5000, &client));
    assert_fails(sampler_client_draw(client, 101, &batch), ERROR_USAGE, "over --max-size");
    assert_non_null(strstr(error_message(), "answered 400"));
    assert_non_null(strstr(error_message(), sampler.url));
    assert_fails(sampler_client_draw(client, 100, &batch), ERROR_NETWORK, "not a binary batch");
    assert_ok(sampler_client_draw(client, 100, &batch)); /* the connection is still good */
    sampler_client_close(client);
    fake_stop(&sampler);
}

static void test_wrong_names(void **state)
{
    (void)state;
    struct sampler_client *client;
    char name[70];
    memset(name, 'a', 65);
    name[65] = '\0';
    assert_fails(sampler_client_open("127.0.0.1:80", NULL, NULL, 1, &client), ERROR_USAGE,
                 "not the URL of a server");
    assert_fails(sampler_client_open("http://h", NULL, "", 1, &client), ERROR_USAGE, "1 to 64");
    assert_fails(sampler_client_open("http://h", NULL, "a/b", 1, &client), ERROR_USAGE, "\"a/b\"");
    assert_fails(sampler_client_open("http://h", NULL, name, 1, &client), ERROR_USAGE, "1 to 64");
    name[64] = '\0';
    assert_ok(sampler_client_open("http://h/", NULL, name, 1, &client));
    sampler_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_batch),
        cmocka_unit_test(test_wrong_bytes),
        cmocka_unit_test(test_a_batch_behind_every_order),
        cmocka_unit_test(test_every_other_length),
        cmocka_unit_test(test_a_right_list),
        cmocka_unit_test(test_wrong_lists),
        cmocka_unit_test(test_a_right_description),
        cmocka_unit_test(test_wrong_descriptions),
        cmocka_unit_test(test_comparison),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_a_reader_names_itself),
        cmocka_unit_test(test_a_sampler_of_old_is_read_without_a_name),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_wrong_names),
    };
    log_set_level(LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
