/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/build/frame_set: The frames of a server: their names, and what is said of those
 * that cannot be.
 */
#include "tests/unit/unit.h"

#include "sampler/build/frame_set.h"

static void check_parse(const char *text, const char *name, const char *rest)
{
    char found[FRAME_NAME_BYTES];
    const char *found_rest;
    assert_ok(frame_set_parse("store", text, found, &found_rest));
    assert_string_equal(found, name);
    assert_string_equal(found_rest, rest);
}

static void test_names_before_the_first_equals_sign(void **state)
{
    (void)state;
    check_parse("eval=csv:b.csv", "eval", "csv:b.csv");
    check_parse("eval=range:10?labels=2", "eval", "range:10?labels=2");
    check_parse("a.B_9-=x", "a.B_9-", "x");
    check_parse("default=train.frame", "default", "train.frame");
    check_parse("a=b=c", "a", "b=c");
    check_parse("range:10?labels=2", "default", "range:10?labels=2");
    check_parse("csv:/data/a=b.csv", "default", "csv:/data/a=b.csv");
    check_parse("postgresql://h/d?table=t", "default", "postgresql://h/d?table=t");
    check_parse("train.csv?label=0", "default", "train.csv?label=0");
    check_parse("./a=b.csv", "default", "./a=b.csv");
    check_parse("/data/a=b.frame", "default", "/data/a=b.frame");
    check_parse("train.frame", "default", "train.frame");
    check_parse("=x", "default", "=x");
    check_parse("", "default", "");
}

static void test_names_have_64_letters_at_most(void **state)
{
    (void)state;
    char text[80] = "";
    memset(text, 'n', 64);
    strcpy(text + 64, "=x");
    char name[FRAME_NAME_BYTES];
    const char *rest;
    assert_ok(frame_set_parse("frame", text, name, &rest));
    assert_string_equal(rest, "x");
    assert_int_equal(strlen(name), 64);
    memset(text, 'n', 65);
    strcpy(text + 65, "=x");
    check_parse(text, "default", text);
    assert_fails(frame_set_parse("frame", "eval=", name, &rest), ERROR_USAGE, "NAME=FILE");
}

static void test_several_frames(void **state)
{
    (void)state;
    struct frame_set *set;
    const struct named_frame *named;
    char folder[256], path[300];
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/one.frame", folder);
    assert_ok(frame_set_new(&set));
    assert_ok(frame_set_add(set, "default", "range:100?labels=4", NULL));
    const struct named_frame *first = frame_set_find(set, "default");
    assert_ok(frame_write(first->frame, path));
    assert_ok(frame_set_add(set, "eval", NULL, path));
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "more-%d", i);
        assert_ok(frame_set_add(set, name, "range:7", NULL));
    }
    assert_int_equal(frame_set_count(set), 22);
    assert_ptr_equal(frame_set_at(set, 0), first);
    assert_ptr_equal(frame_set_find(set, "default"), first);
    assert_string_equal(first->source, "range:100?labels=4");
    assert_ok(frame_set_get(set, "eval", &named));
    assert_string_equal(named->digest, first->digest);
    assert_int_equal(strlen(named->digest), 32);
    assert_true(named->frame != first->frame && frame_units(named->frame) == 100);
    assert_int_equal(named->label_texts.count, 4);
    assert_null(frame_set_find(set, "Eval"));
    frame_set_free(set);
    unit_folder_remove(folder);
}

static void test_what_cannot_be(void **state)
{
    (void)state;
    struct frame_set *set;
    const struct named_frame *named;
    assert_ok(frame_set_new(&set));
    assert_ok(frame_set_add(set, "a", "range:5", NULL));
    assert_fails(frame_set_add(set, "a", "range:6", NULL), ERROR_USAGE, "two frames are called a");
    assert_fails(frame_set_add(set, "", "range:6", NULL), ERROR_USAGE, "[A-Za-z0-9._-]");
    assert_fails(frame_set_add(set, "a b", "range:6", NULL), ERROR_USAGE, "a b");
    assert_fails(frame_set_add(set, "b", "range:0", NULL), ERROR_USAGE, "frame b: ");
    assert_fails(frame_set_add(set, "b", NULL, "/no/such.frame"), ERROR_NOT_FOUND, "frame b: ");
    assert_ok(frame_set_add(set, "b", "range:7", NULL));
    assert_fails(frame_set_get(set, "c", &named), ERROR_NOT_FOUND, "this server has a, b");
    assert_int_equal(frame_set_count(set), 2);
    frame_set_free(set);
    frame_set_free(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_names_before_the_first_equals_sign),
    cmocka_unit_test(test_names_have_64_letters_at_most),
    cmocka_unit_test(test_several_frames),
    cmocka_unit_test(test_what_cannot_be),
};

UNIT_MAIN(tests)
