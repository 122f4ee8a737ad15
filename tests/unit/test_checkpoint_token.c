#include "tests/unit/unit.h"

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
        .binding = {.digest = "0123456789abcdef0123456789abcdef",
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
    here.split = SPLIT_TEST;
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT,
                 "split train there, test here");
    here.split = SPLIT_TRAIN;
    binding.digest[0] = 'f';
    assert_fails(checkpoint_token_check(&token, &here, &binding), ERROR_CONFLICT, "frame 0123");
    binding.digest[0] = '0';
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
    cmocka_unit_test(test_each_difference_is_named),
    cmocka_unit_test(test_a_definition_comes_back_from_its_text),
};

UNIT_MAIN(tests)
