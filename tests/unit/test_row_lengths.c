/* SPDX-License-Identifier: MIT */
/* Covers loader/column/row_limit: rows that differ in length, in every store and in a feed. */
#include "tests/unit/feed_unit.h"
#include "tests/unit/store_unit.h"

#include <sqlite3.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "common/file.h"
#include "loader/rows/rows_ends.h"
#include "loader/store/content_digest.h"
#include "loader/store/row_cache.h"

/* ---- a file of such rows ------------------------------------------------ */

#define LONGEST 300

struct shape {
    bool ids, weights, groups, texts, floats, quotes, integers;
    size_t rows;
};

/* What its rows are: [rows] lengths, [rows, LONGEST] values. */
struct right {
    size_t rows, longest, elements;
    int64_t lengths[2000];
    size_t row_of[3 * 2000 + 12]; /* by id */
    double values[2000][LONGEST];
};

static size_t length_of(uint64_t *seed, const struct shape *shape)
{
    bool keyless = !shape->ids && !shape->weights && !shape->groups && !shape->texts;
    size_t length = dice_below(seed, 20) == 0 ? dice_below(seed, LONGEST + 1) : dice_below(seed, 9);
    return length == 0 && keyless ? 1 : length; /* a row of nothing at all would be a blank line */
}

static void print_value(FILE *file, const struct shape *shape, uint64_t *seed, double *ret_value)
{
    char text[32];
    if (shape->integers && dice_below(seed, 2))
        snprintf(text, sizeof(text), "%d", (int)(int32_t)dice(seed));
    else if (shape->floats && dice_below(seed, 2))
        snprintf(text, sizeof(text), "-%.6f", (double)dice_below(seed, 1000000) / 7);
    else
        snprintf(text, sizeof(text), "%zu", dice_below(seed, 256));
    *ret_value = shape->integers ? strtod(text, NULL) : (double)(float)strtod(text, NULL);
    fprintf(file, shape->quotes && dice_below(seed, 9) == 0 ? "\"%s\"" : "%s", text);
}

static void print_row(FILE *file, const struct shape *shape, size_t row, uint64_t *seed,
                      struct right *right)
{
    size_t length = length_of(seed, shape);
    const char *between = "";
    size_t id = shape->ids ? row * 7919 % shape->rows * 3 + 11 : row;
    right->row_of[id] = row;
    if (shape->ids)
        fprintf(file, "%zu%s", id, (between = ","));
    if (shape->texts)
        fprintf(file, "%s%s", dice_below(seed, 2) ? "cat" : "dog", (between = ","));
    if (shape->weights)
        fprintf(file, "%.3f%s", (double)dice_below(seed, 1000) / 8, (between = ","));
    if (shape->groups)
        fprintf(file, "g%zu%s", dice_below(seed, 5), (between = ","));
    for (size_t i = 0; i < length; i++) {
        fputs(i > 0 ? "," : "", file);
        print_value(file, shape, seed, &right->values[row][i]);
    }
    if (between[0] && dice_below(seed, 7) == 0)
        fputs(length > 0 ? ",,," : ",,", file); /* empty fields at the end are none */
    fputs(dice_below(seed, 2) ? "\n" : "\r\n", file);
    right->lengths[row] = (int64_t)length;
    right->longest = length > right->longest ? length : right->longest;
    right->elements += length;
}

static void write_shape(const char *name, const struct shape *shape, uint64_t *seed,
                        struct right *right)
{
    FILE *file = fopen(path_of(name), "w");
    memset(right, 0, sizeof(*right));
    right->rows = shape->rows;
    fprintf(file, "%s%s%s%s%s\n", shape->ids ? "id," : "", shape->texts ? "label," : "",
            shape->weights ? "w," : "", shape->groups ? "g," : "", "x");
    for (size_t row = 0; row < shape->rows; row++)
        print_row(file, shape, row, seed, right);
    fclose(file);
}

static const char *query_of(const struct shape *shape, const char *longest)
{
    static char query[96];
    snprintf(query, sizeof(query), "longest=%s%s%s%s", longest, shape->weights ? "&weight=w" : "",
             shape->groups ? "&group=g" : "", shape->integers ? "&element=i32" : "");
    return query;
}

static struct store *open_as(const char *uri)
{
    struct store *store = NULL;
    assert_ok(store_open(uri, false, &store));
    return store;
}

/* ---- in every store ----------------------------------------------------- */

static enum error add_digest(void *context, const struct store_block *block)
{
    void **both = context;
    return content_digest_add(both[0], both[1], block);
}

static void digest_of(struct store *store, char out[CONTENT_DIGEST_TEXT_BYTES])
{
    struct content_digest digest;
    void *both[] = {&digest, (void *)(uintptr_t)store_info(store)};
    content_digest_init(&digest);
    assert_ok(store_scan(store, SCAN_FEATURES, add_digest, both));
    content_digest_text(&digest, out);
    content_digest_release(&digest);
}

static void check_info(struct store *store, const struct right *right, const struct shape *shape)
{
    const struct store_info *info = store_info(store);
    assert_int_equal(info->rows, right->rows);
    assert_int_equal(info->lengths, LENGTHS_VARY);
    assert_int_equal(info->longest, right->longest);
    assert_int_equal(info->features, right->longest);
    assert_int_equal(info->elements, right->elements);
    assert_null(info->feature_names);
    assert_null(info->shape);
    if (!shape->floats)
        assert_int_equal(info->element, shape->integers ? ELEMENT_I32 : ELEMENT_U8);
}

static void check_values(const struct rows *rows, const struct right *right)
{
    for (size_t at = 0; at < right->rows; at++) {
        size_t row = right->row_of[rows->ids[at]];
        assert_int_equal(rows->lengths[at], right->lengths[row]);
        for (size_t i = 0; i < right->longest; i++)
            assert_true(feature_of(rows, rows->info, at, i) == right->values[row][i]);
    }
}

/* The same rows, and the same digest. */
static void check_same(struct store *store, const char *digest, const struct right *right,
                       const struct shape *shape)
{
    struct rows rows;
    char own[CONTENT_DIGEST_TEXT_BYTES];
    check_info(store, right, shape);
    rows_scan(&rows, store, SCAN_FEATURES);
    check_values(&rows, right);
    check_fetch(store, &rows, 17);
    digest_of(store, own);
    assert_string_equal(own, digest);
    rows_release(&rows);
}

/* All of it in memory, a part of it, next to nothing. */
static void check_caches(struct store *inner, const struct right *right)
{
    struct rows rows;
    uint64_t all = cache_bytes(store_info(inner));
    const uint64_t limits[] = {UINT64_MAX, all, all - 1, all / 2, 1};
    rows_scan(&rows, inner, SCAN_FEATURES);
    check_values(&rows, right);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct store *cache = NULL;
        assert_ok(row_cache_open(inner, limits[i], 0, &cache));
        check_fetch(cache, &rows, 3 + i);
        assert_ok(row_cache_wait(cache));
        check_fetch(cache, &rows, 9 + i);
        store_close(cache);
    }
    rows_release(&rows);
}

static void check_shape(const struct shape *shape, uint64_t *seed)
{
    static struct right right;
    char digest[CONTENT_DIGEST_TEXT_BYTES];
    write_shape("vary.csv", shape, seed, &right);
    struct store *csv = open_as(uri_of("csv", "vary.csv", query_of(shape, "any")));
    digest_of(csv, digest);
    check_same(csv, digest, &right, shape);
    check_caches(csv, &right);
    import_rows(csv, path_of("vary.rows"));
    import_store(csv, path_of("vary.db"));
    store_close(csv);
    struct store *sqlite = open_as(path_of("vary.db"));
    check_same(sqlite, digest, &right, shape);
    check_caches(sqlite, &right);
    store_close(sqlite);
    struct store *row_file = open_as(path_of("vary.rows"));
    check_same(row_file, digest, &right, shape);
    check_caches(row_file, &right);
    import_rows(row_file, path_of("again.rows"));
    store_close(row_file);
    row_file = open_as(uri_of("rows", "again.rows", "longest=any"));
    check_same(row_file, digest, &right, shape);
    store_close(row_file);
}

static void test_every_store_gives_the_same_bytes(void **state)
{
    uint64_t seed = unit_seed() + 5;
    (void)state;
    for (int round = 0; round < 40; round++) {
        bool integers = dice_below(&seed, 3) == 0;
        struct shape shape = {.ids = dice_below(&seed, 2),
                              .weights = dice_below(&seed, 3) == 0,
                              .groups = dice_below(&seed, 3) == 0,
                              .texts = dice_below(&seed, 2),
                              .integers = integers,
                              .floats = !integers && dice_below(&seed, 2),
                              .quotes = dice_below(&seed, 4) == 0,
                              .rows = 1 + dice_below(&seed, round < 35 ? 50 : 2000)};
        check_shape(&shape, &seed);
    }
}

/* ---- SQLite: tables of others ------------------------------------------- */

static void make_table(const char *sql)
{
    sqlite3 *connection = NULL;
    unlink(path_of("own.db"));
    assert_int_equal(sqlite3_open(path_of("own.db"), &connection), SQLITE_OK);
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(connection);
}

static void refuse_table(const char *query, enum error code, const char *says)
{
    struct store *store = NULL;
    assert_fails(store_open(uri_of("sqlite", "own.db", query), false, &store), code, says);
}

static void test_blobs_of_any_length(void **state)
{
    struct rows rows;
    (void)state;
    make_table(
        "CREATE TABLE t (id INTEGER, label, x BLOB); INSERT INTO t VALUES (7, 'a', x'010203'),"
        "(3, 'b', x''), (5, 'a', x'0405060708'), (9, 'a', NULL), (11, 'b', 'text')");
    refuse_table("longest=2", ERROR_INPUT, "id 5: the row has 5 features, and longest=2 allows 2");
    refuse_table("longest=any&label=x", ERROR_USAGE, "longest= is for rows whose features are one");
    struct store *store = open_as(uri_of("sqlite", "own.db", "longest=any"));
    const struct store_info *info = store_info(store);
    assert_int_equal(info->features, 5);
    assert_int_equal(info->elements, 8);
    assert_int_equal(info->bad_rows, 2);
    rows_scan(&rows, store, SCAN_FEATURES | SCAN_BAD_ROWS);
    assert_int_equal(rows.ids[0], 3);
    assert_int_equal(rows.lengths[0], 0);
    assert_int_equal(rows.lengths[1], 5);
    assert_int_equal(rows.lengths[2], 3);
    check_fetch(store, &rows, 12);
    rows_release(&rows);
    store_close(store);
}

static void test_blobs_of_floats_of_any_length(void **state)
{
    (void)state;
    make_table(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB); INSERT INTO t VALUES (1, x''),"
        "(2, x'0000803f00004040'), (3, x'0000803f'), (4, x'0000803f00004040000040400000803f')");
    refuse_table("longest=any", ERROR_INPUT, "element=f32 or");
    struct store *store = open_as(uri_of("sqlite", "own.db", "longest=any&element=f32"));
    assert_int_equal(store_info(store)->features, 4);
    assert_int_equal(store_info(store)->bad_rows, 0);
    store_close(store);
    make_table("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB); INSERT INTO t VALUES (1, x'00'),"
               "(2, x'0000c07f'), (3, x'0000803f')");
    store = open_as(uri_of("sqlite", "own.db", "longest=any&element=f32"));
    assert_int_equal(store_info(store)->bad_rows, 2);
    assert_non_null(strstr(store_info(store)->first_bad_row, "id 1: column \"x\" is a BLOB of 1"));
    store_close(store);
}

/* Token ids, as NumPy and PyTorch lay out int32. */
static void test_blobs_of_integers_of_any_length(void **state)
{
    struct rows rows;
    (void)state;
    make_table("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB); INSERT INTO t VALUES (1, x''),"
               "(2, x'01000001ffffff7f'), (3, x'000000800a010000ffffffff')");
    struct store *store = open_as(uri_of("sqlite", "own.db", "longest=any&element=i32"));
    const struct store_info *info = store_info(store);
    assert_int_equal(info->features, 3);
    assert_int_equal(info->element, ELEMENT_I32);
    rows_scan(&rows, store, SCAN_FEATURES);
    assert_true(feature_of(&rows, info, 1, 0) == 16777217 &&
                feature_of(&rows, info, 1, 1) == INT32_MAX);
    assert_true(feature_of(&rows, info, 2, 0) == INT32_MIN && feature_of(&rows, info, 2, 2) == -1);
    check_fetch(store, &rows, 5);
    rows_release(&rows);
    store_close(store);
    make_table("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB); INSERT INTO t VALUES (1, x''),"
               "(2, x'0a010000ff010000'), (3, x'0a01000002000000ff010000')");
    refuse_table("longest=any", ERROR_INPUT, "look like 3 32-bit integers, and may be 12 integers");
    make_table("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB); INSERT INTO t VALUES (1, x'00')");
    store = open_as(uri_of("sqlite", "own.db", "longest=any&element=i32"));
    assert_non_null(strstr(store_info(store)->first_bad_row,
                           "id 1: column \"x\" is a BLOB of 1 byte; a BLOB of 32-bit integers"));
    store_close(store);
}

/* Keys alone: the same with and without features, as frames are built. */
static enum error count_rows(void *context, const struct store_block *block)
{
    *(size_t *)context += block->rows;
    return OK;
}

static void test_keys_alone_are_read_of_rows_of_any_length(void **state)
{
    static struct right right;
    const struct shape shape = {.texts = true, .rows = 1500};
    const char *const uris[] = {"csv", "rows"};
    uint64_t seed = unit_seed() + 6;
    (void)state;
    write_shape("vary.csv", &shape, &seed, &right);
    struct store *csv = open_as(uri_of("csv", "vary.csv", "longest=any"));
    import_rows(csv, path_of("vary.rows"));
    store_close(csv);
    for (size_t i = 0; i < 4; i++) {
        struct store *store = NULL;
        size_t rows = 0;
        const char *name = i % 2 ? "vary.rows" : "vary.csv";
        assert_ok(store_open(uri_of(uris[i % 2], name, i % 2 ? "" : "longest=any"), true, &store));
        assert_ok(store_scan(store, i < 2 ? SCAN_KEYS : SCAN_CODES, count_rows, &rows));
        assert_int_equal(rows, 1500);
        store_close(store);
    }
}

static void test_files_with_such_rows_are_one_store(void **state)
{
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    write_file("part-0.csv", "label,x\na,1,2,3\nb\n");
    write_file("part-1.csv", "label\nb,0.5\na,7,8,9,10,11\n");
    assert_ok(store_open(uri_of("csv", "part-*.csv", "longest=any"), false, &store));
    const struct store_info *info = store_info(store);
    assert_int_equal(info->features, 5);
    assert_int_equal(info->elements, 9);
    assert_int_equal(info->element, ELEMENT_F32);
    rows_scan(&rows, store, SCAN_FEATURES);
    assert_int_equal(rows.lengths[0], 3);
    assert_int_equal(rows.lengths[1], 0);
    assert_int_equal(rows.lengths[3], 5);
    assert_true(feature_of(&rows, info, 0, 2) == 3 && feature_of(&rows, info, 3, 4) == 11);
    check_fetch(store, &rows, 4);
    rows_release(&rows);
    store_close(store);
}

/* Each has a longest row of its own, which is not looked for if only keys are read. */
static void test_row_files_with_one_limit_are_one_store(void **state)
{
    struct store *store = NULL;
    (void)state;
    assert_ok(open_csv("label,x\na,1,2,3\nb\n", "longest=any", &store));
    import_rows(store, path_of("part-0.rows"));
    store_close(store);
    assert_ok(open_csv("label,x\na,1,2,3,4,5\n", "longest=any", &store));
    import_rows(store, path_of("part-1.rows"));
    store_close(store);
    for (int keys_only = 0; keys_only < 2; keys_only++) {
        size_t rows = 0;
        assert_ok(store_open(uri_of("rows", "part-*.rows", "longest=6"), keys_only, &store));
        assert_int_equal(store_info(store)->features, 6);
        assert_ok(store_scan(store, SCAN_KEYS, count_rows, &rows));
        assert_int_equal(rows, 3);
        store_close(store);
    }
}

/* ---- limits and refusals ------------------------------------------------ */

static void test_a_limit_is_the_width(void **state)
{
    struct store *store = NULL, *row_file = NULL;
    (void)state;
    assert_ok(open_csv("label\n1,5,6\n2,7\n", "longest=4", &store));
    assert_int_equal(store_info(store)->features, 4);
    assert_int_equal(store_info(store)->longest, 2);
    assert_int_equal(store_info(store)->lengths, LENGTHS_LIMITED);
    import_rows(store, path_of("x.rows"));
    store_close(store);
    assert_ok(store_open(path_of("x.rows"), false, &row_file));
    assert_int_equal(store_info(row_file)->features, 4);
    assert_int_equal(store_info(row_file)->longest, 2);
    assert_int_equal(store_info(row_file)->lengths, LENGTHS_LIMITED);
    store_close(row_file);
}

/* Whatever the file was made with, it is what the CSV file is with this in its URI. */
static void check_as_csv(const char *query)
{
    struct store *csv = open_as(uri_of("csv", "rows.csv", query));
    struct store *row_file = open_as(uri_of("rows", "x.rows", query));
    const struct store_info *is = store_info(row_file), *right = store_info(csv);
    char digest[CONTENT_DIGEST_TEXT_BYTES], own[CONTENT_DIGEST_TEXT_BYTES];
    struct rows rows;
    assert_int_equal(is->lengths, right->lengths);
    assert_int_equal(is->features, right->features);
    assert_int_equal(is->longest, right->longest);
    assert_int_equal(is->elements, right->elements);
    assert_null(is->feature_names);
    digest_of(csv, digest);
    digest_of(row_file, own);
    assert_string_equal(own, digest);
    rows_scan(&rows, csv, SCAN_FEATURES);
    check_fetch(row_file, &rows, 21);
    rows_release(&rows);
    store_close(row_file);
    store_close(csv);
}

static void refuse_row_file(const char *query, enum error code, const char *says)
{
    struct store *store = NULL;
    assert_fails(store_open(uri_of("rows", "x.rows", query), false, &store), code, says);
}

static void test_the_uri_of_a_row_file_says_how_long_rows_may_be(void **state)
{
    static const char *const made[] = {"longest=any", "longest=9", ""}; /* "": rows are alike */
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct store *store = NULL;
        assert_ok(open_csv(i < 2 ? "label,a,b\n1,5,6\n2\n3,1,2,3,4,5\n"
                                 : "label,a,b,c\n1,5,6,7\n2,1,2,3\n",
                           made[i], &store));
        import_rows(store, path_of("x.rows"));
        store_close(store);
        check_as_csv("longest=any");
        check_as_csv("longest=5");
        check_as_csv("longest=11");
        refuse_row_file("longest=2", ERROR_INPUT,
                        i < 2 ? "x.rows, row 2: the row has 5 features, and longest=2 allows 2; "
                                "longest=5 or longest=any would take it"
                              : "x.rows, row 0: the row has 3 features, and longest=2 allows 2; "
                                "longest=3 or longest=any would take it");
        refuse_row_file("longest=0", ERROR_USAGE, "x.rows: longest is \"0\", must be any, or");
        refuse_row_file("longest=any&missing=mean", ERROR_USAGE, "missing");
    }
}

static void test_what_is_refused_says_what_is_right(void **state)
{
    (void)state;
    refuse_csv("label,a\n1,2\n1,2,3\n", "", ERROR_INPUT,
               "rows.csv, line 3: the row has 3 fields, the header has 2; longest=any in the URI");
    refuse_csv("label\n1,2\n\n1,2,3\n", "longest=1", ERROR_INPUT,
               "rows.csv, line 4: the row has 2 features, and longest=1 allows 1; longest=2 or");
    refuse_csv("label,a\n1\n", "longest=0", ERROR_USAGE, "longest is \"0\", must be any, or");
    refuse_csv("label,a\n1\n", "longest=all", ERROR_USAGE, "longest is \"all\"");
    refuse_csv("label,a\n1\n", "longest=", ERROR_USAGE, "longest is \"\"");
    refuse_csv("label,a\n1\n", "longest=2000000000", ERROR_USAGE, "from 1 to 1073741824");
    refuse_csv("a,label\n1,2\n5\n", "longest=any", ERROR_INPUT,
               "line 3: the row has 1 field and ends before column \"label\"");
    refuse_csv("label,a\n1,2\n,5\n", "longest=any", ERROR_INPUT,
               "line 3: column \"label\" is empty");
    refuse_csv("label,a\n1,2\n", "longest=any&features=a", ERROR_USAGE, "features= with longest=");
    refuse_csv("label,a\n1,2\n", "longest=any&missing=mean", ERROR_USAGE,
               "missing= or onehot= with longest=");
}

/* A field that is no number makes the row bad, whether it has a name or not. */
static void test_a_bad_row_has_no_length(void **state)
{
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    assert_ok(open_csv("label,a\n1,2,3\n2,4,x,5\n3,,6\n4,7\n", "longest=any", &store));
    assert_int_equal(store_info(store)->bad_rows, 2);
    assert_non_null(strstr(store_info(store)->first_bad_row, "line 3: field 3 is \"x\""));
    rows_scan(&rows, store, SCAN_FEATURES | SCAN_BAD_ROWS);
    assert_int_equal(rows.status[1], ROW_BAD);
    assert_int_equal(rows.lengths[1], 0);
    assert_int_equal(rows.status[2], ROW_BAD);
    assert_int_equal(rows.lengths[3], 1);
    check_fetch(store, &rows, 8);
    struct store *cache = NULL;
    assert_ok(row_cache_open(store, UINT64_MAX, 0, &cache));
    assert_ok(row_cache_wait(cache));
    check_fetch(cache, &rows, 9);
    store_close(cache);
    rows_release(&rows);
    store_close(store);
}

/* ---- files that cannot be ----------------------------------------------- */

#define FILE_LIMIT_BYTES ((size_t)1 << 26)

/* Three rows, of two, no and five features. */
static struct rows_head make_bytes(const char *longest, struct buffer *ret_bytes)
{
    struct store *store = NULL;
    struct rows_head head;
    char query[32];
    snprintf(query, sizeof(query), "longest=%s", longest);
    assert_ok(open_csv("label\n1,0.5,6\n2\n3,1,2,3,4,5\n", query, &store));
    import_rows(store, path_of("x.rows"));
    store_close(store);
    *ret_bytes = (struct buffer)BUFFER_INIT(FILE_LIMIT_BYTES);
    assert_ok(file_read_whole(path_of("x.rows"), ret_bytes));
    memcpy(&head, ret_bytes->data, sizeof(head));
    return head;
}

/* With checksums that hold. */
static void seal(struct buffer *bytes, struct rows_head head)
{
    struct rows_ends_tail tail = {.zero = 0};
    size_t ends = (size_t)head.rows_at - sizeof(tail) - 3 * sizeof(uint64_t);
    uint64_t length = head.head_bytes < bytes->length ? head.head_bytes : bytes->length;
    if (head.rows_at <= bytes->length) {
        tail.checksum = crc32c_add(0, bytes->data + ends, 3 * sizeof(uint64_t));
        memcpy(bytes->data + ends + 3 * sizeof(uint64_t), &tail, sizeof(tail));
    }
    head.checksum = 0;
    memcpy(bytes->data, &head, sizeof(head));
    head.checksum = crc32c_add(0, bytes->data, (size_t)length);
    memcpy(bytes->data, &head, sizeof(head));
}

static void refuse_bytes(struct buffer *bytes, const char *says)
{
    struct store *store = NULL;
    size_t rows = 0;
    write_bytes("x.rows", bytes->data, bytes->length);
    enum error error = store_open(path_of("x.rows"), false, &store);
    if (!error)
        error = store_scan(store, SCAN_FEATURES, count_rows, &rows);
    assert_fails(error, ERROR_INPUT, says);
    assert_non_null(strstr(error_message(), "x.rows"));
    store_close(store);
    buffer_release(bytes);
}

static uint64_t *ends_of(struct buffer *bytes, const struct rows_head *head)
{
    return (uint64_t *)(void *)(bytes->data + head->rows_at - sizeof(struct rows_ends_tail) -
                                3 * sizeof(uint64_t));
}

static void set_end(uint64_t row, uint64_t end, const char *says)
{
    struct buffer bytes;
    struct rows_head head = make_bytes("any", &bytes);
    uint64_t *ends = ends_of(&bytes, &head);
    memcpy(&ends[row], &end, sizeof(end));
    seal(&bytes, head);
    refuse_bytes(&bytes, says);
}

static void test_ends_that_cannot_be(void **state)
{
    struct buffer bytes;
    (void)state;
    struct rows_head head = make_bytes("any", &bytes); /* rows of 24, 16 and 36 bytes */
    uint64_t *ends = ends_of(&bytes, &head);
    assert_int_equal(ends[0], 24);
    assert_int_equal(ends[2], 76);
    ends[0] ^= 1;
    refuse_bytes(&bytes, "the ends of its rows, bytes");
    set_end(0, 0, "the end of row 0, at byte");
    set_end(0, 26, "the end of row 0, at byte"); /* no whole number of floats */
    set_end(0, 36, "the end of row 1");          /* too near to hold it */
    set_end(1, 20, "the end of row 1");          /* goes back */
    set_end(0, 16 + 4 * 6, "the end of row 0");  /* longer than the longest */
    set_end(0, UINT64_MAX, "the end of row 0");
    set_end(2, 80, "the end of row 2");
    set_end(2, 72, "the end of row 2");
    set_end(2, (uint64_t)1 << 62, "the end of row 2");
}

static void set_number(struct rows_head *head, int which)
{
    switch (which) {
    case 0:
        head->features = 1u << 20; /* no row is as long */
        head->row_bytes = 16 + 4 * head->features;
        break;
    case 1:
        head->features = (uint64_t)1 << 40;
        head->row_bytes = 16 + 4 * head->features;
        break;
    case 2:
        head->rows = (uint64_t)1 << 60;
        break;
    case 3:
        head->rows_at += 8;
        break;
    case 4:
        head->texts_at += 2; /* no whole number of floats */
        break;
    case 5:
        head->texts_at = head->rows_at;
        break;
    case 6:
        head->flags &= ~(uint32_t)ROWS_VARY;
        break;
    case 7:
        head->flags = (head->flags & ~(uint32_t)ROWS_VARY) | ROWS_LIMITED;
        break;
    case 8:
        head->dimensions = 1;
        break;
    case 9:
        head->texts_at += (uint64_t)1 << 30; /* a row of a gibibyte, past the file's end */
        head->file_bytes += (uint64_t)1 << 30;
        break;
    default:
        head->rows = 2;
        break;
    }
}

static void test_headers_that_cannot_be(void **state)
{
    (void)state;
    for (int which = 0; which <= 10; which++) {
        struct buffer bytes;
        struct rows_head head = make_bytes("any", &bytes);
        set_number(&head, which);
        seal(&bytes, head);
        refuse_bytes(&bytes, "");
    }
}

/* One byte of it at a time: it is refused, or was none of those that mean something. */
static void test_damage_is_found_wherever_it_is(void **state)
{
    struct buffer bytes;
    (void)state;
    struct rows_head head = make_bytes("9", &bytes);
    for (size_t at = 0; at < bytes.length; at++) {
        struct buffer copy = BUFFER_INIT(FILE_LIMIT_BYTES);
        assert_ok(buffer_add(&copy, bytes.data, bytes.length));
        copy.data[at] ^= 0x41;
        refuse_bytes(&copy, "");
    }
    for (size_t length = 0; length < bytes.length; length++) {
        struct buffer copy = BUFFER_INIT(FILE_LIMIT_BYTES);
        assert_ok(buffer_add(&copy, bytes.data, length));
        refuse_bytes(&copy, "");
    }
    assert_int_equal(head.features, 9);
    buffer_release(&bytes);
}

/* ---- a feed ------------------------------------------------------------- */

/* A batch is as wide as its longest row, or as the limit, and zeros stand behind the others. */
static void check_padding(const struct setting *setting, const struct feed_batch *batch,
                          const struct right *right)
{
    const struct store_info *info = store_info(setting->options.store);
    size_t longest = 0;
    for (size_t i = 0; i < batch->rows; i++) {
        size_t row = (size_t)batch->ids[i];
        assert_int_equal(batch->ids[i], fake_id(&setting->sampler, batch->first + (int64_t)i));
        assert_int_equal(batch->lengths[i], right->lengths[row]);
        assert_int_equal(batch->device_lengths[i], right->lengths[row]);
        longest = (size_t)batch->lengths[i] > longest ? (size_t)batch->lengths[i] : longest;
    }
    assert_int_equal(batch->width, info->lengths == LENGTHS_LIMITED ? info->features : longest);
    for (size_t i = 0; i < batch->rows * batch->width; i++) {
        size_t row = (size_t)batch->ids[i / batch->width], column = i % batch->width;
        float value = column < LONGEST ? right->values[row][column] : 0;
        if (info->element == ELEMENT_F32)
            assert_true(((const float *)batch->features)[i] == value);
        else if (setting->options.expand)
            assert_true(((const float *)batch->features)[i] == value * setting->options.scale);
        else
            assert_int_equal(((const uint8_t *)batch->features)[i], value);
    }
}

static void check_feed(const struct right *right, const char *uri, uint64_t *seed)
{
    struct setting setting;
    const struct feed_batch *batch;
    size_t rows = 0;
    struct store *store = open_as(uri);
    setting_init(&setting, (int64_t)right->rows, 1 + dice_below(seed, 40));
    setting.options.store = store;
    setting.options.trust_labels = true;
    setting.options.expand = dice_below(seed, 2);
    setting.options.fetchers = 1 + dice_below(seed, 3);
    setting.options.cache_bytes = dice_below(seed, 2) ? (size_t)1 << 24 : 0;
    setting.options.labels = dice_below(seed, 2) ? LABELS_I64 : LABELS_ONE_HOT_F32;
    setting_open(&setting);
    while (!feed_next(setting.feed, NULL, &batch)) {
        check_padding(&setting, batch, right);
        rows += batch->rows;
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    assert_int_equal(rows, right->rows);
    setting_close(&setting);
    store_close(store);
}

static void test_batches_are_padded(void **state)
{
    static struct right right;
    uint64_t seed = unit_seed() + 7;
    (void)state;
    for (int round = 0; round < 12; round++) {
        struct shape shape = {.texts = true, .floats = round % 2, .rows = 200};
        write_shape("vary.csv", &shape, &seed, &right);
        check_feed(&right, uri_of("csv", "vary.csv", "longest=any"), &seed);
        check_feed(&right, uri_of("csv", "vary.csv", "longest=512"), &seed);
        struct store *csv = open_as(uri_of("csv", "vary.csv", "longest=any"));
        import_rows(csv, path_of("vary.rows"));
        store_close(csv);
        check_feed(&right, path_of("vary.rows"), &seed);
    }
}

/* How many pages are there of those that `bytes` from there on lie in. */
static size_t count_pages(const void *memory, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), there = 0, count = bytes / page;
    unsigned char *pages = calloc(count, 1);
    assert_non_null(pages);
    assert_int_equal(mincore((void *)((uintptr_t)memory & ~(page - 1)), bytes, pages), 0);
    for (size_t i = 0; i < count; i++)
        there += pages[i] & 1;
    free(pages);
    return there;
}

static void write_one_long_row(const char *name, int rows, int length)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs("label\n", file);
    for (int i = 0; i < rows; i++) {
        fprintf(file, "%d", i % 3);
        for (int j = 0; j < (i == rows - 1 ? length : i % 4); j++)
            fputs(",7", file);
        fputs("\n", file);
    }
    assert_int_equal(fclose(file), 0);
}

enum { LONG_ROWS = 400, LONG_SIZE = 20, LONG = 4 << 20 };

/* A batch without the long row lies on `most` pages. */
static void check_pages(struct store *store, size_t most)
{
    const struct feed_batch *batch = NULL;
    struct setting setting;
    setting_init(&setting, LONG_ROWS, LONG_SIZE);
    setting.options.store = store;
    setting.options.trust_labels = true;
    setting_open(&setting);
    for (int i = 0; i < LONG_ROWS / LONG_SIZE && (!batch || batch->width != LONG); i++) {
        if (batch)
            assert_ok(feed_put(setting.feed, NULL, batch));
        assert_ok(feed_next(setting.feed, NULL, &batch));
        if (batch->width <= 3)
            assert_in_range(count_pages(batch->features, (size_t)(LONG_SIZE - 1) * LONG), 0, most);
    }
    assert_int_equal(batch->width, LONG);
    assert_ok(feed_put(setting.feed, NULL, batch));
    setting_close(&setting);
}

/* Beside one row of 4 MB none has more than 3 bytes: batches take memory by the rows that they have,
 * and by no more where these lengths are at hand. */
static void test_one_long_row_does_not_cost_the_others(void **state)
{
    struct store *cache = NULL;
    (void)state;
    write_one_long_row("long.csv", LONG_ROWS, LONG);
    struct store *csv = open_as(uri_of("csv", "long.csv", "longest=any"));
    check_pages(csv, 2 * LONG_SIZE);
    import_rows(csv, path_of("long.rows"));
    struct store *row_file = open_as(path_of("long.rows"));
    check_pages(row_file, 1);
    store_close(row_file);
    assert_ok(row_cache_open(csv, UINT64_MAX, 0, &cache));
    assert_ok(row_cache_wait(cache));
    check_pages(cache, 1);
    store_close(cache);
    store_close(csv);
}

/* A row that is left out takes its length with it; one that is replaced has none. */
static void test_bad_rows_in_a_batch(void **state)
{
    const struct feed_batch *batch;
    struct setting setting;
    (void)state;
    for (int skip = 0; skip < 2; skip++) {
        struct store *store = NULL;
        assert_ok(open_csv("label\n1,2,3\n2,x,5,6,7,8\n3,9\n", "longest=any", &store));
        setting_init(&setting, 3, 3);
        setting.options.store = store;
        setting.options.trust_labels = true;
        setting.options.bad_rows = skip ? BAD_ROWS_SKIP : BAD_ROWS_REPLACE;
        setting_open(&setting);
        assert_ok(feed_next(setting.feed, NULL, &batch));
        assert_int_equal(batch->rows, skip ? 2 : 3);
        assert_int_equal(batch->width, 2);
        for (size_t i = 0; i < batch->rows; i++) {
            const uint8_t *row = (const uint8_t *)batch->features + i * 2;
            const int64_t lengths[] = {2, 0, 1};
            const uint8_t values[][2] = {{2, 3}, {0, 0}, {9, 0}};
            assert_int_equal(batch->lengths[i], lengths[batch->ids[i]]);
            assert_memory_equal(row, values[batch->ids[i]], 2);
        }
        assert_ok(feed_put(setting.feed, NULL, batch));
        setting_close(&setting);
        store_close(store);
    }
}

static void test_what_a_feed_does_not_do_with_them(void **state)
{
    const float mean = 1;
    struct setting setting;
    struct store *store = NULL;
    (void)state;
    assert_ok(open_csv("label\n1,2,3\n2\n", "longest=any", &store));
    setting_init(&setting, 2, 2);
    setting.options.store = store;
    setting.options.sampler_url = "http://127.0.0.1:1";
    setting.options.expand = true;
    setting.options.moments = (struct feature_moments){.channels = 1, .mean = &mean};
    assert_fails(feed_open(&setting.options, &setting.feed), ERROR_USAGE, "are not normalized");
    setting.options.moments = (struct feature_moments){.channels = 0};
    setting.options.resident_bytes = 1 << 20;
    assert_fails(feed_open(&setting.options, &setting.feed), ERROR_USAGE,
                 "do not stay on the device");
    device_close(setting.device);
    store_close(store);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_every_store_gives_the_same_bytes, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_blobs_of_any_length, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_blobs_of_floats_of_any_length, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_blobs_of_integers_of_any_length, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_keys_alone_are_read_of_rows_of_any_length, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_row_files_with_one_limit_are_one_store, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_files_with_such_rows_are_one_store, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_limit_is_the_width, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_the_uri_of_a_row_file_says_how_long_rows_may_be,
                                    make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_what_is_refused_says_what_is_right, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_bad_row_has_no_length, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_ends_that_cannot_be, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_headers_that_cannot_be, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_damage_is_found_wherever_it_is, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_batches_are_padded, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_one_long_row_does_not_cost_the_others, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_bad_rows_in_a_batch, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_what_a_feed_does_not_do_with_them, make_folder,
                                    remove_folder),
};

UNIT_MAIN(tests)
