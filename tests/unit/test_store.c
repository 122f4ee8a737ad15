/* SPDX-License-Identifier: MIT */
/* Covers loader/store/store. */
#include "config.h"

#include "tests/unit/store_unit.h"

#include "common/text.h"
#include "loader/store/content_digest.h"
#include "loader/store/feature_range.h"
#include "loader/store/row_cache.h"
#include "loader/store/scan_apart.h"
#include "loader/store_uri.h"

/* ---- the same rows in every store --------------------------------------- */

enum shape { SHAPE_BYTES, SHAPE_REALS, SHAPE_BARE, SHAPE_INTEGERS, SHAPES };

struct recipe {
    enum shape shape;
    bool ids, weights, groups;
    enum label_kind labels;
    size_t rows, features;
};

static void print_label(FILE *file, const struct recipe *recipe, uint64_t *seed)
{
    static const char *const texts[] = {"cat", "dog",     "\"a,b\"", "\xc3\xa4\xc3\xb6",
                                        "007", "\"x\ny\""};
    switch (recipe->labels) {
    case LABEL_NONE:
        break;
    case LABEL_INTEGER:
        fprintf(file, "%lld", (long long)dice_below(seed, 7) - 2);
        break;
    case LABEL_REAL:
        fprintf(file, "%.3f", (double)dice_below(seed, 1000) / 7);
        break;
    case LABEL_TEXT:
        fputs(texts[dice_below(seed, 6)], file);
        break;
    }
}

static void print_feature(FILE *file, enum shape shape, uint64_t *seed)
{
    if (shape == SHAPE_BYTES) {
        fprintf(file, ",%zu", dice_below(seed, 2) ? 0 : dice_below(seed, 256));
        return;
    }
    if (shape == SHAPE_INTEGERS) {
        fprintf(file, ",%d", (int)(int32_t)dice(seed));
        return;
    }
    switch (dice_below(seed, 4)) {
    case 0:
        fprintf(file, ",%zu", dice_below(seed, 256));
        break;
    case 1:
        fprintf(file, ",-%.17g", (double)dice(seed) / 1e18);
        break;
    case 2:
        fprintf(file, ",%.9g", (double)dice(seed) * 1e-30);
        break;
    default:
        fprintf(file, ",0.%llu", (unsigned long long)dice(seed));
    }
}

static void write_recipe(const char *name, const struct recipe *recipe, uint64_t *seed)
{
    FILE *file = fopen(path_of(name), "w");
    fprintf(file, "%s%s%s%s", recipe->labels ? "label," : "", recipe->ids ? "id," : "",
            recipe->weights ? "w," : "", recipe->groups ? "g," : "");
    fprintf(file, "last");
    for (size_t k = 1; k < recipe->features; k++)
        fprintf(file, ",f%zu", k);
    fprintf(file, "\n");
    for (size_t i = 0; i < recipe->rows; i++) {
        if (recipe->labels) {
            print_label(file, recipe, seed);
            fputc(',', file);
        }
        if (recipe->ids)
            fprintf(file, "%zu,", (i * 7919 % recipe->rows) * 3 + 11);
        if (recipe->weights)
            fprintf(file, "%.17g,", (double)dice(seed) / 1e17);
        if (recipe->groups)
            fprintf(file, "g%zu,", dice_below(seed, 5));
        fprintf(file, "%zu", dice_below(seed, 256));
        for (size_t k = 1; k < recipe->features; k++)
            print_feature(file, recipe->shape, seed);
        fprintf(file, "\n");
    }
    fclose(file);
}

static enum error add_digest(void *context, const struct store_block *block)
{
    void **both = context;
    return content_digest_add(both[0], both[1], block);
}

static void digest_of(struct store *store, char out[CONTENT_DIGEST_TEXT_BYTES])
{
    struct content_digest digest;
    void *both[] = {&digest, (void *)store_info(store)};
    content_digest_init(&digest);
    assert_ok(store_scan(store, SCAN_FEATURES, add_digest, both));
    content_digest_text(&digest, out);
    content_digest_release(&digest);
}

static void test_features_are_small_below_a_quarter_of_a_byte(void **state)
{
    (void)state;
    assert_false(feature_range_is_small(&(struct feature_range){.rows = 9, .largest = 0}));
    assert_true(feature_range_is_small(&(struct feature_range){.rows = 9, .largest = 1}));
    assert_true(feature_range_is_small(&(struct feature_range){.rows = 9, .largest = 63}));
    assert_false(feature_range_is_small(&(struct feature_range){.rows = 9, .largest = 64}));
}

/* Also where they fill the last block. */
static void test_the_rows_of_a_range(void **state)
{
    static const char *const uris[] = {"range:1", "range:4096?labels=3", "range:10000"};
    (void)state;
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        struct store *store = NULL;
        struct rows rows;
        assert_ok(store_open(uris[i], false, &store));
        rows_scan(&rows, store, SCAN_KEYS);
        for (size_t row = 0; row < rows.count; row++)
            assert_int_equal(rows.ids[row], row);
        rows_release(&rows);
        store_close(store);
    }
}

/* Every row of `rows` fetched from `store` is the same to the last bit. */
static void check_fetch_all(struct store *store, const struct rows *rows)
{
    struct reader *reader = NULL;
    uint8_t *features = malloc(rows->count * rows->row_bytes + 1);
    double *labels = calloc(rows->count, sizeof(*labels));
    enum row_status *status = calloc(rows->count, sizeof(*status));
    assert_ok(reader_open(store, &reader));
    assert_ok(
        reader_fetch(reader, rows->ids, rows->count, features, rows->row_bytes, labels, status));
    assert_memory_equal(features, rows->features, rows->count * rows->row_bytes);
    assert_memory_equal(labels, rows->values, rows->count * sizeof(*labels));
    for (size_t i = 0; i < rows->count; i++)
        assert_int_equal(status[i], ROW_OK);
    reader_close(reader);
    free(features);
    free(labels);
    free(status);
}

/* Are the keys of two stores the same row by row, in their own orders? */
static void check_keys(const struct rows *a, const struct rows *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        size_t k = 0;
        while (k < b->count && b->ids[k] != a->ids[i])
            k++;
        assert_true(k < b->count);
        assert_string_equal(a->labels[i], b->labels[k]);
        assert_true(a->weights[i] == b->weights[k]);
        assert_true(!a->groups[i] == !b->groups[k]);
        if (a->groups[i])
            assert_string_equal(a->groups[i], b->groups[k]);
    }
}

/* Read by a row cache, by several threads if ids are consecutive. */
static void check_cached(struct store *store, const struct rows *rows, bool has_run)
{
    struct store *cache = NULL;
    struct reader *reader = NULL;
    int64_t first = -1;
    assert_ok(reader_open(store, &reader));
    assert_int_equal(reader_has_run(reader, &first), has_run);
    assert_int_equal(first, has_run ? 0 : first);
    reader_close(reader);
    assert_ok(row_cache_open(store, UINT64_MAX, 0, &cache));
    assert_ok(row_cache_wait(cache));
    check_fetch_all(cache, rows);
    store_close(cache);
}

/* A store that import made of `csv` and its rows. */
static void check_import(struct store *csv, struct store *made, const struct rows *rows)
{
    struct rows keys;
    char csv_digest[CONTENT_DIGEST_TEXT_BYTES];
    char made_digest[CONTENT_DIGEST_TEXT_BYTES];
    const struct store_info *ours = store_info(made), *theirs = store_info(csv);
    assert_int_equal(ours->label_kind, theirs->label_kind);
    assert_int_equal(ours->element, theirs->element);
    assert_int_equal(ours->features, theirs->features);
    for (size_t k = 0; k < theirs->features; k++)
        assert_string_equal(ours->feature_names[k], theirs->feature_names[k]);
    digest_of(csv, csv_digest);
    digest_of(made, made_digest);
    assert_string_equal(csv_digest, made_digest);
    assert_string_equal(csv_digest, ours->digest);
    check_fetch_all(made, rows);
    rows_scan(&keys, made, SCAN_KEYS);
    check_keys(rows, &keys);
    rows_release(&keys);
}

static void check_recipe(const struct recipe *recipe, uint64_t *seed)
{
    struct store *csv = NULL, *sqlite = NULL, *row_file = NULL, *cache = NULL;
    struct rows rows;
    char query[64];
    snprintf(query, sizeof(query), "header=yes%s%s%s", recipe->weights ? "&weight=w" : "",
             recipe->groups ? "&group=g" : "",
             recipe->shape == SHAPE_INTEGERS ? "&element=i32" : "");
    write_recipe("same.csv", recipe, seed);
    assert_ok(store_open(uri_of("csv", "same.csv", query), false, &csv));
    import_store(csv, path_of("same.db"));
    import_rows(csv, path_of("same.rows"));
    assert_ok(store_open(path_of("same.db"), false, &sqlite));
    assert_ok(store_open(path_of("same.rows"), false, &row_file));
    assert_ok(row_cache_open(csv, UINT64_MAX, 0, &cache));
    assert_int_equal(store_info(csv)->element, recipe->shape == SHAPE_REALS      ? ELEMENT_F32
                                               : recipe->shape == SHAPE_INTEGERS ? ELEMENT_I32
                                                                                 : ELEMENT_U8);
    assert_int_equal(store_info(csv)->label_kind, recipe->labels);
    rows_scan(&rows, csv, SCAN_FEATURES);
    check_fetch_all(csv, &rows);
    check_fetch_all(cache, &rows);
    check_import(csv, sqlite, &rows);
    check_import(csv, row_file, &rows);
    check_cached(csv, &rows, false);
    check_cached(sqlite, &rows, !recipe->ids);
    check_cached(row_file, &rows, !recipe->ids);
    rows_release(&rows);
    store_close(cache);
    store_close(csv);
    store_close(sqlite);
    store_close(row_file);
}

static void test_every_store_gives_the_same_bytes(void **state)
{
    uint64_t seed = unit_seed() + 11;
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct recipe recipe = {.shape = (enum shape)dice_below(&seed, SHAPES),
                                .ids = dice_below(&seed, 2),
                                .weights = dice_below(&seed, 2),
                                .groups = dice_below(&seed, 2),
                                .labels = (enum label_kind)dice_below(&seed, 4),
                                .rows = 30 + dice_below(&seed, 300),
                                .features = 2 + dice_below(&seed, 40)};
        if (recipe.shape == SHAPE_BARE)
            recipe.features = 1;
        check_recipe(&recipe, &seed);
    }
}

/* ---- digest ------------------------------------------------------------- */

static void digest_csv(const char *text, const char *query, char out[CONTENT_DIGEST_TEXT_BYTES])
{
    struct store *store = NULL;
    assert_ok(open_csv(text, query, &store));
    digest_of(store, out);
    store_close(store);
}

static void test_digest_knows_rows_not_their_order(void **state)
{
    static const char base[] = "id,label,w,g,a\n1,x,1,u,5\n2,y,1,v,6\n";
    static const char query[] = "weight=w&group=g";
    static const char *const others[] = {
        "id,label,w,g,a\n1,x,1,u,6\n2,y,1,v,5\n",  "id,label,w,g,a\n2,x,1,u,5\n1,y,1,v,6\n",
        "id,label,w,g,a\n1,y,1,u,5\n2,x,1,v,6\n",  "id,label,w,g,a\n1,x,2,u,5\n2,y,1,v,6\n",
        "id,label,w,g,a\n1,xu,1,u,5\n2,y,1,v,6\n", "id,label,w,g,a\n1,x,1,u,5\n",
    };
    char expected[CONTENT_DIGEST_TEXT_BYTES];
    char digest[CONTENT_DIGEST_TEXT_BYTES];
    (void)state;
    digest_csv(base, query, expected);
    digest_csv("g,id,label,a,w\nv,2,y,6,1\nu,1,x,5,1.0\n", query, digest);
    assert_string_equal(digest, expected);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        digest_csv(others[i], query, digest);
        assert_string_not_equal(digest, expected);
    }
}

/* ---- which store -------------------------------------------------------- */

static void test_stores_are_chosen_by_uri(void **state)
{
    struct store *store = NULL;
    (void)state;
    write_file("a.csv", "label,a\n1,2\n");
    write_file("a.tsv", "label\ta\n1\t2\n");
    write_file("a.txt", "label,a\n1,2\n");
    write_file("B.CSV", "label,a\n1,2\n");
    write_file("B.Tsv", "label\ta\n1\t2\n");
    static const char *const names[] = {"a.csv", "a.tsv", "B.CSV", "B.Tsv"};
    for (int i = 0; i < 4; i++) {
        assert_ok(store_open(path_of(names[i]), false, &store));
        assert_int_equal(store_info(store)->features, 1);
        assert_string_equal(store_info(store)->uri, path_of(names[i]));
        store_close(store);
    }
    assert_ok(store_open(uri_of("csv", "a.txt", ""), false, &store));
    store_close(store);
    char query[600];
    snprintf(query, sizeof(query), "%s?label=a", path_of("a.csv"));
    assert_ok(store_open(query, false, &store));
    assert_string_equal(store_info(store)->label_column, "a");
    store_close(store);
    assert_fails(store_open(path_of("a.txt"), false, &store), ERROR_USAGE,
                 "rows of text are csv:PATH");
#ifndef HAVE_LIBPQ
    assert_fails(store_open("postgresql://host/db", false, &store), ERROR_UNAVAILABLE,
                 "no PostgreSQL store");
#endif
    assert_fails(store_open("csv:", false, &store), ERROR_USAGE, "names nothing");
    assert_fails(store_open("csv:x?a=1&a=2", false, &store), ERROR_USAGE, "twice");
    assert_fails(store_open("csv:%zz", false, &store), ERROR_USAGE, "hex digits");
}

static void test_uris_are_checked_at_a_glance(void **state)
{
    char list[1200];
    int length;
    (void)state;
    write_file("a.csv", "nothing, that is; a row of rows\n");
    assert_ok(store_check_uri(path_of("a.csv")));
    assert_ok(store_check_uri("range:5?no=such"));
    assert_ok(store_check_uri(uri_of("csv", "a*.csv", "")));
    assert_fails(store_check_uri(path_of("none.csv")), ERROR_NOT_FOUND, "none.csv");
    assert_fails(store_check_uri(path_of("none-*.csv")), ERROR_NOT_FOUND, "none-*.csv");
    assert_fails(store_check_uri(path_of("a.txt")), ERROR_USAGE, "rows of text are csv:PATH");
    assert_fails(store_check_uri("csv:"), ERROR_USAGE, "names nothing");
    length = snprintf(list, sizeof(list), "%s\n", path_of("a.csv"));
    snprintf(list + length, sizeof(list) - (size_t)length, "%s", path_of("none.db"));
    assert_fails(store_check_uri(list), ERROR_NOT_FOUND, "none.db");
}

static void test_a_store_left_behind_keeps_its_password(void **state)
{
    static const char *const uris[] = {"postgresql://me:secret@h/d?table=t",
                                       "postgres://h/d?user=me&password=secret"};
    (void)state;
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        error_set(ERROR_CANCELLED, "stopped");
        assert_int_equal(store_name_left(ERROR_CANCELLED, uris[i]), ERROR_CANCELLED);
        assert_string_equal(error_message(), "the store: stopped");
    }
    error_set(ERROR_CANCELLED, "stopped");
    assert_int_equal(store_name_left(ERROR_CANCELLED, "csv:a@b.csv"), ERROR_CANCELLED);
    assert_string_equal(error_message(), "csv:a@b.csv: stopped");
}

static void test_closing_nothing_is_legal(void **state)
{
    (void)state;
    store_close(NULL);
    reader_close(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_every_store_gives_the_same_bytes, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_digest_knows_rows_not_their_order, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_stores_are_chosen_by_uri, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_uris_are_checked_at_a_glance, make_folder, remove_folder),
    cmocka_unit_test(test_features_are_small_below_a_quarter_of_a_byte),
    cmocka_unit_test(test_the_rows_of_a_range),
    cmocka_unit_test(test_a_store_left_behind_keeps_its_password),
    cmocka_unit_test(test_closing_nothing_is_legal),
};

UNIT_MAIN(tests)
