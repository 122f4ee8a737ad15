/* SPDX-License-Identifier: MIT */
/* Covers sampler/stream/checkpoint_token. */
#include "tests/unit/unit.h"

#include <xxhash.h>

#include "sampler/journal/varint.h"
#include "sampler/stream/base64url.h"
#include "sampler/stream/checkpoint_token.h"

static void fill(struct checkpoint_token *token)
{
    *token = (struct checkpoint_token){
        .definition = {.design = "pxk",
                       .replacement = false,
                       .seed = INT64_MAX,
                       .rows_begin = 5,
                       .rows_end = 1005,
                       .split = SPLIT_TRAIN,
                       .fields = strdup("{\"p\":2,\"k\":8}")},
        .binding = {.order_version = 2,
                    .digest = "0123456789abcdef0123456789abcdef",
                    .units = 1000,
                    .epoch_positions = 1000},
        .position = 123456789,
    };
}

static void add(struct checkpoint_token *token, int64_t begin, int64_t end)
{
    assert_ok(intervals_reserve(&token->open, 1));
    intervals_add(&token->open, begin, end);
}

static void test_a_round_trip(void **unused)
{
    (void)unused;
    struct checkpoint_token token;
    struct checkpoint_token again;
    char *text;
    fill(&token);
    add(&token, 0, 7);
    add(&token, 100, 101);
    add(&token, 123456000, 123456789);
    assert_ok(checkpoint_token_write(&token, &text));
    assert_int_equal(
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
        strlen(text));
    assert_ok(checkpoint_token_read(text, &again));
    assert_int_equal(again.position, token.position);
    assert_int_equal(again.open.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(intervals_at(&again.open, i)->begin, intervals_at(&token.open, i)->begin);
        assert_int_equal(intervals_at(&again.open, i)->end, intervals_at(&token.open, i)->end);
    }
    assert_ok(checkpoint_token_check(&again, &token.definition, &token.binding));
    free(text);
    checkpoint_token_release(&token);
    checkpoint_token_release(&again);
}

static void test_a_thousand_leases_take_a_few_kilobytes(void **unused)
{
    (void)unused;
    struct checkpoint_token token;
    char *text;
    fill(&token);
    token.position = INT64_C(1) << 60;
    for (int64_t i = 0; i < 1000; i++)
        add(&token, (INT64_C(1) << 59) + i * 1000000, (INT64_C(1) << 59) + i * 1000000 + 100000);
    assert_ok(checkpoint_token_write(&token, &text));
    assert_true(strlen(text) < 10 * 1024);
    free(text);
    checkpoint_token_release(&token);
}

static void test_any_other_byte_is_refused(void **unused)
{
    (void)unused;
    struct checkpoint_token token;
    struct checkpoint_token again;
    char *text;
    fill(&token);
    add(&token, 10, 20);
    assert_ok(checkpoint_token_write(&token, &text));
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        char kept = text[i];
        text[i] = kept == 'A' ? 'B' : 'A';
        assert_fails(checkpoint_token_read(text, &again), ERROR_INPUT, "token");
        text[i] = '=';
        assert_fails(checkpoint_token_read(text, &again), ERROR_INPUT, "base64url");
        text[i] = '\0'; /* cut */
        assert_fails(checkpoint_token_read(text, &again), ERROR_INPUT, "token");
        text[i] = kept;
    }
    free(text);
    checkpoint_token_release(&token);
}

/* What a token says, and how its bytes are written: a checksum is no secret. */
struct words {
    int64_t numbers[8]; /* units, positions an epoch, seed, replacement, rows, split, position */
    const char *digest, *design;
    size_t digest_bytes;
    uint64_t open[6]; /* count, then what is skipped and how long it is */
    size_t open_count, behind;
};

static const struct words right = {.numbers = {1000, 1000, 7, 1, 5, 1005, SPLIT_TEST, 900},
                                   .digest = "0123456789abcdef0123456789abcdef",
                                   .design = "srs",
                                   .digest_bytes = 32,
                                   .open = {2, 0, 100, 50, 750},
                                   .open_count = 5};

static enum error read_words(const struct words *words)
{
    struct checkpoint_token token;
    uint8_t bytes[512] = "TMBLTOK1";
    char text[700];
    uint8_t *at = bytes + 8;
    for (size_t i = 0; i < 8; i++)
        at = varint_write_signed(at, words->numbers[i]);
    at = varint_write(at, words->digest_bytes);
    memcpy(at, words->digest, words->digest_bytes);
    at = varint_write(at + words->digest_bytes, strlen(words->design));
    memcpy(at, words->design, strlen(words->design));
    at = varint_write(at + strlen(words->design), 0);
    for (size_t i = 0; i < words->open_count; i++)
        at = varint_write(at, words->open[i]);
    memset(at, 0, words->behind);
    at += words->behind;
    uint64_t checksum = XXH3_64bits(bytes, (size_t)(at - bytes));
    memcpy(at, &checksum, sizeof(checksum));
    base64url_encode(bytes, (size_t)(at - bytes) + sizeof(checksum), text);
    enum error error = checkpoint_token_read(text, &token);
    if (!error)
        checkpoint_token_release(&token);
    return error;
}

static void refuse_words(struct words words)
{
    assert_fails(read_words(&words), ERROR_INPUT, "damaged");
}

static void test_tokens_that_cannot_be_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        size_t at;
        int64_t number;
    } numbers[] = {
        {0, -1}, {2, -1}, {3, 2}, {4, -5}, {6, SPLIT_TEST + 1}, {7, -1}, {7, INT64_C(1) << 62}};
    static const uint64_t open[][5] = {
        {2, 0, 100, 50, 751},        /* beyond the position */
        {2, 0, 100, 801, 1},         /* begins there */
        {2, 0, 100, 0, 1},           /* touches the one before */
        {2, 0, 0, 50, 1},            /* of nothing */
        {2, 0, 100, 50, UINT64_MAX}, /* longer than there are positions */
        {2, 0, 100, UINT64_MAX, 1},  /* wraps around */
        {3, 0, 100, 50, 1},          /* one is missing */
        {UINT64_MAX, 0, 100, 50, 1}, /* so many do not fit */
    };
    struct words words = right;
    assert_ok(read_words(&words));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        words = right;
        words.numbers[numbers[i].at] = numbers[i].number;
        refuse_words(words);
    }
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        words = right;
        memcpy(words.open, open[i], sizeof(open[i]));
        refuse_words(words);
    }
    words = right;
    words.behind = 1;
    refuse_words(words);
    words = right;
    words.digest = "0123456789abcdef\0"
                   "123456789abcdef";
    refuse_words(words);
    words = right;
    words.design = "a name that is longer than that of any design there is or will be";
    refuse_words(words);
}

static void test_each_difference_is_named(void **unused)
{
    (void)unused;
    struct checkpoint_token token;
    fill(&token);
    static char fields[] = "{\"p\":2,\"k\":9}";
    struct stream_definition here = token.definition;
    struct stream_binding binding = token.binding;
    here.seed = 5;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT, "5 here");
    here.seed = token.definition.seed;
    here.replacement = true;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT,
                 "without replacement there, with here");
    here.replacement = false;
    here.fields = fields;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT, "\"k\":9} here");
    here.fields = token.definition.fields;
    strcpy(here.design, "srs");
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT,
                 "design pxk there, srs here");
    strcpy(here.design, "pxk");
    here.rows_end = 1006;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT,
                 "rows 5:1005 there, 5:1006 here");
    here.rows_end = 1005;
    here.rows_begin = 4;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT,
                 "rows 5:1005 there, 4:1005 here");
    here.rows_begin = 5;
    here.split = SPLIT_TEST;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT,
                 "split train there, test here");
    here.split = SPLIT_TRAIN;
    binding.digest[0] = 'f';
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT, "frame 0123");
    binding.digest[0] = '0';
    binding.order_version = 3;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT,
                 "orders of version 2 there, 3 here");
    binding.order_version = 2;
    strcpy(here.name, "another"); /* these may differ */
    here.tail = TAIL_DROP;
    here.epochs = 9;
    here.lease_ms = 1;
    assert_ok(checkpoint_token_check(&token, &here, &binding));
    checkpoint_token_release(&token);
}

static void test_a_definition_comes_back_from_its_text(void **unused)
{
    (void)unused;
    struct checkpoint_token token;
    struct stream_definition again;
    struct stream_binding binding;
    struct buffer text = BUFFER_INIT(1 << 20);
    struct buffer differences = BUFFER_INIT(1 << 20);
    fill(&token);
    struct stream_definition *definition = &token.definition;
    strcpy(definition->name, "a.b-c_9");
    strcpy(definition->frame, "default");
    definition->epochs = 3;
    definition->tail = TAIL_SPAN;
    definition->lease_ms = 1500;
    assert_ok(stream_definition_write(definition, &token.binding, &text));
    assert_ok(stream_definition_read(text.data, text.length, &again, &binding));
    assert_string_equal(again.name, definition->name);
    assert_string_equal(again.fields, definition->fields);
    assert_int_equal(again.epochs, 3);
    assert_int_equal(again.tail, TAIL_SPAN);
    assert_int_equal(again.lease_ms, 1500);
    assert_int_equal(again.rows_end, 1005);
    assert_int_equal(again.split, SPLIT_TRAIN);
    assert_true(again.seed == (uint64_t)INT64_MAX);
    assert_ok(
        stream_definition_compare(definition, &token.binding, &again, &binding, &differences));
    assert_int_equal(differences.length, 0);
    for (size_t cut = 0; cut < text.length; cut++) {
        struct stream_definition none;
        assert_int_equal(stream_definition_read(text.data, cut, &none, &binding), ERROR_INPUT);
    }
    stream_definition_release(&again);
    checkpoint_token_release(&token);
    buffer_release(&text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_round_trip),
    cmocka_unit_test(test_a_thousand_leases_take_a_few_kilobytes),
    cmocka_unit_test(test_any_other_byte_is_refused),
    cmocka_unit_test(test_tokens_that_cannot_be_are_refused),
    cmocka_unit_test(test_each_difference_is_named),
    cmocka_unit_test(test_a_definition_comes_back_from_its_text),
};

UNIT_MAIN(tests)
