/* SPDX-License-Identifier: MIT */
/* Covers loader/sqlite/store_sqlite: with sqlite_fork. */
#include "tests/unit/store_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/remote_disk.h"
#include "loader/column/feature_recipe.h"
#include "loader/store/row_cache.h"

static sqlite3 *open_database(const char *name)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(path_of(name), &database), SQLITE_OK);
    return database;
}

/* Runs SQL on FOLDER/NAME, which is made when it is not there. */
static void run_sql(const char *name, const char *sql)
{
    sqlite3 *database = open_database(name);
    char *message = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(database);
}

static enum error open_sqlite(const char *name, const char *query, struct store **ret_store)
{
    return store_open(uri_of("sqlite", name, query), false, ret_store);
}

static void refuse_sqlite(const char *name, const char *query, enum error code, const char *says)
{
    struct store *store = NULL;
    assert_fails(open_sqlite(name, query, &store), code, says);
}

/* Makes rows.db out of SQL and refuses it. */
static void refuse_table(const char *sql, const char *query, enum error code, const char *says)
{
    unlink(path_of("rows.db"));
    run_sql("rows.db", sql);
    refuse_sqlite("rows.db", query, code, says);
}

/* One line per row: "id:label:f0,f1". */
static void check_rows(const char *name, const char *query, const char *expected)
{
    struct store *store = NULL;
    struct rows rows;
    char text[4096] = "";
    size_t length = 0;
    assert_ok(open_sqlite(name, query, &store));
    rows_scan(&rows, store, SCAN_FEATURES);
    for (size_t i = 0; i < rows.count; i++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length,
                                   "%lld:%s:", (long long)rows.ids[i], rows.labels[i]);
        for (size_t k = 0; k < store_info(store)->features; k++)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%.*g", k ? "," : "",
                                       store_info(store)->element == ELEMENT_I32 ? 10 : 6,
                                       feature_of(&rows, store_info(store), i, k));
        length += (size_t)snprintf(text + length, sizeof(text) - length, "\n");
    }
    assert_string_equal(text, expected);
    check_fetch(store, &rows, 1);
    rows_release(&rows);
    store_close(store);
}

static void check_table(const char *sql, const char *query, const char *expected)
{
    unlink(path_of("rows.db"));
    run_sql("rows.db", sql);
    check_rows("rows.db", query, expected);
}

/* ---- tables of others --------------------------------------------------- */

static void test_columns_of_numbers(void **state)
{
    (void)state;
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, a, b);"
                "INSERT INTO t VALUES (5,'x',1,2), (3,'y',0,255)",
                "", "3:y:0,255\n5:x:1,2\n");
    check_table("CREATE TABLE t(k INTEGER PRIMARY KEY, label INTEGER, a REAL);"
                "INSERT INTO t VALUES (1,7,0.5), (2,8,-1)",
                "", "1:7:0.5\n2:8:-1\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label REAL, a TEXT);"
                "INSERT INTO t VALUES (1,5,'17'), (2,0.1,'3')",
                "", "1:5:17\n2:0.1:3\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, kind TEXT, a, b);"
                "INSERT INTO t VALUES (1,'q',1,2)",
                "label=kind&features=b", "1:q:2\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, A, B); INSERT INTO t VALUES (1,1,2)",
                "features=b&label=a", "1:1:2\n");
    check_table("CREATE TABLE t(ID INTEGER PRIMARY KEY, Label, A); INSERT INTO t VALUES (1,'x',2)",
                "", "1:x:2\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label); INSERT INTO t VALUES (0,'a')", "",
                "0:a:\n");
    check_table("CREATE TABLE t(year INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (5,7), (6,9)",
                "features=year&label=a", "5:7:5\n6:9:6\n");
    check_rows("rows.db", "label=year", "5:5:7\n6:6:9\n");
    check_rows("rows.db", "", "5::7\n6::9\n");
}

/* Features that a model was trained with are asked for by their names. */
static void test_a_primary_key_that_is_a_feature(void **state)
{
    static const char *const columns[] = {"Year", "a"};
    struct store *store = NULL;
    (void)state;
    run_sql("rows.db", "CREATE TABLE t(year INTEGER PRIMARY KEY, a, b);"
                       "INSERT INTO t VALUES (5,7,8), (6,9,1)");
    struct store_open_options options = {.columns = columns, .column_count = 2};
    assert_ok(store_open_with(uri_of("sqlite", "rows.db", ""), &options, &store));
    assert_int_equal(store_info(store)->features, 2);
    assert_string_equal(store_info(store)->feature_names[0], "year");
    assert_string_equal(store_info(store)->id_column, "year");
    store_close(store);
    options.column_count = 1;
    options.columns = &columns[1];
    assert_ok(store_open_with(uri_of("sqlite", "rows.db", ""), &options, &store));
    assert_int_equal(store_info(store)->features, 1);
    store_close(store);
}

static void test_generated_columns(void **state)
{
    (void)state;
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, a INT,"
                "b INT GENERATED ALWAYS AS (a + 1), c INT AS (a * 2) STORED);"
                "INSERT INTO t VALUES (5,'x',1), (3,'y',0)",
                "", "3:y:0,1,0\n5:x:1,2,2\n");
    check_table("CREATE TABLE t(n INTEGER PRIMARY KEY, a INT, id INT AS (n * 10),"
                "label TEXT AS ('k' || a) STORED); INSERT INTO t VALUES (2,7), (1,8)",
                "", "10:k8:1,8\n20:k7:2,7\n");
    check_table("CREATE TABLE t(n INT PRIMARY KEY, a INT, code INT AS (n * 10) STORED UNIQUE,"
                "kind TEXT AS ('k' || a)); INSERT INTO t VALUES (2,7), (1,8)",
                "id=code&label=kind&features=a", "10:k8:8\n20:k7:7\n");
    check_table("CREATE TABLE u(id INTEGER PRIMARY KEY, a INT, b INT AS (a + 1));"
                "INSERT INTO u VALUES (1, 2); CREATE VIEW t AS SELECT * FROM u",
                "table=t", "1::2,3\n");
}

static void test_ids_of_several_kinds(void **state)
{
    (void)state;
    check_table("CREATE TABLE t(id INT UNIQUE, a); INSERT INTO t VALUES (9,1), (4,2)", "",
                "4::2\n9::1\n");
    check_table("CREATE TABLE t(a); INSERT INTO t VALUES (10), (20)", "id=rowid", "1::10\n2::20\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, a) WITHOUT ROWID;"
                "INSERT INTO t VALUES (7,1), (2,3)",
                "", "2::3\n7::1\n");
    check_table("CREATE TABLE t(n, a); CREATE UNIQUE INDEX i ON t(n);"
                "INSERT INTO t VALUES (7,1), (2,3)",
                "id=n", "2::3\n7::1\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, a);"
                "INSERT INTO t VALUES (9223372036854775807,1), (0,3)",
                "", "0::3\n9223372036854775807::1\n");
    refuse_table("CREATE TABLE t(a, b); INSERT INTO t VALUES (1,1)", "", ERROR_INPUT, "id=rowid");
    refuse_table("CREATE TABLE t(a TEXT PRIMARY KEY, b) WITHOUT ROWID;"
                 "INSERT INTO t VALUES ('x',1)",
                 "id=rowid", ERROR_INPUT, "table \"t\" has no row numbers (it is WITHOUT ROWID)");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (-1,1)", "",
                 ERROR_INPUT, "id -1: column \"id\" is \"-1\"; an id from 0 to");
    refuse_table("CREATE TABLE t(id UNIQUE, a); INSERT INTO t VALUES ('x',1)", "", ERROR_INPUT,
                 "table \"t\": column \"id\" holds the text \"x\"; integers");
    refuse_table("CREATE TABLE t(id INT UNIQUE, a); INSERT INTO t VALUES (NULL,1), (2,2)", "",
                 ERROR_INPUT, "column \"id\" is NULL; an id from 0");
    check_table("CREATE TABLE t(id INT, a); CREATE UNIQUE INDEX i ON t(id) WHERE a > 0;"
                "INSERT INTO t VALUES (4,1), (1,1)",
                "", "1::1\n4::1\n");
    refuse_table("CREATE TABLE t(id TEXT UNIQUE, a); INSERT INTO t VALUES ('5',1)", "", ERROR_INPUT,
                 "column \"id\" holds the text \"5\"; integers");
}

/* The scan that the sampler makes. */
static void check_keys(const char *name, const char *query, const int64_t *ids, size_t count)
{
    struct store *store = NULL;
    struct rows rows;
    assert_ok(store_open(uri_of("sqlite", name, query), true, &store));
    rows_scan(&rows, store, SCAN_KEYS);
    assert_int_equal(rows.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rows.ids[i], ids[i]);
    rows_release(&rows);
    store_close(store);
}

static enum error pass_over(void *context, const struct store_block *block)
{
    (void)context;
    (void)block;
    return OK;
}

static void test_ids_that_are_no_key(void **state)
{
    static const int64_t ids[] = {0, 3, 5, INT64_MAX};
    struct store *store = NULL;
    (void)state;
    check_table(
        "CREATE TABLE t(id INTEGER, label, a, b); INSERT INTO t VALUES (5,'x',1,2), "
        "(9223372036854775807,'z',5,6), (3,'y',0,255), (0,'x',7,8); DELETE FROM t WHERE id = 3;"
        "INSERT INTO t VALUES (3,'y',0,255)",
        "", "0:x:7,8\n3:y:0,255\n5:x:1,2\n9223372036854775807:z:5,6\n");
    check_keys("rows.db", "", ids, 4);
    check_table("CREATE TABLE t(id INTEGER, a); INSERT INTO t VALUES (12,1), (11,2), (10,3)", "",
                "10::3\n11::2\n12::1\n");
    check_table("CREATE TABLE t(id INTEGER, v BLOB); INSERT INTO t VALUES (2,x'0102'), (1,x'0304')",
                "", "1::3,4\n2::1,2\n");
    check_table("CREATE TABLE t(id INTEGER, rowid, oid); INSERT INTO t VALUES (2,3,4), (1,5,6)", "",
                "1::5,6\n2::3,4\n");
    check_table("CREATE TABLE \"a $#@ b\"(\"@\" INTEGER, \"#\", \"$\");"
                "INSERT INTO \"a $#@ b\" VALUES (2,3,4), (1,5,6)",
                "id=@", "1::5,6\n2::3,4\n");
    refuse_table("CREATE TABLE t(id INTEGER, rowid, oid, _rowid_); INSERT INTO t VALUES (1,2,3,4)",
                 "", ERROR_INPUT, "cannot be found by \"id\" at once");
    refuse_table("CREATE TABLE t(id INTEGER, b, a, PRIMARY KEY (a, b)) WITHOUT ROWID;"
                 "INSERT INTO t VALUES (1,2,3)",
                 "", ERROR_INPUT, "it must have a unique index");
    refuse_table("CREATE TABLE t(id INTEGER, a); INSERT INTO t VALUES (4,1), (1,1), (4,2)", "",
                 ERROR_INPUT, "has the id 4 twice, in the rows with the rowid 1 and 3");
    assert_ok(store_open(uri_of("sqlite", "rows.db", ""), true, &store));
    assert_fails(store_scan(store, SCAN_KEYS, pass_over, NULL), ERROR_INPUT,
                 "has the id 4 twice, in the rows with the rowid 1 and 3");
    store_close(store);
    refuse_table("CREATE TABLE t(id INTEGER, a);"
                 "INSERT INTO t VALUES (9223372036854775807,1), (9223372036854775807,2)",
                 "", ERROR_INPUT, "twice, in the rows with the rowid 1 and 2");
    refuse_table("CREATE TABLE t(id INTEGER, a); INSERT INTO t VALUES (1,1), (NULL,2)", "",
                 ERROR_INPUT, "column \"id\" is NULL");
    refuse_table("CREATE TABLE t(id TEXT, a); INSERT INTO t VALUES ('5',1)", "", ERROR_INPUT,
                 "column \"id\" holds the text \"5\"; integers");
    check_table("CREATE TABLE t(id INTEGER, a); INSERT INTO t VALUES (1,1), (2,'?')",
                "features=", "1::\n2::\n");
}

/* More rows than a block and than SQLite's sorter likes to keep, in no order. */
static void test_many_ids_that_are_no_key(void **state)
{
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    run_sql("many.db",
            "CREATE TABLE t(id INTEGER, label INTEGER, a, b, c);"
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)"
            "INSERT INTO t SELECT (i * 7919) % 20011 * 3, i % 10, i % 256, i % 7, 1 FROM n");
    assert_ok(open_sqlite("many.db", "", &store));
    assert_int_equal(store_info(store)->rows, 20000);
    rows_scan(&rows, store, SCAN_FEATURES);
    assert_int_equal(rows.count, 20000);
    for (size_t i = 1; i < rows.count; i++)
        assert_true(rows.ids[i] > rows.ids[i - 1]);
    check_fetch(store, &rows, 3);
    rows_release(&rows);
    store_close(store);
}

static void test_views(void **state)
{
    static const int64_t ids[] = {1, 3};
    (void)state;
    run_sql("view.db",
            "CREATE TABLE raw(id INTEGER PRIMARY KEY, label, a, split);"
            "INSERT INTO raw VALUES (3,'x',1,'train'), (2,'y',2,'test'), (1,'z',3,'train');"
            "CREATE VIEW samples AS SELECT id, label, a FROM raw WHERE split = 'train'");
    check_rows("view.db", "", "1:z:3\n3:x:1\n");
    check_rows("view.db", "table=Samples", "1:z:3\n3:x:1\n");
    check_rows("view.db", "table=raw&features=a", "1:z:3\n2:y:2\n3:x:1\n");
    check_keys("view.db", "", ids, 2);
    refuse_sqlite("view.db", "table=other", ERROR_INPUT, "it has \"raw\", \"samples\"");
    refuse_sqlite("view.db", "id=a", ERROR_INPUT, "\"samples\" is a view, and its rows cannot");
    refuse_sqlite("view.db", "id=rowid", ERROR_INPUT, "view \"samples\" has no row numbers; id=");
    refuse_table("CREATE TABLE raw(id INTEGER, a); INSERT INTO raw VALUES (1,2);"
                 "CREATE VIEW samples AS SELECT * FROM raw",
                 "", ERROR_INPUT, "CREATE TABLE t AS SELECT * FROM \"samples\"");
    refuse_table("CREATE TABLE raw(id INTEGER, a); INSERT INTO raw VALUES (1,2);"
                 "CREATE VIEW \"q\"\"t\" AS SELECT * FROM raw",
                 "table=q\"t", ERROR_INPUT, "CREATE TABLE t AS SELECT * FROM \"q\"\"t\")");
    refuse_table(
        "CREATE TABLE \"q\"\"t\"(k INTEGER, \"i\"\"d\" INTEGER, PRIMARY KEY (k, \"i\"\"d\")) "
        "WITHOUT ROWID; INSERT INTO \"q\"\"t\" VALUES (1,2)",
        "id=i\"d", ERROR_INPUT, "CREATE UNIQUE INDEX i ON \"q\"\"t\"(\"i\"\"d\")");
    refuse_table("CREATE TABLE raw(id INTEGER PRIMARY KEY, a); INSERT INTO raw VALUES (1,2);"
                 "CREATE VIEW samples AS SELECT id + 1 AS id, a FROM raw",
                 "", ERROR_INPUT, "is a view, and its rows cannot be found");
    refuse_table(
        "CREATE TABLE raw(id INTEGER PRIMARY KEY, a); INSERT INTO raw VALUES (1,2), (2,3);"
        "CREATE VIEW samples AS SELECT one.id AS id, other.a AS a FROM raw AS one JOIN raw "
        "AS other ON other.id IN (1,2)",
        "", ERROR_INPUT, "view \"samples\" has the id 1 twice");
    check_table("CREATE TABLE raw(id INTEGER PRIMARY KEY, a); INSERT INTO raw VALUES (1,2), (2,3);"
                "CREATE TABLE more(id INTEGER PRIMARY KEY, b); INSERT INTO more VALUES (2,4);"
                "CREATE VIEW samples AS SELECT * FROM raw JOIN more USING (id)",
                "", "2::3,4\n");
    refuse_table("CREATE VIEW v AS SELECT 1 AS id", "", ERROR_INPUT,
                 "table= must name one of \"v\"");
    refuse_table("CREATE VIEW samples AS WITH RECURSIVE n(id) AS (SELECT 0 UNION ALL SELECT id + 1 "
                 "FROM n) SELECT id, 1 AS a FROM n",
                 "", ERROR_INPUT, "is a view, and its rows cannot be found");
    check_table("CREATE TABLE raw(id INTEGER PRIMARY KEY, a); INSERT INTO raw VALUES (1,2);"
                "CREATE VIEW report AS SELECT count(*) FROM raw",
                "", "1::2\n");
    refuse_table(
        "CREATE TABLE raw(id INTEGER PRIMARY KEY, a); CREATE VIEW samples AS SELECT * FROM "
        "raw; DROP TABLE raw",
        "", ERROR_INPUT, "rows.db");
}

static void test_blobs_of_others(void **state)
{
    (void)state;
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, pixels BLOB);"
                "INSERT INTO t VALUES (1,3,x'0001ff'), (2,4,x'050607')",
                "", "1:3:0,1,255\n2:4:5,6,7\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB);"
                "INSERT INTO t VALUES (1,3,x'0000803f000000c0')",
                "element=f32", "1:3:1,-2\n");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);"
                 "INSERT INTO t VALUES (1,x'000080')",
                 "element=f32", ERROR_INPUT, "not 32-bit floats");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB);"
                 "INSERT INTO t VALUES (1,3,x'0000803f000000c0'), (2,3,x'0000000000004040')",
                 "", ERROR_INPUT,
                 "look like 2 32-bit floats, and may be 8 integers from 0 to 255: element=f32 or");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB);"
                "INSERT INTO t VALUES (1,3,x'0000803f000000c0')",
                "element=u8", "1:3:0,0,128,63,0,0,0,192\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB);"
                "INSERT INTO t VALUES (1,3,x'0000803f'), (2,3,x'01020304')",
                "", "1:3:0,0,128,63\n2:3:1,2,3,4\n");
    refuse_sqlite("rows.db", "element=f64", ERROR_USAGE, "must be u8, f32 or i32");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1,2,3)",
                 "element=u8", ERROR_USAGE,
                 "table \"t\" has no single column of them; of numbers element=i32 alone");
}

/* As in PostgreSQL and Parquet, the first value decides, and not that there is none. */
static void test_blobs_behind_null(void **state)
{
    static const int64_t ids[] = {1, 2, 3};
    static const enum row_status expected[] = {ROW_BAD, ROW_OK, ROW_OK};
    struct store *store = NULL;
    struct reader *reader = NULL;
    enum row_status status[3];
    uint8_t features[6];
    (void)state;
    run_sql("null.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, label, pixels BLOB);"
                       "INSERT INTO t VALUES (1,3,NULL), (2,4,x'0001'), (3,4,x'0506')");
    assert_ok(open_sqlite("null.db", "", &store));
    assert_int_equal(store_info(store)->bad_rows, 1);
    assert_int_equal(store_info(store)->features, 2);
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, ids, 3, features, 2, NULL, status));
    assert_memory_equal(status, expected, sizeof(status));
    assert_memory_equal(features, "\0\0\0\1\5\6", 6);
    reader_close(reader);
    store_close(store);
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB);"
                 "INSERT INTO t VALUES (1,3,NULL), (2,3,x'0000803f000000c0')",
                 "", ERROR_INPUT, "look like 2 32-bit floats");
}

/* They are passed over in a list, whatever the URI says of their features. */
static void test_tables_without_rows(void **state)
{
    static const char *const queries[] = {"",
                                          "element=f32",
                                          "element=i32",
                                          "element=u8",
                                          "longest=any&element=u8",
                                          "longest=7&element=f32"};
    static const char table[] = "CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB)";
    (void)state;
    run_sql("full.db", table);
    run_sql("full.db", "INSERT INTO t VALUES (1,3,x'0000803f000000c0'), (2,3,x'0000803f00000040')");
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        struct store *store = NULL;
        char list[2048];
        refuse_table(table, queries[i], ERROR_INPUT, "table \"t\" has no rows");
        if (!queries[i][0])
            continue; /* the other one's bytes may be floats */
        snprintf(list, sizeof(list), "%s\n%s", uri_of("sqlite", "rows.db", queries[i]),
                 uri_of("sqlite", "full.db", queries[i]));
        assert_ok(store_open(list, false, &store));
        assert_int_equal(store_info(store)->rows, 2);
        store_close(store);
    }
}

static enum error measure_block(void *context, const struct store_block *block)
{
    size_t *most = context;
    *most = block->rows > *most ? block->rows : *most;
    return OK;
}

/* A thousand pictures at a time would take a gigabyte. */
static void test_blocks_of_large_rows_are_small(void **state)
{
    struct store *store = NULL;
    size_t most = 0;
    (void)state;
    run_sql("large.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); WITH RECURSIVE n(i) AS "
                        "(SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19) "
                        "INSERT INTO t SELECT i, zeroblob(1000000) FROM n");
    assert_ok(open_sqlite("large.db", "", &store));
    assert_ok(store_scan(store, SCAN_FEATURES, measure_block, &most));
    assert_in_range(most, 1, 4);
    store_close(store);
}

static void test_integers_of_32_bits(void **state)
{
    struct store *store = NULL;
    (void)state;
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, a, b TEXT);"
                "INSERT INTO t VALUES (1,3,2147483647,'16777217'), (2,4,-2147483648.0,'-1')",
                "element=i32", "1:3:2147483647,16777217\n2:4:-2147483648,-1\n");
    check_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB);"
                "INSERT INTO t VALUES (1,3,x'01000001ffffff7f'), (2,3,x'00000080ffffffff')",
                "element=i32", "1:3:16777217,2147483647\n2:3:-2147483648,-1\n");
    refuse_sqlite("rows.db", "element=i32&missing=mean", ERROR_USAGE,
                  "missing= or onehot= with element=i32");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);"
                 "INSERT INTO t VALUES (1,x'000080')",
                 "element=i32", ERROR_INPUT, "not 32-bit integers");
    refuse_table(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);"
        "INSERT INTO t VALUES (1,x'0a010000ffff000000000000'), (2,x'9f860100070000005a020000')",
        "", ERROR_INPUT,
        "BLOBs of 12 bytes, which look like 3 32-bit integers, and may be 12 integers from "
        "0 to 255: element=i32 or element=u8");
    static const char *const bad[] = {"2147483648", "-2147483649", "1.5", "'x'", "NULL"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char sql[256];
        snprintf(sql, sizeof(sql),
                 "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (7,1,%s)",
                 bad[i]);
        unlink(path_of("rows.db"));
        run_sql("rows.db", sql);
        assert_ok(open_sqlite("rows.db", "element=i32", &store));
        assert_int_equal(store_info(store)->element, ELEMENT_I32);
        assert_int_equal(store_info(store)->bad_rows, 1);
        const char *says = store_info(store)->first_bad_row;
        assert_non_null(strstr(says, "id 7: column \"b\" is "));
        assert_string_equal(
            strstr(says, "; an integer"),
            "; an integer from -2147483648 to 2147483647 (element=i32) belongs there");
        store_close(store);
    }
}

/* As a CSV file's: no number makes no row. */
static void test_blobs_that_are_no_numbers(void **state)
{
    static const int64_t ids[] = {1, 2, 3};
    static const enum row_status expected[] = {ROW_OK, ROW_BAD, ROW_BAD};
    struct store *store = NULL;
    struct reader *reader = NULL;
    enum row_status status[3];
    float features[3];
    (void)state;
    run_sql("nan.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, label, v BLOB);"
            "INSERT INTO t VALUES (1,3,x'0000803f'), (2,4,x'0000c07f'), (3,4,x'000080ff')");
    assert_ok(open_sqlite("nan.db", "element=f32", &store));
    assert_int_equal(store_info(store)->bad_rows, 2);
    assert_non_null(strstr(store_info(store)->first_bad_row, "a finite number (element 0 is not)"));
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, ids, 3, features, 4, NULL, status));
    assert_memory_equal(status, expected, sizeof(status));
    reader_close(reader);
    store_close(store);
}

/* Longer or shorter than the first one, or text of its length: no features are made of it. */
static void test_blobs_of_another_length(void **state)
{
    static const int64_t ids[] = {1, 2, 3, 4, 5};
    static const enum row_status expected[] = {ROW_OK, ROW_BAD, ROW_BAD, ROW_BAD, ROW_OK};
    struct store *store = NULL;
    struct reader *reader = NULL;
    enum row_status status[5];
    uint8_t features[15];
    (void)state;
    run_sql("lengths.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, label, pixels BLOB);"
                          "INSERT INTO t VALUES (1,3,x'0001ff'), (2,4,x'05060708'), (3,4,x'0506'),"
                          " (4,5,'abc'), (5,6,x'090a0b')");
    assert_ok(open_sqlite("lengths.db", "", &store));
    assert_int_equal(store_info(store)->bad_rows, 3);
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, ids, 5, features, 3, NULL, status));
    assert_memory_equal(status, expected, sizeof(status));
    assert_memory_equal(features, "\0\x01\xff\0\0\0\0\0\0\0\0\0\x09\x0a\x0b", 15);
    reader_close(reader);
    store_close(store);
}

static void test_bad_rows(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {3, 1, 2, 8, 4};
    enum row_status status[5];
    uint8_t features[10];
    double labels[5];
    (void)state;
    run_sql("rows.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, label, a, b);"
                       "INSERT INTO t VALUES (1,7,1,2), (2,7,'x',2), (3,7,1,NULL), (4,7,3,4)");
    assert_ok(open_sqlite("rows.db", "", &store));
    assert_int_equal(store_info(store)->bad_rows, 2);
    assert_non_null(strstr(store_info(store)->first_bad_row,
                           "rows.db, table \"t\", id 2: column \"a\" is \"x\"; a number"));
    assert_non_null(strstr(store_info(store)->first_bad_row, "onehot=A,B"));
    assert_ok(reader_open(store, &reader));
    memset(features, 9, sizeof(features));
    assert_ok(reader_fetch(reader, ids, 5, features, 2, labels, status));
    assert_memory_equal(features, "\0\0\x01\x02\0\0\0\0\x03\x04", 10);
    assert_int_equal(status[0], ROW_BAD);
    assert_int_equal(status[1], ROW_OK);
    assert_int_equal(status[2], ROW_BAD);
    assert_int_equal(status[3], ROW_MISSING);
    assert_int_equal(status[4], ROW_OK);
    assert_non_null(strstr(error_message(), "id 3: column \"b\" is NULL"));
    assert_non_null(strstr(error_message(), "missing=mean in the URI"));
    assert_ok(reader_fetch(reader, ids + 3, 1, features, 2, NULL, status));
    assert_non_null(strstr(error_message(), "no row with the id 8"));
    reader_close(reader);
    struct rows rows;
    rows_scan(&rows, store, SCAN_FEATURES | SCAN_BAD_ROWS);
    assert_int_equal(rows.status[1], ROW_BAD);
    check_fetch(store, &rows, 2);
    rows_release(&rows);
    store_close(store);
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, a);"
                 "INSERT INTO t VALUES (1,7,1), (2,NULL,2)",
                 "", ERROR_INPUT, "id 2: column \"label\" is NULL; a label belongs there");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, a);"
                 "INSERT INTO t VALUES (1,7,1), (2,'',2)",
                 "", ERROR_INPUT, "column \"label\"");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, label, a);"
                 "INSERT INTO t VALUES (1,CAST(x'610062' AS TEXT),2)",
                 "", ERROR_INPUT, "column \"label\" is \"a?b\"; UTF-8 text without NUL");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, w, a); INSERT INTO t VALUES (1,-7,1)",
                 "weight=w", ERROR_INPUT, "a weight");
}

/* ---- several ids -------------------------------------------------------- */

#define NUMBERS                                                                                   \
    "WITH RECURSIVE n(i) AS (SELECT 7 UNION ALL SELECT i + 1 FROM n WHERE i < 3006) INSERT INTO " \
    "t "

static bool has_run(struct store *store, int64_t *ret_first)
{
    struct reader *reader = NULL;
    assert_ok(reader_open(store, &reader));
    bool is_run = reader_has_run(reader, ret_first);
    reader_close(reader);
    return is_run;
}

/* As one by one: rows, bad ones, repeated and missing ones, whose ids are `apart`. */
static void check_ids(struct store *store, const struct rows *rows, int64_t apart)
{
    enum { COUNT = 60 };
    struct reader *reader = NULL;
    int64_t ids[COUNT];
    uint8_t features[COUNT * 3];
    double labels[COUNT];
    enum row_status status[COUNT];
    assert_ok(reader_open(store, &reader));
    for (int64_t first = -20; first < 60; first += 10) {
        for (int i = 0; i < COUNT; i++)
            ids[i] = first + (i * 7) % COUNT * apart - i / 50 * apart; /* some twice */
        assert_ok(reader_fetch(reader, ids, COUNT, features, 3, labels, status));
        for (int i = 0; i < COUNT; i++) {
            size_t row = (size_t)(ids[i] - 7);
            assert_int_equal(status[i], ids[i] < 7 ? ROW_MISSING : rows->status[row]);
            assert_memory_equal(features + 3 * i,
                                ids[i] < 7 ? (const uint8_t *)"\0\0" : rows->features + 3 * row, 3);
            assert_true(labels[i] == (ids[i] < 7 ? 0 : rows->values[row]));
        }
    }
    reader_close(reader);
}

static void test_consecutive_ids(void **state)
{
    struct store *store = NULL, *cache = NULL;
    struct rows rows;
    int64_t first = -1;
    (void)state;
    run_sql("rows.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, label, a, b, c);" NUMBERS
                       "SELECT i, i % 10, i % 251, i % 13, CASE i WHEN 40 THEN 'x' ELSE 3 END "
                       "FROM n; CREATE VIEW v AS SELECT * FROM t");
    assert_ok(open_sqlite("rows.db", "table=t", &store));
    assert_true(has_run(store, &first));
    assert_int_equal(first, 7);
    rows_scan(&rows, store, SCAN_FEATURES | SCAN_BAD_ROWS);
    for (int64_t apart = 1; apart < 50; apart += 13)
        check_ids(store, &rows, apart);
    for (uint64_t part = 1; part <= 4; part *= 2) {
        assert_ok(row_cache_open(store, cache_bytes(store_info(store)) / part, 0, &cache));
        check_fetch(cache, &rows, part);
        assert_ok(row_cache_wait(cache));
        check_fetch(cache, &rows, part);
        store_close(cache);
    }
    rows_release(&rows);
    store_close(store);
    assert_ok(open_sqlite("rows.db", "table=v", &store));
    assert_false(has_run(store, &first));
    store_close(store);
    run_sql("rows.db", "DELETE FROM t WHERE id = 2000");
    assert_ok(open_sqlite("rows.db", "table=t", &store));
    assert_false(has_run(store, &first));
    store_close(store);
}

static void test_pages_of_every_size(void **state)
{
    (void)state;
    for (int bytes = 512; bytes <= 65536; bytes *= 2) {
        struct store *store = NULL;
        struct rows rows;
        char name[32], sql[800];
        snprintf(name, sizeof(name), "pages-%d.db", bytes);
        snprintf(sql, sizeof(sql),
                 "PRAGMA page_size=%d; CREATE TABLE t(id INTEGER PRIMARY KEY, label, a, b, c, "
                 "d);" NUMBERS "SELECT i, 1, i %% 251, 2, 3, zeroblob(i * 7 %% 1400) FROM n",
                 bytes);
        run_sql(name, sql);
        assert_ok(open_sqlite(name, "features=a,b,c", &store));
        rows_scan(&rows, store, SCAN_FEATURES);
        check_ids(store, &rows, 40);
        rows_release(&rows);
        store_close(store);
    }
}

/* ---- which table -------------------------------------------------------- */

static void test_tables_are_chosen(void **state)
{
    (void)state;
    run_sql("two.db",
            "CREATE TABLE samples(id INTEGER PRIMARY KEY, a);"
            "CREATE TABLE \"odd \"\"name\"(id INTEGER PRIMARY KEY, \"b c\");"
            "INSERT INTO samples VALUES (1,1); INSERT INTO \"odd \"\"name\" VALUES (2,2)");
    check_rows("two.db", "", "1::1\n");
    check_rows("two.db", "table=SAMPLES", "1::1\n");
    check_rows("two.db", "table=odd%20%22name", "2::2\n");
    refuse_sqlite("two.db", "table=other", ERROR_INPUT, "no table \"other\"; it has \"odd");
    refuse_sqlite("two.db", "label=b", ERROR_USAGE, "label=\"b\" names no column");
    refuse_sqlite("two.db", "tables=samples", ERROR_USAGE, "did you mean table?");
    run_sql("other.db", "CREATE TABLE a(id INTEGER PRIMARY KEY, x);"
                        "CREATE TABLE b(id INTEGER PRIMARY KEY, x);");
    refuse_sqlite("other.db", "", ERROR_INPUT, "table= must name one of \"a\", \"b\"");
    run_sql("none.db", "CREATE TABLE a(x); DROP TABLE a;");
    refuse_sqlite("none.db", "", ERROR_INPUT, "has no tables");
    refuse_table("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "", ERROR_INPUT, "has no rows");
}

/* ---- files that are not right ------------------------------------------- */

static void make_small(const char *name)
{
    unlink(path_of(name));
    run_sql(name, "CREATE TABLE t(id INTEGER PRIMARY KEY, a); WITH RECURSIVE n(i) AS (SELECT 0 "
                  "UNION ALL SELECT i + 1 FROM n WHERE i < 999) INSERT INTO t SELECT i, i FROM n");
}

static void test_files_that_are_no_database(void **state)
{
    (void)state;
    refuse_sqlite("absent.db", "", ERROR_NOT_FOUND, "absent.db");
    refuse_sqlite(".", "", ERROR_INPUT, "folder");
    write_file("empty.db", "");
    refuse_sqlite("empty.db", "", ERROR_INPUT, "is empty");
    write_file("text.db", "label,a\n1,2\n");
    refuse_sqlite("text.db", "", ERROR_INPUT, "is not an SQLite 3 file");
    char bytes[300];
    memset(bytes, 'x', sizeof(bytes));
    write_bytes("noise.db", bytes, sizeof(bytes));
    refuse_sqlite("noise.db", "", ERROR_INPUT, "is not an SQLite 3 file");
    assert_fails(store_open("", false, &(struct store *){NULL}), ERROR_USAGE, "names nothing");
}

static void test_files_that_were_cut_off(void **state)
{
    (void)state;
    make_small("cut.db");
    assert_int_equal(truncate(path_of("cut.db"), 5000), 0);
    refuse_sqlite("cut.db", "", ERROR_INPUT, "cut.db is cut off: it has 5000 bytes of");
}

static void test_damaged_pages(void **state)
{
    struct store *store = NULL;
    char noise[4096];
    (void)state;
    make_small("damaged.db");
    memset(noise, 0xee, sizeof(noise));
    int descriptor = open(path_of("damaged.db"), O_WRONLY);
    assert_int_equal(pwrite(descriptor, noise, sizeof(noise), 4096), sizeof(noise));
    close(descriptor);
    assert_fails(open_sqlite("damaged.db", "", &store), ERROR_INPUT, "damaged.db");
}

/* Closed cleanly, a file has all that its log had. */
static void test_files_in_wal_mode(void **state)
{
    (void)state;
    struct store *store = NULL;
    make_small("wal.db");
    sqlite3 *writer = open_database("wal.db");
    assert_int_equal(sqlite3_exec(writer,
                                  "PRAGMA journal_mode=WAL; UPDATE t SET a = 7 WHERE id = 1", NULL,
                                  NULL, NULL),
                     SQLITE_OK);
    refuse_sqlite("wal.db", "", ERROR_INPUT, "wal.db-wal exists");
    sqlite3_close(writer);
    assert_ok(open_sqlite("wal.db", "", &store));
    store_close(store);
}

/* Would another process find the file locked for writing? */
static bool is_locked(const char *name)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = 0x40000001, .l_len = 1}; /* RESERVED */
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int descriptor = open(path_of(name), O_RDWR);
        _exit(descriptor < 0 || fcntl(descriptor, F_GETLK, &lock) ? 2 : lock.l_type != F_UNLCK);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 1;
}

/* The program around the library writes to the same file, and must stay the only one that does. */
static void test_locks_of_the_program_stay(void **state)
{
    (void)state;
    struct store *store = NULL;
    make_small("shared.db");
    sqlite3 *writer = open_database("shared.db");
    assert_int_equal(sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_true(is_locked("shared.db"));
    assert_ok(open_sqlite("shared.db", "", &store));
    assert_true(is_locked("shared.db"));
    store_close(store);
    assert_true(is_locked("shared.db"));
    assert_int_equal(sqlite3_exec(writer, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_false(is_locked("shared.db"));
    sqlite3_close(writer);
}

static void test_hot_journals(void **state)
{
    struct store *store = NULL;
    (void)state;
    make_small("hot.db");
    write_bytes("hot.db-journal", "\xd9\xd5\x05\xf9 and more", 12);
    refuse_sqlite("hot.db", "", ERROR_INPUT, "hot.db-journal exists");
    write_bytes("hot.db-journal", "\0\0\0\0\0\0\0\0", 8); /* journal_mode=PERSIST leaves that */
    assert_ok(open_sqlite("hot.db", "", &store));
    store_close(store);
    unlink(path_of("hot.db-journal"));
    write_file("hot.db-wal", "x");
    refuse_sqlite("hot.db", "", ERROR_INPUT, "hot.db-wal exists");
    unlink(path_of("hot.db-wal"));
    assert_int_equal(mkfifo(path_of("hot.db-journal"), 0600), 0);
    alarm(30); /* opening a pipe waits for its other end */
    refuse_sqlite("hot.db", "", ERROR_INPUT, "hot.db-journal is not a regular file, but a pipe");
    alarm(0);
}

static void test_file_names_with_signs(void **state)
{
    static const char *const names[] = {"a b.db", "100%25.db", "what?.db", "a#b.db", "\xc3\xa4.db"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct store *store = NULL;
        char path[512];
        make_small(names[i]);
        snprintf(path, sizeof(path), "%s", path_of(names[i]));
        assert_ok(store_open(path, false, &store));
        assert_int_equal(store_info(store)->rows, 1000);
        store_close(store);
    }
}

static void test_a_file_that_changed_is_refused(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t id = 5;
    float feature;
    double label;
    enum row_status status;
    (void)state;
    make_small("change.db");
    assert_ok(open_sqlite("change.db", "", &store));
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, &id, 1, &feature, 4, &label, &status));
    run_sql("change.db", "UPDATE t SET a = 77777");
    assert_fails(reader_fetch(reader, &id, 1, &feature, 4, &label, &status), ERROR_INPUT,
                 "change.db");
    reader_close(reader);
    assert_fails(reader_open(store, &reader), ERROR_INPUT, "since it was opened");
    store_close(store);
}

/* At the first block: what is read afterwards is of two states of the file. */
static enum error write_meanwhile(void *context, const struct store_block *block)
{
    bool *is_written = context;
    (void)block;
    if (!*is_written)
        run_sql("torn.db", "UPDATE t SET label = 'new'");
    *is_written = true;
    return OK;
}

static void test_a_file_that_changes_is_not_called_damaged(void **state)
{
    struct store *store = NULL;
    bool is_written = false;
    (void)state;
    run_sql("torn.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, label, a); WITH RECURSIVE n(i) AS "
                       "(SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
                       "INSERT INTO t SELECT i, 'old', i FROM n");
    assert_ok(open_sqlite("torn.db", "", &store));
    assert_fails(store_scan(store, SCAN_FEATURES, write_meanwhile, &is_written), ERROR_INPUT,
                 "since it was opened");
    store_close(store);
}

/* ---- imported files ----------------------------------------------------- */

static void import_text(const char *text, const char *query, const char *name)
{
    struct store *store = NULL;
    assert_ok(open_csv(text, query, &store));
    import_store(store, path_of(name));
    store_close(store);
}

static void test_import_keeps_everything(void **state)
{
    struct store *store = NULL;
    (void)state;
    import_text("id,label,w,g,a,b\n7,x,0.5,u,1,2\n3,y,2,v,0,255\n", "weight=w&group=g", "i.db");
    check_rows("i.db", "", "3:y:0,255\n7:x:1,2\n");
    assert_ok(open_sqlite("i.db", "", &store));
    const struct store_info *info = store_info(store);
    assert_int_equal(info->features, 2);
    assert_string_equal(info->feature_names[0], "a");
    assert_string_equal(info->feature_names[1], "b");
    assert_int_equal(info->label_kind, LABEL_TEXT);
    assert_int_equal(info->label_text_count, 2);
    assert_string_equal(info->weight_column, "weight");
    assert_string_equal(info->group_column, "group");
    assert_non_null(info->digest);
    struct rows rows;
    rows_scan(&rows, store, SCAN_KEYS);
    assert_true(rows.weights[0] == 2 && rows.weights[1] == 0.5);
    assert_string_equal(rows.groups[0], "v");
    assert_string_equal(rows.labels[1], "x");
    rows_release(&rows);
    store_close(store);
}

static void test_a_file_that_was_written_to_is_looked_at_again(void **state)
{
    struct store *store = NULL;
    (void)state;
    import_text("label,a,b\n1,2,3\n4,5,6\n", "", "i.db");
    assert_ok(open_sqlite("i.db", "", &store));
    assert_int_equal(store_info(store)->rows, 2);
    assert_true(store_info(store)->digest && !store_info(store)->digest_may_be_old);
    store_close(store);
    run_sql("i.db", "INSERT INTO samples VALUES (9, 'word', x'0708')");
    assert_ok(open_sqlite("i.db", "", &store));
    assert_int_equal(store_info(store)->rows, 3);
    assert_int_equal(store_info(store)->label_kind, LABEL_TEXT);
    assert_string_equal(store_info(store)->feature_names[1], "b");
    assert_true(store_info(store)->digest_may_be_old);
    store_close(store);
    check_rows("i.db", "", "0:1:2,3\n1:4:5,6\n9:word:7,8\n");
    run_sql("i.db", "UPDATE samples SET features = x'07' WHERE id = 9");
    assert_ok(open_sqlite("i.db", "", &store));
    assert_int_equal(store_info(store)->bad_rows, 1);
    assert_non_null(strstr(store_info(store)->first_bad_row,
                           "column \"features\" is a BLOB of 1 byte; a BLOB of 2 bytes"));
    store_close(store);
}

static void test_the_uri_may_ask_otherwise(void **state)
{
    struct store *store = NULL;
    (void)state;
    import_text("label,a,b\n1,0.5,3\n4,5,6\n", "", "i.db");
    check_rows("i.db", "label=", "0::0.5,3\n1::5,6\n");
    check_rows("i.db", "label=label&id=id&features=features", "0:1:0.5,3\n1:4:5,6\n");
    assert_ok(open_sqlite("i.db", "label=", &store));
    assert_int_equal(store_info(store)->label_kind, LABEL_NONE);
    store_close(store);
}

static void test_what_import_noted_is_checked(void **state)
{
    static const char *const damage[] = {
        "UPDATE tombola SET value = 'x' WHERE name = 'rows'",
        "UPDATE tombola SET value = 'u16' WHERE name = 'element'",
        "UPDATE tombola SET value = 'some' WHERE name = 'label_kind'",
        "UPDATE tombola SET value = '[1,2]' WHERE name = 'feature_names'",
        "UPDATE tombola SET value = '[\"a\"]' WHERE name = 'feature_names'",
        "UPDATE tombola SET value = 'short' WHERE name = 'digest'",
        "UPDATE tombola SET value = '-1' WHERE name = 'features'",
        "DELETE FROM tombola",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        import_text("label,a,b\n1,2,3\n", "", "i.db");
        run_sql("i.db", damage[i]);
        refuse_sqlite("i.db", "", ERROR_INPUT, "is damaged: its table tombola says");
    }
    import_text("label,a,b\n1,2,3\n", "", "i.db");
    run_sql("i.db", "UPDATE tombola SET value = 2 WHERE name = 'format'");
    refuse_sqlite("i.db", "", ERROR_INPUT, "says that \"lengths\" is");
    run_sql("i.db", "UPDATE tombola SET value = 3 WHERE name = 'format'");
    refuse_sqlite("i.db", "", ERROR_INPUT, "later version");
}

static void test_import_replaces_only_its_own(void **state)
{
    static const char refused[] = "is not a file that import made, or its table";
    const struct store_writer_ops *sqlite = &store_writer_sqlite_ops;
    (void)state;
    assert_ok(try_place(sqlite, path_of("absent.db"), "samples"));
    write_file("empty.db", "");
    assert_ok(try_place(sqlite, path_of("empty.db"), "samples"));
    import_text("label,a\n1,2\n", "", "i.db");
    assert_ok(try_place(sqlite, path_of("i.db"), "samples"));
    run_sql("i.db", "CREATE TABLE precious(x)");
    assert_fails(try_place(sqlite, path_of("i.db"), "samples"), ERROR_CONFLICT, refused);
    assert_fails(try_place(sqlite, path_of("i.db"), "PRECIOUS"), ERROR_CONFLICT, refused);
    assert_ok(try_place(sqlite, path_of("i.db"), "new"));
    write_file("text.db", "dear diary");
    assert_fails(try_place(sqlite, path_of("text.db"), "samples"), ERROR_CONFLICT, refused);
    make_small("other.db");
    assert_fails(try_place(sqlite, path_of("other.db"), "samples"), ERROR_CONFLICT, refused);
    assert_fails(try_place(sqlite, path_of("absent.db"), "SQLite_x"), ERROR_USAGE, "cannot be");
}

/* What `import` does, without --force unless `replace`. */
static enum error import_table(const char *text, const char *query, const char *name,
                               const char *table, bool replace, void (*meanwhile)(void))
{
    char path[512];
    struct uri uri = {.path = path};
    struct store *store = NULL;
    struct store_writer *writer = NULL;
    snprintf(path, sizeof(path), "%s", path_of(name));
    assert_ok(open_csv(text, query, &store));
    enum error error = store_writer_open(&store_writer_sqlite_ops, &uri, table, replace, &writer);
    if (!error)
        error = store_writer_begin(writer, store_info(store));
    if (!error)
        error = store_scan(store, SCAN_FEATURES, store_writer_add, writer);
    if (!error && meanwhile)
        meanwhile();
    if (!error)
        error = store_writer_commit(writer);
    store_writer_close(writer);
    store_close(store);
    return error;
}

/* It says nothing of those that are there, even of one that has its name. */
static void test_what_import_noted_of_a_dropped_table(void **state)
{
    struct store *store = NULL;
    (void)state;
    assert_ok(import_table("label,a,b\n1,2,3\n", "missing=zero", "i.db", "first", false, NULL));
    assert_ok(import_table("label,c,d\n1,2,3\n", "missing=mean", "i.db", "second", false, NULL));
    run_sql("i.db", "DROP TABLE second");
    assert_ok(open_sqlite("i.db", "", &store));
    assert_string_equal(store_info(store)->table, "first");
    assert_string_equal(store_info(store)->feature_names[0], "a");
    assert_int_equal(store_info(store)->recipe->request.missing, MISSING_NUMBER);
    store_close(store);
    run_sql("i.db", "DROP TABLE first; CREATE TABLE first(id INTEGER PRIMARY KEY, label, p, q);"
                    "INSERT INTO first VALUES (1,7,8,9)"); /* as pandas' to_sql() does */
    check_rows("i.db", "", "1:7:8,9\n");
    check_rows("i.db", "table=first", "1:7:8,9\n");
    assert_ok(open_sqlite("i.db", "", &store));
    assert_null(store_info(store)->recipe);
    assert_null(store_info(store)->digest);
    store_close(store);
    assert_ok(import_table("label,c\n1,2\n", "", "i.db", "second", false, NULL));
    check_rows("i.db", "", "0:1:2\n");
}

static void leave_journal(void)
{
    write_bytes("i.db-journal", "\xd9\xd5\x05\xf9 and more", 12);
}

static void add_row(void)
{
    run_sql("i.db", "INSERT INTO samples VALUES (99, 1, zeroblob(100000))");
}

static void write_diary(void)
{
    write_file("new.db", "dear diary");
}

/* While import worked, which may take hours. */
static void test_import_does_not_replace_what_others_wrote(void **state)
{
    static const char text[] = "label,a\n1,2\n";
    struct store *store = NULL;
    struct stat status;
    (void)state;
    import_text(text, "", "i.db");
    assert_fails(import_table("label,a\n3,4\n", "", "i.db", "samples", false, leave_journal),
                 ERROR_INPUT, "i.db-journal exists");
    unlink(path_of("i.db-journal"));
    check_rows("i.db", "", "0:1:2\n");
    assert_fails(import_table(text, "", "i.db", "samples", false, add_row), ERROR_CONFLICT,
                 "wrote to it meanwhile");
    assert_ok(open_sqlite("i.db", "", &store));
    assert_int_equal(store_info(store)->rows, 2);
    store_close(store);
    run_sql("i.db", "DELETE FROM samples WHERE id = 99");
    assert_ok(import_table(text, "", "i.db", "samples", true, add_row)); /* --force */
    check_rows("i.db", "", "0:1:2\n");
    assert_fails(import_table(text, "", "new.db", "samples", false, write_diary), ERROR_CONFLICT,
                 "wrote to it meanwhile");
    assert_int_equal(stat(path_of("new.db"), &status), 0);
    assert_int_equal(status.st_size, strlen("dear diary"));
}

/* SQLite takes a billion bytes. */
static void test_a_row_that_is_too_large_is_called_so(void **state)
{
    static const char *const names[] = {"a"};
    static const int64_t ids[] = {1};
    static const uint8_t features[] = {0}; /* nobody reads further */
    const struct store_info info = {
        .uri = "a source", .rows = 1, .features = 1000000001, .feature_names = names};
    const struct store_block block = {.rows = 1, .ids = ids, .features = features};
    struct uri uri = {.path = (char *)(uintptr_t)path_of("large.db")};
    struct store_writer *writer = NULL;
    (void)state;
    assert_ok(store_writer_open(&store_writer_sqlite_ops, &uri, "samples", false, &writer));
    assert_ok(store_writer_begin(writer, &info));
    assert_fails(writer->ops->add(writer, &block), ERROR_INPUT, "too big");
    store_writer_close(writer);
}

static void test_a_closed_writer_leaves_nothing(void **state)
{
    struct store *store = NULL;
    struct uri uri = {.path = (char *)(uintptr_t)path_of("gone.db")};
    struct store_writer *writer = NULL;
    char command[600];
    (void)state;
    assert_ok(open_csv("label,a\n1,2\n3,4\n", "", &store));
    assert_ok(store_writer_open(&store_writer_sqlite_ops, &uri, "samples", false, &writer));
    assert_ok(store_writer_begin(writer, store_info(store)));
    assert_ok(store_scan(store, SCAN_FEATURES, store_writer_add, writer));
    store_writer_close(writer);
    snprintf(command, sizeof(command), "ls '%s' | grep -q gone", folder);
    assert_int_not_equal(system(command), 0);
    assert_fails(try_import(&store_writer_sqlite_ops, store, path_of("no/such.db")),
                 ERROR_NOT_FOUND, "no/such.db");
    store_close(store);
}

/* ---- reads that fail ---------------------------------------------------- */

static int reads_until_failure = -1; /* -1: none fails */
static int failures_left;
static const char *changes_at_read; /* a file that is written to by the next read; NULL: none */
static const struct timespec another_time[2]; /* "now" may be that of the write before */
static const char *cut_at_read;               /* a file that the next read cuts off; NULL: none */
static int reads;

/* SQLite's pread. */
static ssize_t failing_pread(int descriptor, void *out, size_t bytes, off_t offset)
{
    if (reads_until_failure > 0) {
        reads_until_failure--;
    } else if (reads_until_failure == 0 && failures_left > 0) {
        failures_left--;
        errno = EIO;
        return -1;
    }
    reads++;
    if (cut_at_read && truncate(cut_at_read, 3 * 4096) == 0)
        cut_at_read = NULL;
    if (changes_at_read && utimensat(AT_FDCWD, changes_at_read, another_time, 0) == 0)
        changes_at_read = NULL;
    return syscall(SYS_pread64, descriptor, out, bytes, offset);
}

static void use_own_pread(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    vfs->xSetSystemCall(vfs, "pread", (sqlite3_syscall_ptr)failing_pread);
    vfs->xSetSystemCall(vfs, "pread64", (sqlite3_syscall_ptr)failing_pread);
}

static void fail_reads(int after, int count)
{
    use_own_pread();
    reads_until_failure = after;
    failures_left = count;
}

static void stop_failing(void)
{
    assert_int_equal(failures_left, 0); /* else nothing was tested */
    reads_until_failure = -1;
}

static void test_a_fetch_survives_reads_that_fail(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {900, 1, 500};
    float features[3];
    double labels[3];
    enum row_status status[3];
    (void)state;
    make_small("rows.db");
    assert_ok(open_sqlite("rows.db", "", &store));
    for (int after = 0; after < 3; after++) {
        assert_ok(reader_open(store, &reader));
        fail_reads(after, 2);
        assert_ok(reader_fetch(reader, ids, 3, features, sizeof(float), labels, status));
        stop_failing();
        assert_true(features[0] == 900 && features[1] == 1 && features[2] == 500);
        reader_close(reader);
    }
    store_close(store);
}

static void test_a_scan_goes_on_where_a_read_failed(void **state)
{
    struct store *store = NULL;
    (void)state;
    make_small("rows.db");
    assert_ok(open_sqlite("rows.db", "", &store));
    for (int after = 0; after < 6; after++) {
        struct rows rows;
        fail_reads(after, 1);
        rows_scan(&rows, store, SCAN_FEATURES);
        stop_failing();
        for (size_t i = 0; i < 1000; i++) {
            assert_int_equal(rows.ids[i], i);
            assert_true(feature_of(&rows, store_info(store), i, 0) == (double)i);
        }
        rows_release(&rows);
    }
    store_close(store);
}

/* A row may be of before and of after the change, half and half. */
static void test_a_file_that_changes_during_a_fetch_is_refused(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    char path[512];
    (void)state;
    make_small("rows.db");
    snprintf(path, sizeof(path), "%s", path_of("rows.db"));
    assert_ok(open_sqlite("rows.db", "", &store));
    assert_ok(reader_open(store, &reader));
    use_own_pread();
    changes_at_read = path;
    refuse_fetch(reader, 900, "was written to since it was opened");
    assert_null(changes_at_read);
    reader_close(reader);
    store_close(store);
}

/* Five rows a page. */
static void make_scattered(const char *name)
{
    unlink(path_of(name));
    run_sql(name, "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); WITH RECURSIVE n(i) AS (SELECT 0 "
                  "UNION ALL SELECT i + 1 FROM n WHERE i < 4999) INSERT INTO t SELECT i, i, "
                  "zeroblob(700) FROM n");
}

#define SCATTERED 300

/* Does the system make a second mapping of a mapped file (not under valgrind)? */
static bool can_map(void)
{
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *copy = mremap(page, 0, 4096, MREMAP_MAYMOVE);
    if (copy != MAP_FAILED)
        munmap(copy, 4096);
    munmap(page, 4096);
    return copy != MAP_FAILED;
}

static void fetch_scattered(struct reader *reader, enum error expected)
{
    int64_t ids[SCATTERED];
    float features[SCATTERED];
    double labels[SCATTERED];
    enum row_status status[SCATTERED];
    for (int i = 0; i < SCATTERED; i++)
        ids[i] = i * 7919 % 5000 / 2 * 2;
    assert_int_equal(reader_fetch(reader, ids, SCATTERED, features, sizeof(float), labels, status),
                     expected);
    for (int i = 0; i < SCATTERED && !expected; i++)
        assert_true(features[i] == (float)ids[i]);
}

static void check_scattered(const char *parameters)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    assert_ok(open_sqlite("rows.db", parameters, &store));
    assert_ok(reader_open(store, &reader));
    use_own_pread();
    reads = 0;
    fetch_scattered(reader, OK);
    assert_true(reads > 0);
    if (can_map() && !remote_disk_holds(path_of("rows.db")))
        assert_true(reads < SCATTERED / 10);
    reader_close(reader);
    store_close(store);
}

/* With one system call for many pages, where the file is on a local disk. */
static void test_scattered_rows_take_few_reads(void **state)
{
    (void)state;
    make_scattered("rows.db");
    check_scattered("features=a");
    check_scattered("features=a&id=rowid");
}

/* A mapped page that is no longer there would end the program if it were read. */
static void test_a_file_cut_off_during_a_fetch_is_refused(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    char path[512];
    (void)state;
    make_scattered("rows.db");
    snprintf(path, sizeof(path), "%s", path_of("rows.db"));
    assert_ok(open_sqlite("rows.db", "features=a", &store));
    assert_ok(reader_open(store, &reader));
    use_own_pread();
    cut_at_read = path;
    fetch_scattered(reader, ERROR_INPUT);
    assert_null(cut_at_read);
    assert_non_null(strstr(error_message(), "has changed since it was opened"));
    reader_close(reader);
    store_close(store);
}

static void test_a_replaced_file_is_not_read_after_a_failure(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    (void)state;
    make_small("rows.db");
    assert_ok(open_sqlite("rows.db", "", &store));
    assert_ok(reader_open(store, &reader));
    make_small("rows.db");
    fail_reads(0, 1);
    refuse_fetch(reader, 900, "id 900: ");
    stop_failing();
    assert_non_null(strstr(error_message(), "was replaced"));
    reader_close(reader);
    store_close(store);
}

static const char *renamed_at_open; /* to what is opened; NULL: nothing is */
static int opens_until_renamed;
static bool grows_at_open; /* what is opened */

/* SQLite's open. */
static int changing_open(const char *path, int flags, int mode)
{
    struct stat status;
    int descriptor = open(path, flags, mode);
    if (descriptor >= 0 && renamed_at_open && opens_until_renamed-- == 0 &&
        rename(renamed_at_open, path) == 0)
        renamed_at_open = NULL;
    if (descriptor >= 0 && grows_at_open && stat(path, &status) == 0)
        assert_int_equal(truncate(path, status.st_size + 4096), 0);
    return descriptor;
}

/* The description of one with the rows of another would be rows that never were; a second look finds
 * the new one, unless the file goes on changing. */
static void test_a_file_that_is_replaced_while_it_is_opened(void **state)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    char other[512];
    (void)state;
    snprintf(other, sizeof(other), "%s", path_of("other.db"));
    vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)changing_open);
    for (int opens = 0; opens < 2; opens++) { /* the first one is for its messages */
        make_small("rows.db");
        unlink(other);
        run_sql("other.db",
                "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (7,8)");
        opens_until_renamed = opens;
        renamed_at_open = other;
        check_rows("rows.db", "", "7::8\n");
        assert_null(renamed_at_open);
    }
    make_small("rows.db");
    grows_at_open = true;
    refuse_sqlite("rows.db", "", ERROR_INPUT, "rows.db has changed since it was opened");
    grows_at_open = false;
    vfs->xSetSystemCall(vfs, "open", NULL);
}

/* ---- processes that fork ------------------------------------------------ */

static _Atomic bool is_enough;

static enum error count_rows(const char *uri, int64_t *ret_rows)
{
    struct store *store = NULL;
    enum error error = store_open(uri, false, &store);
    *ret_rows = error ? 0 : store_info(store)->rows;
    store_close(store);
    return error;
}

static void *read_again_and_again(void *uri)
{
    int64_t rows;
    while (!is_enough && !count_rows(uri, &rows) && rows == 200)
        ;
    return is_enough ? uri : NULL;
}

/* GCC's AddressSanitizer does not hold its own locks over a fork: one child in many hangs in it.
 * Elsewhere none may, and a busy machine that gives it little time is no reason to say so. */
#ifdef __SANITIZE_ADDRESS__
enum { CHILDREN = 10, HANGING = 3, PATIENCE_S = 30 };
#else
enum { CHILDREN = 100, HANGING = 0, PATIENCE_S = 240 };
#endif

/* Threads are in the middle of SQLite, whose locks the child gets as they are. */
static void test_a_child_reads_too(void **state)
{
    enum { THREADS = 2 };
    pthread_t threads[THREADS];
    char uri[512];
    (void)state;
    run_sql("rows.db", "CREATE TABLE samples (id INTEGER PRIMARY KEY, label INT, a INT);"
                       "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 200) "
                       "INSERT INTO samples SELECT i, i % 3, i % 7 FROM n;");
    snprintf(uri, sizeof(uri), "%s", uri_of("sqlite", "rows.db", ""));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_again_and_again, uri), 0);
    int hanging = 0;
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            int64_t rows;
            alarm(PATIENCE_S); /* it hangs */
            _exit(!count_rows(uri, &rows) && rows == 200 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            hanging++;
        else
            assert_int_equal(status, 0);
    }
    assert_in_range(hanging, 0, HANGING);
    is_enough = true;
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_a_child_reads_too, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_fetch_survives_reads_that_fail, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_scan_goes_on_where_a_read_failed, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changes_during_a_fetch_is_refused, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_pages_of_every_size, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_scattered_rows_take_few_reads, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_cut_off_during_a_fetch_is_refused, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_replaced_file_is_not_read_after_a_failure, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_columns_of_numbers, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_primary_key_that_is_a_feature, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_generated_columns, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_ids_of_several_kinds, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_ids_that_are_no_key, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_many_ids_that_are_no_key, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_views, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_blobs_of_others, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_blobs_behind_null, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_tables_without_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_blocks_of_large_rows_are_small, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_what_import_noted_of_a_dropped_table, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_import_does_not_replace_what_others_wrote, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_row_that_is_too_large_is_called_so, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_is_replaced_while_it_is_opened, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_integers_of_32_bits, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_blobs_that_are_no_numbers, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_blobs_of_another_length, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_bad_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_consecutive_ids, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_tables_are_chosen, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_that_are_no_database, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_that_were_cut_off, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_damaged_pages, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_in_wal_mode, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_locks_of_the_program_stay, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_hot_journals, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_file_names_with_signs, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changed_is_refused, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changes_is_not_called_damaged, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_import_keeps_everything, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_was_written_to_is_looked_at_again, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_the_uri_may_ask_otherwise, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_what_import_noted_is_checked, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_import_replaces_only_its_own, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_closed_writer_leaves_nothing, make_folder,
                                    remove_folder),
};

UNIT_MAIN(tests)
