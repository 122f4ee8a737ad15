/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/column/feature_recipe: What missing values and text categories become, learnt from
 * one store and applied to others; with recipe_learner, cell_plan, exact_sum and median_search.
 */
#include "tests/unit/store_unit.h"

#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "loader/column/exact_sum.h"
#include "loader/column/feature_recipe.h"
#include "loader/column/median_search.h"
#include "loader/store/row_cache.h"

#define TRAIN                                             \
    "id,age,color,y,size\n1,10,red,a,1.5\n2,,blue,b,NA\n" \
    "3,30,red,a,2.5\n4,20,,b,3.5\n5,NaN,\"gre,en\",a,nan\n"

/* ---- figures ------------------------------------------------------------ */

static float any_float(uint64_t *seed)
{
    float value;
    do {
        uint32_t bits = (uint32_t)dice(seed);
        memcpy(&value, &bits, sizeof(value));
    } while (!isfinite(value));
    return value;
}

static void test_sums_do_not_depend_on_the_order(void **state)
{
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < 50; round++) {
        enum { COUNT = 200 };
        float values[COUNT];
        struct exact_sum all = {.pending = 0}, parts[2] = {{.pending = 0}, {.pending = 0}};
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = any_float(&seed);
            exact_sum_add(&all, values[i]);
        }
        for (size_t i = COUNT; i-- > 0;)
            exact_sum_add(&parts[i % 2], values[i]);
        exact_sum_merge(&parts[0], &parts[1]);
        assert_true(exact_sum_value(&all) == exact_sum_value(&parts[0]));
        for (size_t i = 0; i < COUNT; i++)
            exact_sum_add(&all, -values[i]);
        assert_true(exact_sum_value(&all) == 0);
    }
    struct exact_sum sum = {.pending = 0};
    for (int i = 0; i < 10; i++)
        exact_sum_add(&sum, -0x1p-149f);
    exact_sum_add(&sum, 3e38f);
    exact_sum_add(&sum, -3e38f);
    assert_true(exact_sum_value(&sum) == -10 * 0x1p-149);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void test_medians_are_those_of_sorted_values(void **state)
{
    uint64_t seed = 9;
    (void)state;
    for (size_t count = 1; count < 60; count++) {
        float values[60];
        struct median_search search = {.rank = {0, 0}};
        for (size_t i = 0; i < count; i++)
            values[i] = count % 3 ? any_float(&seed) : (float)dice_below(&seed, 5) - 2;
        for (unsigned round = 0; round < MEDIAN_ROUNDS; round++) {
            struct median_search halves[2] = {0}; /* the second one begins behind the first */
            for (size_t half = 0; half < 2; half++) {
                median_search_begin(&halves[half], &search);
                for (size_t i = half; i < count; i += 2)
                    median_search_add(&halves[half], round, values[i]);
                median_search_merge(&search, &halves[half]);
            }
            median_search_next(&search, round, count);
        }
        qsort(values, count, sizeof(*values), by_value);
        double low = (double)values[(count - 1) / 2], high = (double)values[count / 2];
        assert_true(median_search_value(&search) == (float)(low + (high - low) / 2));
    }
}

/* ---- rows --------------------------------------------------------------- */

static void check_rows(struct store *store, const char *const names[], const float *features)
{
    const struct store_info *info = store_info(store);
    struct rows rows;
    size_t count = 0;
    assert_int_equal(info->element, ELEMENT_F32);
    assert_non_null(info->recipe);
    for (; names[count]; count++)
        assert_string_equal(info->feature_names[count], names[count]);
    assert_int_equal(info->features, count);
    rows_scan(&rows, store, SCAN_FEATURES);
    for (size_t i = 0; i < rows.count * count; i++)
        assert_true(feature_of(&rows, info, i / count, i % count) == (double)features[i]);
    check_fetch(store, &rows, 3);
    rows_release(&rows);
}

static const char *const names[] = {"age", "color=blue", "color=gre,en", "color=red", "size", NULL};

static void check_train(struct store *store, float age, float size)
{
    const float features[] = {10, 0,    0,  1, 1.5f, age, 1,    0,   0, size, 30, 0,   0,
                              1,  2.5f, 20, 0, 0,    0,   3.5f, age, 0, 1,    0,  size};
    check_rows(store, names, features);
}

static void make_table(const char *name)
{
    sqlite3 *database = NULL;
    unlink(path_of(name));
    assert_int_equal(sqlite3_open(path_of(name), &database), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(database,
                     "CREATE TABLE t(id INTEGER PRIMARY KEY, age, color, y, size);"
                     "INSERT INTO t VALUES(5,'NaN','gre,en','a',NULL),(1,10,'red','a',1.5),"
                     "(2,NULL,'blue','b','NA'),(3,30,'red','a',2.5),(4,20.0,'','b','3.5')",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(database);
}

static void test_the_same_rows_whatever_keeps_them(void **state)
{
    static const struct {
        const char *query;
        float age, size;
    } cases[] = {{"label=y&missing=mean&onehot=*", 20, 2.5f},
                 {"label=y&missing=median&onehot=color", 20, 2.5f},
                 {"label=y&missing=zero&onehot=COLOR", 0, 0},
                 {"label=y&missing=-2.5&onehot=*", -2.5f, -2.5f}};
    (void)state;
    write_file("train.csv", TRAIN);
    make_table("train.db");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct store *store, *cache;
        assert_ok(store_open(uri_of("csv", "train.csv", cases[i].query), false, &store));
        check_train(store, cases[i].age, cases[i].size);
        import_store(store, path_of("made.db"));
        import_rows(store, path_of("made.rows"));
        store_close(store);
        assert_ok(store_open(uri_of("sqlite", "train.db", cases[i].query), false, &store));
        check_train(store, cases[i].age, cases[i].size);
        store_close(store);
        assert_ok(store_open(uri_of("sqlite", "made.db", ""), false, &store));
        check_train(store, cases[i].age, cases[i].size);
        store_close(store);
        assert_ok(store_open(uri_of("rows", "made.rows", ""), false, &store));
        check_train(store, cases[i].age, cases[i].size);
        store_close(store);
        assert_ok(store_open_with(uri_of("csv", "train.csv", cases[i].query),
                                  &(struct store_open_options){.cache.bytes = 1 << 20}, &store));
        assert_ok(row_cache_open(store, 1 << 20, 0, &cache));
        check_train(cache, cases[i].age, cases[i].size);
        store_close(cache);
        store_close(store);
    }
}

/* Learnt from both, as if they were one. */
static void test_several_files(void **state)
{
    static const char *const expected[] = {"a", "c=x", "c=y", NULL};
    static const float features[] = {1, 1, 0, 4, 0, 1, 7, 1, 0};
    struct store *store;
    (void)state;
    write_file("part-1.csv", "label,a,c\nk,1,x\nk,,y\n");
    write_file("part-2.csv", "label,a,c\nk,7,x\n");
    assert_ok(store_open(uri_of("csv", "part-*.csv", "missing=mean&onehot=c"), false, &store));
    check_rows(store, expected, features);
    store_close(store);
    write_file("part-2.csv", "label,b,c\nk,7,x\n");
    assert_fails(store_open(uri_of("csv", "part-*.csv", "missing=mean"), false, &store),
                 ERROR_INPUT, "there is no column of features \"a\"");
}

/* A frame needs no features. */
static void test_keys_only(void **state)
{
    struct store *store;
    (void)state;
    write_file("train.csv", TRAIN);
    assert_ok(
        store_open(uri_of("csv", "train.csv", "label=y&onehot=*&missing=mean"), true, &store));
    assert_null(store_info(store)->recipe);
    store_close(store);
}

static struct feature_recipe *learn(const char *query)
{
    struct store *store;
    write_file("train.csv", TRAIN);
    assert_ok(store_open(uri_of("csv", "train.csv", query), false, &store));
    struct feature_recipe *recipe = store_info(store)->recipe;
    feature_recipe_keep(recipe);
    store_close(store);
    return recipe;
}

/* Whose features are called as its columns are. */
static void test_numbers_alone(void **state)
{
    static const char *const expected[] = {"a", "b", NULL};
    static const float features[] = {1, 2, 3, 2, 2, 2};
    struct store *store;
    (void)state;
    assert_ok(open_csv("a,b\n1,2\n3,\n,2\n", "missing=mean", &store));
    check_rows(store, expected, features);
    store_close(store);
}

static enum error open_other(const char *text, const char *query, struct feature_recipe *recipe,
                             struct store **ret_store)
{
    write_file("other.csv", text);
    return store_open_with(uri_of("csv", "other.csv", query),
                           &(struct store_open_options){.recipe = recipe}, ret_store);
}

static void test_a_recipe_is_applied_to_another_table(void **state)
{
    static const float features[] = {20, 0, 0, 0, 9, 1, 1, 0, 0, 2.5f};
    static const char other[] = "size,more,color,y,AGE\n9,zz,mauve,a,\nnull,zz,blue,b,1\n";
    struct feature_recipe *recipe = learn("label=y&missing=mean&onehot=*");
    struct store *store;
    (void)state;
    assert_ok(open_other(other, "label=y", recipe, &store));
    check_rows(store, names, features);
    store_close(store);
    assert_ok(open_other(other, "label=y&missing=mean&onehot=*", recipe, &store));
    check_rows(store, names, features);
    store_close(store);
    assert_fails(open_other(other, "label=y&missing=median&onehot=*", recipe, &store),
                 ERROR_CONFLICT, "missing=median&onehot=*");
    assert_ok(open_other(other, "label=y&unseen=bad", recipe, &store));
    assert_int_equal(store_info(store)->bad_rows, 1);
    assert_non_null(
        strstr(store_info(store)->first_bad_row, "other.csv, line 2: column \"color\""));
    assert_non_null(strstr(store_info(store)->first_bad_row, "\"gre,en\""));
    store_close(store);
    assert_fails(open_other("age,color\n1,red\n", "", recipe, &store), ERROR_INPUT, "\"size\"");
    assert_ok(open_other("age,color=blue,\"color=gre,en\",color=red,size\n1,0,0,1,2\n", "", recipe,
                         &store)); /* as pull writes it */
    assert_int_equal(store_info(store)->features, 5);
    assert_null(store_info(store)->recipe);
    store_close(store);
    feature_recipe_free(recipe);
}

/* Rows that are kept in a folder are those of the recipe that is asked for. */
static void test_recipes_have_caches_of_their_own(void **state)
{
    static const float features[2][10] = {{20, 0, 0, 0, 9, 1, 1, 0, 0, 2.5f},
                                          {-1, 0, 0, 0, 9, 1, 1, 0, 0, -1}};
    static const char other[] = "size,color,y,age\n9,mauve,a,\nnull,blue,b,1\n";
    struct feature_recipe *recipes[] = {learn("label=y&missing=mean&onehot=*"),
                                        learn("label=y&missing=-1&onehot=*")};
    struct timespec settled = {.tv_sec = 1, .tv_nsec = 0};
    struct timespec times[2] = {settled, settled};
    char kept[512];
    (void)state;
    snprintf(kept, sizeof(kept), "%s", path_of("kept"));
    write_file("other.csv", other);
    assert_int_equal(utimensat(AT_FDCWD, path_of("other.csv"), times, 0), 0);
    for (int round = 0; round < 6; round++) {
        struct store_open_options options = {.cache = {.folder = kept},
                                             .recipe = recipes[round % 2]};
        struct store *store;
        assert_ok(store_open_with(uri_of("csv", "other.csv", "label=y"), &options, &store));
        check_rows(store, names, features[round % 2]);
        store_close(store);
    }
    feature_recipe_free(recipes[0]);
    feature_recipe_free(recipes[1]);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *text, *query;
        enum error code;
        const char *says;
    } cases[] = {
        {TRAIN, "label=y&missing=often", ERROR_USAGE, "mean, median, zero or a number"},
        {TRAIN, "label=y&missing=1e39", ERROR_USAGE, "mean, median, zero or a number"},
        {TRAIN, "label=y&onehot=", ERROR_USAGE, "names no column"},
        {TRAIN, "label=y&onehot=colour", ERROR_USAGE, "onehot=\"colour\" names no column"},
        {TRAIN, "label=y&onehot=y", ERROR_USAGE, "onehot=\"y\" names no column"},
        {TRAIN, "label=y&unseen=skip", ERROR_USAGE, "must be zeros or bad"},
        {"a,b\n1,\n2,NA\n", "missing=mean", ERROR_INPUT, "column \"b\" has no value"},
        {"a,b\n1,1e308\n2,NA\n", "missing=mean", ERROR_INPUT,
         "column \"b\" has no value that fits a 32-bit float, so that there is no mean"},
        {"a,b\n1,\n2,NA\n", "missing=zero&onehot=b", ERROR_INPUT, "column \"b\" has no value"},
        {"a,a=x\nx,1\n", "onehot=a", ERROR_INPUT, "two features would be called \"a=x\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refuse_csv(cases[i].text, cases[i].query, cases[i].code, cases[i].says);
}

static void test_too_many_categories(void **state)
{
    struct store *store;
    (void)state;
    for (int more = 0; more < 2; more++) {
        FILE *file = fopen(path_of("many.csv"), "w");
        fputs("n,c\n", file);
        for (int i = 0; i < RECIPE_CATEGORIES_LIMIT + more; i++)
            fprintf(file, "%d,t%d\n", i * 7, i);
        for (int i = 0; i < 3000; i++) /* numbers are no categories, however many they are */
            fprintf(file, "%d.5,t1\n", i);
        fclose(file);
        enum error error = store_open(uri_of("csv", "many.csv", "onehot=*"), false, &store);
        if (more)
            assert_fails(error, ERROR_INPUT, "column \"c\" has more than 1000 different texts");
        else
            assert_int_equal(store_info(store)->features, 1 + RECIPE_CATEGORIES_LIMIT);
        if (!error)
            store_close(store);
    }
    FILE *file = fopen(path_of("many.csv"), "w");
    fprintf(file, "c\n%0*d x\n", RECIPE_CATEGORY_BYTES_LIMIT, 1);
    fclose(file);
    assert_fails(store_open(uri_of("csv", "many.csv", "onehot=c"), false, &store), ERROR_INPUT,
                 "more than 256 bytes");
}

/* Without missing=, and beside what is none: bad rows that name their column. */
static void test_bad_rows(void **state)
{
    struct store *store;
    (void)state;
    assert_ok(open_csv("c,n\nx,1\n,2\nx,NA\nx,1e99\n\xff,1\n", "onehot=c", &store));
    assert_int_equal(store_info(store)->bad_rows, 4);
    assert_non_null(strstr(store_info(store)->first_bad_row, "line 3: column \"c\" is empty"));
    assert_int_equal(store_info(store)->features, 2);
    store_close(store);
    assert_ok(open_csv("n\n1\nNA\n", "", &store));
    assert_non_null(strstr(store_info(store)->first_bad_row, "missing=mean in the URI"));
    store_close(store);
    assert_ok(open_csv("n,c\n1,x\nNA,x\n2,y\n", "onehot=*", &store)); /* n is of numbers still */
    assert_int_equal(store_info(store)->features, 3);
    store_close(store);
}

static void test_what_import_made_needs_no_recipe(void **state)
{
    struct store *store;
    (void)state;
    write_file("train.csv", TRAIN);
    assert_ok(
        store_open(uri_of("csv", "train.csv", "label=y&missing=mean&onehot=*"), false, &store));
    import_store(store, path_of("made.db"));
    store_close(store);
    assert_fails(store_open(uri_of("sqlite", "made.db", "missing=mean"), false, &store),
                 ERROR_USAGE, "import made this table");
    struct feature_recipe *recipe = learn("label=y&missing=mean&onehot=*");
    assert_ok(store_open_with(uri_of("sqlite", "made.db", ""),
                              &(struct store_open_options){.recipe = recipe}, &store));
    assert_true(feature_recipe_is_same(recipe, store_info(store)->recipe));
    store_close(store);
    feature_recipe_free(recipe);
}

/* ---- as JSON ------------------------------------------------------------ */

static void test_json(void **state)
{
    struct feature_recipe *recipe = learn("label=y&missing=mean&onehot=*&unseen=bad"), *again;
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    (void)state;
    assert_ok(feature_recipe_print(recipe, &text));
    assert_string_equal(
        text.data,
        "{\"missing\":\"mean\",\"onehot\":\"*\",\"unseen\":\"bad\",\"columns\":[{\"name\":"
        "\"age\",\"fill\":20},{\"name\":\"color\",\"categories\":[\"blue\",\"gre,en\","
        "\"red\"]},{\"name\":\"size\",\"fill\":2.5}]}");
    assert_ok(feature_recipe_parse(text.data, "it", &again));
    assert_true(feature_recipe_is_same(recipe, again));
    feature_recipe_free(again);
    buffer_release(&text);
    feature_recipe_free(recipe);
}

static bool are_same(const char *one, const char *other)
{
    struct feature_recipe *recipes[2] = {NULL, NULL};
    assert_ok(feature_recipe_parse(one, "one", &recipes[0]));
    assert_ok(feature_recipe_parse(other, "the other", &recipes[1]));
    bool same = feature_recipe_is_same(recipes[0], recipes[1]);
    for (size_t i = 0; i < 2; i++)
        feature_recipe_free(recipes[i]);
    return same;
}

/* What becomes of a row counts, not how it was requested. */
static void test_requests_that_come_to_the_same(void **state)
{
#define RECIPE(request, fill, category)                                                       \
    "{" request "\"unseen\":\"zeros\",\"columns\":[{\"name\":\"a\"" fill "},{\"name\":\"b\"," \
    "\"categories\":[\"" category "\"]}]}"
    static const char all[] = RECIPE("\"missing\":\"mean\",\"onehot\":\"*\",", ",\"fill\":0", "x");
    (void)state;
    assert_true(
        are_same(all, RECIPE("\"missing\":\"mean\",\"onehot\":\"b\",", ",\"fill\":0", "x")));
    assert_true(are_same(all, RECIPE("\"missing\":\"0\",\"onehot\":\"*\",", ",\"fill\":0", "x")));
    assert_false(
        are_same(all, RECIPE("\"missing\":\"mean\",\"onehot\":\"*\",", ",\"fill\":1", "x")));
    assert_false(
        are_same(all, RECIPE("\"missing\":\"mean\",\"onehot\":\"*\",", ",\"fill\":0", "y")));
    assert_false(are_same(all, RECIPE("\"onehot\":\"*\",", "", "x"))); /* what is missing is bad */
}

static void test_json_that_is_none(void **state)
{
#define COLUMNS(columns) "{\"unseen\":\"zeros\",\"columns\":[" columns "]}"
    static const char *const cases[][2] = {
        {"[]", "not an object"},
        {"{}", "\"unseen\""},
        {"{\"unseen\":\"zeros\"}", "columns"},
        {COLUMNS(""), "0 columns"},
        {COLUMNS("1"), "no \"name\""},
        {COLUMNS("{\"name\":\"a\",\"fill\":1}"), "without \"missing\""},
        {COLUMNS("{\"name\":\"a\"},{\"name\":\"a\"}"), "two columns are called \"a\""},
        {COLUMNS("{\"name\":\"a\",\"categories\":[]}"), "0 categories"},
        {COLUMNS("{\"name\":\"a\",\"categories\":[\"b\",\"a\"]}"), "in their order"},
        {COLUMNS("{\"name\":\"a\",\"categories\":[\"\"]}"), "in their order"},
        {COLUMNS("{\"name\":\"a\",\"categories\":[1]}"), "in their order"},
        {COLUMNS("{\"name\":\"a\",\"categories\":[\"b\"]},{\"name\":\"a=b\"}"), "would be called"},
        {"{\"missing\":\"mean\",\"unseen\":\"bad\",\"columns\":[{\"name\":\"a\"}]}", "\"fill\""},
        {"{\"missing\":\"mean\",\"unseen\":\"bad\",\"columns\":[{\"name\":\"a\",\"fill\":1e39}]}",
         "\"fill\""},
        {"{\"missing\":\"x\",\"unseen\":\"bad\",\"columns\":[{\"name\":\"a\"}]}", "\"missing\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct feature_recipe *recipe = NULL;
        assert_fails(feature_recipe_parse(cases[i][0], "it", &recipe), ERROR_INPUT, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_do_not_depend_on_the_order),
        cmocka_unit_test(test_medians_are_those_of_sorted_values),
        cmocka_unit_test(test_the_same_rows_whatever_keeps_them),
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_keys_only),
        cmocka_unit_test(test_numbers_alone),
        cmocka_unit_test(test_a_recipe_is_applied_to_another_table),
        cmocka_unit_test(test_recipes_have_caches_of_their_own),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_too_many_categories),
        cmocka_unit_test(test_bad_rows),
        cmocka_unit_test(test_what_import_made_needs_no_recipe),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_requests_that_come_to_the_same),
        cmocka_unit_test(test_json_that_is_none),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
