/* SPDX-License-Identifier: MIT */
/*
 * Covers common/http/guard: What a reload replaces stays for those who still use it, for
 * GUARD_KEPT_SECONDS and no longer than until the next reload after that. Time and what is freed
 * are counted here (-Wl,--wrap).
 */
#include "tests/unit/unit.h"

#include "common/file.h"
#include "common/http/guard.h"
#include "common/log.h"
#include "sampler/api/routes.h"

#define SECOND_NS INT64_C(1000000000)

static int64_t now_ns = SECOND_NS;
static int freed;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

void __real_bearer_tokens_free(struct bearer_tokens *tokens);
void __wrap_bearer_tokens_free(struct bearer_tokens *tokens);
void __wrap_bearer_tokens_free(struct bearer_tokens *tokens)
{
    freed += tokens != NULL;
    __real_bearer_tokens_free(tokens);
}

static void reload_after(struct guard *guard, int64_t wait_ns)
{
    now_ns += wait_ns;
    guard_reload(guard);
}

static void test_what_is_replaced_is_kept_for_a_while(void **state)
{
    /* sha256 of "alpha" */
    static const char text[] =
        "{\"tokens\":[{\"name\":\"ops\",\"scopes\":[\"read\"],\"streams\":[\"*\"],\"sha256\":"
        "\"8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8\"}]}";
    char folder[256], path[300];
    struct guard *guard;
    (void)state;
    log_set_level(LOG_ERROR);
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/tokens.json", folder);
    assert_ok(file_write_whole(path, text, strlen(text)));
    struct guard_options options = {.grammar = &sampler_tokens, .token_file = path};
    assert_ok(guard_open(&options, &guard));
    const struct bearer_tokens *first = guard_tokens(guard);
    reload_after(guard, SECOND_NS); /* replaces the first */
    assert_ptr_not_equal(guard_tokens(guard), first);
    reload_after(guard, GUARD_KEPT_SECONDS * SECOND_NS - 1);
    assert_int_equal(freed, 0);
    assert_string_equal(bearer_token_name(bearer_tokens_find(first, "Bearer alpha")), "ops");
    reload_after(guard, 1);
    assert_int_equal(freed, 1);
    for (int i = 1; i <= 5; i++) {
        reload_after(guard, GUARD_KEPT_SECONDS * SECOND_NS);
        assert_int_equal(freed, 2 + i);
    }
    guard_close(guard);
    assert_int_equal(freed, 9);
    unit_folder_remove(folder);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_is_replaced_is_kept_for_a_while),
};

UNIT_MAIN(tests)
