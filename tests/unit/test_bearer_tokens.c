/* SPDX-License-Identifier: MIT */
/* Covers common/http/bearer_tokens. */
#include "tests/unit/unit.h"

#include "common/http/bearer_tokens.h"
#include "sampler/api/routes.h"

/* sha256 of "alpha" and "beta". */
#define ALPHA "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"
#define BETA "F44E64E75F3948E9F73F8DFA94721C4CE8CBB4F265C4790C702B2D41CFBF2753"

static struct bearer_tokens *parsed(const char *text)
{
    struct bearer_tokens *tokens = NULL;
    assert_ok(bearer_tokens_parse(&sampler_tokens, text, strlen(text), "the file", &tokens));
    return tokens;
}

static const char two[] =
    "{\"tokens\":["
    "{\"name\":\"ops\",\"sha256\":\"" ALPHA "\",\"scopes\":[\"read\",\"draw\",\"admin\"],"
    "\"streams\":[\"*\"]},"
    "{\"name\":\"team\",\"sha256\":\"" BETA "\",\"scopes\":[\"draw\"],"
    "\"streams\":[\"eval\",\"train\"]}]}";

static void test_who_is_who(void **state)
{
    (void)state;
    struct bearer_tokens *tokens = parsed(two);
    assert_int_equal(bearer_tokens_count(tokens), 2);
    assert_string_equal(bearer_token_name(bearer_tokens_find(tokens, "Bearer alpha")), "ops");
    assert_string_equal(bearer_token_name(bearer_tokens_find(tokens, "bearer  beta ")), "team");
    static const char *const strangers[] = {
        "Bearer gamma", "Bearer",        "Bearer ",      "Basic alpha",      "alpha", "",
        "Bearer alph",  "Bearer alphaa", "Bearer Alpha", "Bearer alpha beta"};
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
        assert_null(bearer_tokens_find(tokens, strangers[i]));
    assert_null(bearer_tokens_find(tokens, NULL));
    bearer_tokens_free(tokens);
}

static void test_scopes_and_streams(void **state)
{
    (void)state;
    struct bearer_tokens *tokens = parsed(two);
    const struct bearer_token *ops = bearer_tokens_find(tokens, "Bearer alpha");
    const struct bearer_token *team = bearer_tokens_find(tokens, "Bearer beta");
    assert_true(bearer_token_may(ops, SCOPE_READ, NULL));
    assert_true(bearer_token_may(ops, SCOPE_ADMIN, "anything"));
    assert_false(bearer_token_may(team, SCOPE_READ, NULL));
    assert_false(bearer_token_may(team, SCOPE_ADMIN, "eval"));
    assert_true(bearer_token_may(team, SCOPE_DRAW, NULL));
    assert_true(bearer_token_may(team, SCOPE_DRAW, "eval"));
    assert_true(bearer_token_may(team, SCOPE_DRAW | SCOPE_READ, "train"));
    assert_false(bearer_token_may(team, SCOPE_DRAW, "default"));
    assert_false(bearer_token_may(team, SCOPE_DRAW | SCOPE_READ, "eva"));
    bearer_tokens_free(tokens);
}

/* An application whose tokens are for nothing in particular: a parameter server. */
static void test_tokens_that_name_nothing(void **state)
{
    (void)state;
    static const struct token_scope scopes[] = {{"read", SCOPE_READ}};
    static const struct token_grammar grammar = {.scopes = scopes, .scope_count = 1};
    static const char text[] =
        "{\"tokens\":[{\"name\":\"ops\",\"sha256\":\"" ALPHA "\",\"scopes\":[\"read\"]}]}";
    struct bearer_tokens *tokens = NULL;
    assert_ok(bearer_tokens_parse(&grammar, text, strlen(text), "the file", &tokens));
    assert_true(bearer_token_may(bearer_tokens_find(tokens, "Bearer alpha"), SCOPE_READ, NULL));
    bearer_tokens_free(tokens);
    tokens = NULL;
    assert_fails(bearer_tokens_parse(&grammar, two, strlen(two), "the file", &tokens), ERROR_INPUT,
                 "unknown key \"streams\"");
}

/* An application that needs no names, and reads the file of one that does. */
static void test_names_that_are_optional(void **state)
{
    (void)state;
    struct token_grammar grammar = sampler_tokens;
    static const char none[] =
        "{\"tokens\":[{\"name\":\"ops\",\"sha256\":\"" ALPHA "\",\"scopes\":[\"read\",\"draw\"]}]}";
    static const char bad[] = "{\"tokens\":[{\"name\":\"ops\",\"sha256\":\"" ALPHA
                              "\",\"scopes\":[\"read\"],\"streams\":[]}]}";
    struct bearer_tokens *tokens = NULL;
    grammar.names_optional = true;
    assert_ok(bearer_tokens_parse(&grammar, none, strlen(none), "the file", &tokens));
    const struct bearer_token *ops = bearer_tokens_find(tokens, "Bearer alpha");
    assert_true(bearer_token_may(ops, SCOPE_READ, NULL));
    assert_false(bearer_token_may(ops, SCOPE_DRAW, "train"));
    bearer_tokens_free(tokens);
    tokens = NULL;
    assert_ok(bearer_tokens_parse(&grammar, two, strlen(two), "the file", &tokens));
    assert_int_equal(bearer_tokens_count(tokens), 2);
    bearer_tokens_free(tokens);
    tokens = NULL;
    assert_fails(bearer_tokens_parse(&grammar, bad, strlen(bad), "the file", &tokens), ERROR_INPUT,
                 "streams has 0 names");
}

/* A scope opens all streams only where it is the scope that was asked for. */
static void test_to_read_all_streams_is_not_to_draw_from_them(void **state)
{
    (void)state;
    struct bearer_tokens *tokens =
        parsed("{\"tokens\":[{\"name\":\"a\",\"sha256\":\"" ALPHA "\","
               "\"scopes\":[\"read\",\"draw\"],\"streams\":[\"train\"]},"
               "{\"name\":\"b\",\"sha256\":\"" BETA "\","
               "\"scopes\":[\"draw\",\"admin\"],\"streams\":[\"eval\"]}]}");
    const struct bearer_token *reader = bearer_tokens_find(tokens, "Bearer alpha");
    const struct bearer_token *admin = bearer_tokens_find(tokens, "Bearer beta");
    assert_true(bearer_token_may(reader, SCOPE_READ, "eval"));
    assert_true(bearer_token_may(reader, SCOPE_READ | SCOPE_DRAW, "eval"));
    assert_true(bearer_token_may(reader, SCOPE_DRAW, "train"));
    assert_false(bearer_token_may(reader, SCOPE_DRAW, "eval"));
    assert_false(bearer_token_may(reader, SCOPE_DRAW | SCOPE_ADMIN, "eval"));
    assert_false(bearer_token_may(reader, SCOPE_ADMIN, "train"));
    assert_true(bearer_token_may(admin, SCOPE_ADMIN, "eval"));
    assert_false(bearer_token_may(admin, SCOPE_ADMIN, "train"));
    assert_false(bearer_token_may(admin, SCOPE_DRAW, "train"));
    assert_false(bearer_token_may(admin, SCOPE_READ, "eval"));
    bearer_tokens_free(tokens);
}

#define ENTRY(name, sha256, scopes, streams)                                      \
    "{\"name\":" name ",\"sha256\":" sha256 ",\"scopes\":" scopes ",\"streams\":" \
    "" streams "}"
#define GOOD ENTRY("\"a\"", "\"" ALPHA "\"", "[\"read\"]", "[\"*\"]")
#define FILE_OF(entries) "{\"tokens\":[" entries "]}"

/* The file of the one is easily given for that of the other. */
static void test_no_message_quotes_what_may_be_a_token(void **state)
{
    static const char *const texts[] = {"hunter2\n", "{\"tokens\":[{\"sha256\":hunter2}]}",
                                        "{\"tokens\":[]} hunter2", "\"hunter2\"",
                                        "{\"tokens\":[{\"name\":\"a\",\"sha256\":\"hunter2\"}]}"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct bearer_tokens *tokens = NULL;
        assert_fails(
            bearer_tokens_parse(&sampler_tokens, texts[i], strlen(texts[i]), "the file", &tokens),
            ERROR_INPUT, "the file");
        assert_null(strstr(error_message(), "hunter"));
    }
}

static void test_bad_files_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "the file"},
        {"[]", "must be an object"},
        {"{}", "no \"tokens\""},
        {"{\"tokens\":{}}", "must be an array"},
        {"{\"tokens\":[],\"x\":1}", "unknown key \"x\""},
        {FILE_OF(""), "has 0 tokens"},
        {FILE_OF("5"), "token 1 is a number"},
        {FILE_OF(GOOD ",{\"name\":\"b\"}"), "token 2"},
        {FILE_OF(ENTRY("\"\"", "\"" ALPHA "\"", "[\"read\"]", "[\"*\"]")), "1 to 64"},
        {FILE_OF(ENTRY("\"a\"", "\"abc\"", "[\"read\"]", "[\"*\"]")), "64 hex digits"},
        {FILE_OF(ENTRY("\"a\"", "\"" ALPHA "0\"", "[\"read\"]", "[\"*\"]")), "64 hex digits"},
        {FILE_OF(ENTRY("\"a\"", "5", "[\"read\"]", "[\"*\"]")), "sha256"},
        {FILE_OF(ENTRY("\"a\"", "\"" ALPHA "\"", "[]", "[\"*\"]")), "scopes is empty"},
        {FILE_OF(ENTRY("\"a\"", "\"" ALPHA "\"", "[\"write\"]", "[\"*\"]")), "no scope \"write\""},
        {FILE_OF(ENTRY("\"a\"", "\"" ALPHA "\"", "[1]", "[\"*\"]")), "a scope is a number"},
        {FILE_OF(ENTRY("\"a\"", "\"" ALPHA "\"", "[\"read\"]", "[]")), "streams has 0"},
        {FILE_OF(ENTRY("\"a\"", "\"" ALPHA "\"", "[\"read\"]", "[\"a b\"]")), "stream \"a b\""},
        {FILE_OF(GOOD "," GOOD), "two tokens of the name \"a\""},
        {FILE_OF(GOOD "," ENTRY("\"b\"", "\"" ALPHA "\"", "[\"read\"]", "[\"*\"]")),
         "the same sha256"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bearer_tokens *tokens = NULL;
        assert_fails(bearer_tokens_parse(&sampler_tokens, cases[i].text, strlen(cases[i].text),
                                         "the file", &tokens),
                     ERROR_INPUT, cases[i].message);
        assert_null(tokens);
    }
    /* Somebody may have put the token itself there: the message must not show it. */
    struct bearer_tokens *tokens = NULL;
    const char *plain = FILE_OF(ENTRY("\"a\"", "\"my-secret\"", "[\"read\"]", "[\"*\"]"));
    assert_int_equal(bearer_tokens_parse(&sampler_tokens, plain, strlen(plain), "x", &tokens),
                     ERROR_INPUT);
    assert_null(strstr(error_message(), "my-secret"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_who_is_who),
    cmocka_unit_test(test_scopes_and_streams),
    cmocka_unit_test(test_tokens_that_name_nothing),
    cmocka_unit_test(test_names_that_are_optional),
    cmocka_unit_test(test_to_read_all_streams_is_not_to_draw_from_them),
    cmocka_unit_test(test_no_message_quotes_what_may_be_a_token),
    cmocka_unit_test(test_bad_files_are_named),
};

UNIT_MAIN(tests)
