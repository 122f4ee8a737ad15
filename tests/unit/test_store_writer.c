/* SPDX-License-Identifier: MIT */
/* Covers loader/store/store_writer: what is published was counted and read back; the writer is one
 * of the test's own, whose file is what the test wrote there. */
#include "tests/unit/store_unit.h"

#include <stdatomic.h>

#include "common/stop.h"
#include "loader/store/store_kinds.h"

#define SOURCE "id,label,a\n4,x,1\n9,y,2\n"

static struct {
    const char *path; /* to be read back */
    size_t blocks, published, closed;
} fake;
static _Atomic bool stopped;
static bool stops_at_the_end;

static enum error fake_open(struct uri *uri, const char *table, bool replace,
                            struct store_writer **ret_writer)
{
    struct store_writer *writer = calloc(1, sizeof(*writer));
    (void)replace;
    writer->place = uri->path;
    writer->table = table;
    *ret_writer = writer;
    return OK;
}

static enum error fake_begin(struct store_writer *writer)
{
    assert_non_null(writer->info);
    return OK;
}

static enum error fake_add(struct store_writer *writer, const struct store_block *block)
{
    (void)writer;
    fake.blocks += block->rows > 0;
    return OK;
}

static enum error fake_finish(struct store_writer *writer, const char **ret_path)
{
    assert_int_equal(strlen(writer->digest_text), CONTENT_DIGEST_TEXT_BYTES - 1);
    if (fake.path)
        *ret_path = fake.path;
    stopped = stops_at_the_end;
    return OK;
}

static enum error fake_publish(struct store_writer *writer)
{
    (void)writer;
    fake.published++;
    return OK;
}

static void fake_close(struct store_writer *writer)
{
    fake.closed++;
    free(writer);
}

static const struct store_writer_ops fake_ops = {.store = &store_csv_ops,
                                                 .open = fake_open,
                                                 .begin = fake_begin,
                                                 .add = fake_add,
                                                 .finish = fake_finish,
                                                 .publish = fake_publish,
                                                 .close = fake_close};

static const char *write_named(const char *name, const char *text)
{
    write_file(name, text);
    return path_of(name);
}

/* SOURCE is imported; `there` is what stands in the file then. */
static enum error import_as(const char *there)
{
    char path[300];
    struct store *store = NULL;
    memset(&fake, 0, sizeof(fake));
    snprintf(path, sizeof(path), "%s", write_named("there.csv", there));
    fake.path = path;
    assert_ok(open_csv(SOURCE, "", &store));
    enum error error = try_import(&fake_ops, store, "out.csv");
    store_close(store);
    assert_int_equal(fake.closed, 1);
    assert_int_equal(fake.published, error ? 0 : 1);
    return error;
}

static void test_what_is_written_is_read_back(void **state)
{
    (void)state;
    assert_ok(import_as(SOURCE));
    assert_int_equal(fake.blocks, 1);
    assert_ok(import_as("id,label,a\n9,y,2\n4,x,1\n")); /* a kind may order rows otherwise */
}

static void test_other_rows_are_not_published(void **state)
{
    static const char says[] = "out.csv: what was written reads back as other rows";
    (void)state;
    assert_fails(import_as("id,label,a\n4,x,1\n9,y,3\n"), ERROR_IO, says);
    assert_fails(import_as("id,label,a\n4,x,1\n9,z,2\n"), ERROR_IO, says);
    assert_fails(import_as("id,label,a\n4,x,1\n8,y,2\n"), ERROR_IO, says);
    assert_fails(import_as("id,label,a\n4,x,1\n"), ERROR_IO, says);
    assert_fails(import_as("id,label,a\n4,x,1\n9,y,2\n9,y,2\n"), ERROR_INPUT, "9");
    assert_fails(import_as("nothing\n"), ERROR_INPUT, "there.csv");
}

static void test_a_server_is_read_back_by_its_uri(void **state)
{
    struct store *store = NULL;
    struct store_writer *writer = NULL;
    struct uri place = {.path = (char *)(uintptr_t) "server"};
    char same[300];
    (void)state;
    memset(&fake, 0, sizeof(fake)); /* no path */
    assert_ok(open_csv(SOURCE, "", &store));
    assert_ok(store_writer_open(&fake_ops, &place, NULL, false, &writer));
    assert_ok(store_writer_begin(writer, store_info(store)));
    assert_ok(store_scan(store, SCAN_FEATURES, store_writer_add, writer));
    assert_ok(store_writer_commit(writer));
    assert_int_equal(fake.published, 1);
    snprintf(same, sizeof(same), "%s", write_named("same.csv", SOURCE));
    assert_ok(store_writer_read_back(writer, &(struct uri){.path = same}));
    snprintf(same, sizeof(same), "%s", write_named("other.csv", "id,label,a\n4,x,1\n9,y,7\n"));
    assert_fails(store_writer_read_back(writer, &(struct uri){.path = same}), ERROR_IO,
                 "server: what was written");
    store_writer_close(writer);
    store_close(store);
}

static void test_rows_are_counted(void **state)
{
    struct store *store = NULL;
    struct store_writer *writer = NULL;
    struct uri place = {.path = (char *)(uintptr_t) "out"};
    (void)state;
    memset(&fake, 0, sizeof(fake));
    assert_ok(open_csv(SOURCE, "", &store));
    assert_ok(store_writer_open(&fake_ops, &place, NULL, false, &writer));
    assert_ok(store_writer_begin(writer, store_info(store)));
    assert_fails(store_writer_commit(writer), ERROR_INPUT, "gave 0 rows, and announced 2");
    assert_ok(store_scan(store, SCAN_FEATURES, store_writer_add, writer));
    assert_fails(store_scan(store, SCAN_FEATURES, store_writer_add, writer), ERROR_INPUT,
                 "gave 4 rows, and announced 2");
    assert_int_equal(fake.blocks, 1);
    store_writer_close(writer);
    assert_int_equal(fake.published, 0);
    store_close(store);
}

static void test_a_stop_leaves_nothing(void **state)
{
    struct store *store = NULL;
    (void)state;
    memset(&fake, 0, sizeof(fake));
    assert_ok(open_csv(SOURCE, "", &store));
    stop_follow(&stopped);
    for (int i = 0; i < 2; i++) {
        stopped = i == 0;
        stops_at_the_end = i == 1;
        assert_fails(try_import(&fake_ops, store, "out"), ERROR_CANCELLED,
                     i ? "stopped before out was complete; nothing was left" : "stopped");
    }
    stops_at_the_end = false;
    stop_follow(NULL);
    assert_int_equal(fake.published, 0);
    assert_int_equal(fake.closed, 2);
    store_close(store);
}

/* SQLite keeps -0 as 0: it is the same weight. */
static void test_a_weight_of_minus_zero(void **state)
{
    struct store *store = NULL;
    (void)state;
    assert_ok(open_csv("id,label,w\n1,2,-0\n2,3,-0.0\n3,3,0\n", "weight=w", &store));
    import_store(store, path_of("zeros.db"));
    import_rows(store, path_of("zeros.rows"));
    store_close(store);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_what_is_written_is_read_back, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_other_rows_are_not_published, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_server_is_read_back_by_its_uri, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_rows_are_counted, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_stop_leaves_nothing, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_weight_of_minus_zero, make_folder, remove_folder),
};

UNIT_MAIN(tests)
