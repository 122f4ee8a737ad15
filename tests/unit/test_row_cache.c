/* SPDX-License-Identifier: MIT */
/* Covers loader/store/row_cache: with row_filler and run_fill. */
#include "tests/unit/fake_store.h"
#include "tests/unit/store_unit.h"

#include <pthread.h>

#include "common/clock.h"
#include "common/stop.h"
#include "loader/csv/store_csv.h"
#include "loader/store/row_cache.h"
#include "loader/store/row_filler.h"

static struct store *open_inner(const char *text, const char *query)
{
    struct store *store = NULL;
    assert_ok(open_csv(text, query, &store));
    return store;
}

/* Whole rows, of a cache that has all: where they lie, unless one of them is bad or differs in
 * length. */
static void check_find(struct store *cache, const struct rows *rows, uint64_t seed)
{
    enum { COUNT = 9 };
    const struct store_info *info = store_info(cache);
    struct reader *reader = NULL;
    struct store_memory memory;
    int64_t ids[COUNT];
    uint32_t places[COUNT];
    double labels[COUNT];
    size_t which[COUNT];
    assert_ok(reader_open(cache, &reader));
    for (int round = 0; round < 20; round++) {
        size_t count = 1 + dice_below(&seed, COUNT);
        bool is_there = info->lengths == LENGTHS_ALIKE;
        for (size_t i = 0; i < count; i++) {
            which[i] = dice_below(&seed, rows->count);
            ids[i] = rows->ids[which[i]];
            is_there &= rows->status[which[i]] == ROW_OK;
        }
        assert_int_equal(reader_find(reader, ids, count, places, labels, &memory), is_there);
        for (size_t i = 0; i < count && is_there; i++) {
            assert_true(labels[i] == rows->values[which[i]]);
            assert_memory_equal(memory.rows + places[i] * memory.stride_bytes,
                                rows->features + which[i] * rows->row_bytes, rows->row_bytes);
        }
        ids[count - 1] = INT64_MIN; /* nobody has it */
        assert_false(reader_find(reader, ids, count, places, labels, &memory));
    }
    reader_close(reader);
}

/* The rows that opening kept, and the facts it found, are those of two passes. */
static void check_kept(const char *query, uint64_t cache_bytes, bool kept)
{
    struct store *kept_store = NULL;
    struct store *plain = NULL;
    struct store *cache = NULL;
    struct rows rows;
    assert_ok(store_open(uri_of("csv", "rows.csv", query), false, &plain));
    assert_ok(store_open_with(uri_of("csv", "rows.csv", query),
                              &(struct store_open_options){.cache.bytes = cache_bytes},
                              &kept_store));
    const struct store_info *a = store_info(plain);
    const struct store_info *b = store_info(kept_store);
    assert_int_equal(((struct csv_store *)kept_store)->fill.slots.memory != NULL, kept);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->element, b->element);
    assert_int_equal(a->label_kind, b->label_kind);
    assert_int_equal(a->label_text_count, b->label_text_count);
    assert_int_equal(a->bad_rows, b->bad_rows);
    assert_int_equal(a->first_bad_row == NULL, b->first_bad_row == NULL);
    if (a->first_bad_row)
        assert_string_equal(a->first_bad_row, b->first_bad_row);
    for (size_t i = 0; i < a->label_text_count; i++)
        assert_string_equal(a->label_texts[i], b->label_texts[i]);
    assert_ok(row_cache_open(kept_store, UINT64_MAX, 0, &cache));
    assert_null(((struct csv_store *)kept_store)->fill.slots.memory);
    rows_scan(&rows, plain, SCAN_FEATURES | SCAN_BAD_ROWS);
    check_fetch(cache, &rows, 3);
    assert_ok(row_cache_wait(cache));
    check_find(cache, &rows, 3);
    check_fetch(kept_store, &rows, 4);
    store_close(cache);
    assert_ok(row_cache_open(kept_store, UINT64_MAX, 0, &cache)); /* a second one reads the file */
    check_fetch(cache, &rows, 5);
    rows_release(&rows);
    store_close(cache);
    store_close(kept_store);
    store_close(plain);
}

/* With room for the first rows alone, the last ones, or none but one. */
static void check_part(struct store *inner, const struct rows *rows)
{
    const struct store_info *info = store_info(inner);
    uint64_t all = cache_bytes(info), limits[] = {1, all / 2, all - 1};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct store *cache = NULL;
        assert_ok(row_cache_open(inner, limits[i], 0, &cache));
        check_fetch(cache, rows, 6 + i);
        assert_ok(row_cache_wait(cache));
        check_fetch(cache, rows, 9 + i);
        store_close(cache);
    }
}

static void check_cache(const char *text, const char *query)
{
    struct store *inner = open_inner(text, query);
    struct store *cache = NULL;
    struct rows rows;
    check_kept(query, UINT64_MAX, true);
    check_kept(query, cache_bytes(store_info(inner)), true);
    check_kept(query, cache_bytes(store_info(inner)) - 1, false);
    check_kept(query, 1, false);
    assert_ok(row_cache_open(inner, UINT64_MAX, 0, &cache));
    assert_string_equal(store_info(cache)->uri, store_info(inner)->uri);
    rows_scan(&rows, inner, SCAN_FEATURES | SCAN_BAD_ROWS);
    check_fetch(cache, &rows, 1); /* some by the store, some from memory */
    assert_ok(row_cache_wait(cache));
    check_fetch(cache, &rows, 2);
    check_find(cache, &rows, 2);
    check_part(inner, &rows);
    rows_release(&rows);
    rows_scan(&rows, cache, SCAN_FEATURES | SCAN_BAD_ROWS); /* its own scan is the inner one's */
    check_fetch(inner, &rows, 2);
    rows_release(&rows);
    store_close(cache);
    store_close(inner);
}

static void test_rows_are_those_of_the_store(void **state)
{
    (void)state;
    check_cache("label,a,b,c\n1,2,3,4\n5,6,7,8\n9,10,11,12\n", "");
    check_cache("label,a,b\nx,0.5,3\ny,-6,7\nx,1,1e-5\n", "");
    check_cache("id,label,a\n900,x,1\n5,y,2\n77,x,3\n", "");
    check_cache("id,label,a\n5,x,1\n6,y,2\n7,x,3\n", "");
    check_cache("id,label\n5,x\n900,y\n", "");
    check_cache("a\n5\n6\n", "");
}

static void test_pace(void **state)
{
    const int64_t ms = 1000000;
    (void)state;
    struct fill_pace pace = {.started_ns = 7, .moved_ns = 7 + 10 * ms, .rows = 0, .room = 100};
    assert_false(fill_pace_ends_soon(&pace, 7 + 10 * ms)); /* nothing is known yet */
    pace.rows = 10;
    assert_true(fill_pace_ends_soon(&pace, 7 + 10 * ms));  /* in 90 ms */
    assert_true(fill_pace_ends_soon(&pace, 7 + 55 * ms));  /* in 495 */
    assert_false(fill_pace_ends_soon(&pace, 7 + 56 * ms)); /* in 504 */
    pace.rows = 99;
    assert_true(fill_pace_ends_soon(&pace, 7 + 110 * ms));
    assert_false(fill_pace_ends_soon(&pace, 7 + 111 * ms)); /* it may hang */
}

/* ---- a store that a test can stop --------------------------------------- */

#define WIDE ((size_t)1 << 20)

struct gated {
    struct store store; /* first */
    int64_t gives;      /* rows of its scan */
    enum error ends;    /* as this */
    size_t fetched;     /* rows, by id */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t open, passed; /* so many rows may pass, and have */
    int64_t closed_at;    /* unless 0: rows from there on wait until the cache is closed */
};

static void fill_row(uint8_t *features, const struct store_info *info, int64_t row)
{
    memset(features, (int)(row % 251), info->features);
}

/* Eight rows a block. */
static enum error gated_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                             void *context)
{
    struct gated *gated = (struct gated *)store;
    uint8_t *features = malloc(8 * store->info.features);
    enum error error = OK;
    (void)columns;
    for (int64_t row = 0; row < gated->gives && !error; row += 8) {
        double values[8];
        int64_t ids[8], rows = gated->gives - row < 8 ? gated->gives - row : 8;
        for (int64_t i = 0; i < rows; i++) {
            fill_row(features + (size_t)i * store->info.features, &store->info, row + i);
            values[i] = (double)(row + i);
            ids[i] = 5 + 3 * (row + i);
        }
        pthread_mutex_lock(&gated->lock);
        while (gated->open < row + rows)
            pthread_cond_wait(&gated->changed, &gated->lock);
        pthread_mutex_unlock(&gated->lock);
        while (gated->closed_at && row >= gated->closed_at && !stop_requested())
            clock_sleep_ms(1);
        error = sink(context, &(struct store_block){.first_row = row,
                                                    .rows = (size_t)rows,
                                                    .ids = ids,
                                                    .label_values = values,
                                                    .features = features});
        pthread_mutex_lock(&gated->lock);
        gated->passed = row + rows;
        pthread_cond_broadcast(&gated->changed);
        pthread_mutex_unlock(&gated->lock);
    }
    free(features);
    if (!error && gated->ends)
        error = error_set(gated->ends, "the scan of a test ends so");
    return error;
}

static enum error gated_reader_open(struct store *store, struct reader **ret_reader)
{
    *ret_reader = calloc(1, sizeof(**ret_reader));
    (*ret_reader)->store = store;
    return OK;
}

static void gated_reader_close(struct reader *reader)
{
    free(reader);
}

static enum error gated_fetch(struct reader *reader, const int64_t *ids, size_t count,
                              void *features, size_t stride_bytes, double *labels,
                              enum row_status *status)
{
    struct gated *gated = (struct gated *)reader->store;
    bool has_ids = gated->store.info.id_column != NULL;
    for (size_t i = 0; i < count; i++) {
        int64_t row = has_ids ? (ids[i] - 5) / 3 : ids[i];
        fill_row((uint8_t *)features + i * stride_bytes, &gated->store.info, row);
        labels[i] = (double)row;
        status[i] = ROW_OK;
    }
    gated->fetched += count;
    return OK;
}

static const struct store_ops gated_ops = {.scheme = "gated",
                                           .scan = gated_scan,
                                           .reader_open = gated_reader_open,
                                           .reader_close = gated_reader_close,
                                           .fetch = gated_fetch};

static void gated_init(struct gated *gated, int64_t rows, size_t features, const char *id_column)
{
    static char uri[] = "gated:";
    *gated = (struct gated){.store = {.ops = &gated_ops,
                                      .info = {.uri = uri,
                                               .rows = rows,
                                               .features = features,
                                               .id_column = id_column,
                                               .element = ELEMENT_U8}},
                            .gives = rows};
    pthread_mutex_init(&gated->lock, NULL);
    pthread_cond_init(&gated->changed, NULL);
}

/* Lets so many rows pass, and waits until they have. */
static void let(struct gated *gated, int64_t rows)
{
    pthread_mutex_lock(&gated->lock);
    gated->open = rows;
    pthread_cond_broadcast(&gated->changed);
    while (gated->passed < (rows < gated->gives ? rows : gated->gives))
        pthread_cond_wait(&gated->changed, &gated->lock);
    pthread_mutex_unlock(&gated->lock);
}

/* All rows are right; of how many the store was asked. */
static size_t fetch_all(struct gated *gated, struct store *cache)
{
    const struct store_info *info = &gated->store.info;
    size_t rows = (size_t)info->rows, before = gated->fetched;
    struct reader *reader = NULL;
    uint8_t *features = malloc(rows * info->features), *right = malloc(info->features);
    int64_t *ids = malloc(rows * sizeof(*ids));
    double *labels = malloc(rows * sizeof(*labels));
    enum row_status *status = malloc(rows * sizeof(*status));
    for (size_t i = 0; i < rows; i++) {
        int64_t row = (int64_t)((i * 7 + 3) % rows);
        ids[i] = info->id_column ? 5 + 3 * row : row;
    }
    assert_ok(reader_open(cache, &reader));
    assert_ok(reader_fetch(reader, ids, rows, features, info->features, labels, status));
    for (size_t i = 0; i < rows; i++) {
        int64_t row = (int64_t)((i * 7 + 3) % rows);
        fill_row(right, info, row);
        assert_int_equal(status[i], ROW_OK);
        assert_true(labels[i] == (double)row);
        assert_memory_equal(features + i * info->features, right, info->features);
    }
    reader_close(reader);
    free(features);
    free(right);
    free(ids);
    free(labels);
    free(status);
    return gated->fetched - before;
}

static void test_rows_come_while_it_fills(void **state)
{
    struct gated gated;
    struct store *cache = NULL;
    (void)state;
    gated_init(&gated, 100, 3, NULL);
    assert_ok(row_cache_open(&gated.store, UINT64_MAX, 0, &cache));
    assert_int_equal(fetch_all(&gated, cache), 100);
    let(&gated, 40);
    assert_int_equal(fetch_all(&gated, cache), 60);
    let(&gated, 100);
    assert_ok(row_cache_wait(cache));
    assert_int_equal(fetch_all(&gated, cache), 0);
    store_close(cache);
    /* Ids of a column are found when all are known. */
    gated_init(&gated, 100, 3, "id");
    assert_ok(row_cache_open(&gated.store, UINT64_MAX, 0, &cache));
    let(&gated, 40);
    assert_int_equal(fetch_all(&gated, cache), 100);
    let(&gated, 100);
    assert_ok(row_cache_wait(cache));
    assert_int_equal(fetch_all(&gated, cache), 0);
    store_close(cache);
}

static void *let_all(void *gated)
{
    clock_sleep_ms(5);
    let(gated, INT64_MAX);
    return NULL;
}

/* Of how many rows the store was asked while its scan went on after a moment. */
static size_t fetch_near_the_end(void)
{
    struct gated gated;
    struct store *cache = NULL;
    pthread_t opener;
    gated_init(&gated, 100, 3, NULL);
    assert_ok(row_cache_open(&gated.store, UINT64_MAX, 0, &cache));
    let(&gated, 40);
    assert_int_equal(pthread_create(&opener, NULL, let_all, &gated), 0);
    size_t fetched = fetch_all(&gated, cache);
    assert_int_equal(pthread_join(opener, NULL), 0);
    store_close(cache);
    return fetched;
}

/* On a machine that is late the scan may seem to hang: a few tries. */
static void test_rows_are_awaited_while_the_scan_is_about_to_end(void **state)
{
    size_t fetched = 60;
    (void)state;
    for (int tries = 0; tries < 20 && fetched == 60; tries++)
        fetched = fetch_near_the_end();
    assert_true(fetched < 60);
}

static void test_as_many_rows_as_there_is_room_for(void **state)
{
    struct gated gated;
    struct store *cache = NULL;
    (void)state;
    for (int has_ids = 0; has_ids < 2; has_ids++) {
        gated_init(&gated, 100, 8, has_ids ? "id" : NULL);
        gated.open = INT64_MAX;
        uint64_t each = row_cache_row_bytes(8, ELEMENT_U8, has_ids);
        assert_ok(row_cache_open(&gated.store, 30 * each + 1, 0, &cache));
        assert_ok(row_cache_wait(cache));
        assert_int_equal(fetch_all(&gated, cache), 70);
        assert_true(gated.passed < 100); /* the rest was not read */
        store_close(cache);
    }
}

/* No machine has as much as is to be left. */
static void test_it_stops_where_memory_is_scarce(void **state)
{
    struct gated gated;
    struct store *cache = NULL;
    (void)state;
    gated_init(&gated, 96, WIDE, NULL);
    gated.open = INT64_MAX;
    assert_ok(row_cache_open(&gated.store, UINT64_MAX, UINT64_MAX, &cache));
    assert_ok(row_cache_wait(cache));
    assert_int_equal(fetch_all(&gated, cache), 96 - 64);
    store_close(cache);
}

static void *close_store(void *store)
{
    store_close(store);
    return NULL;
}

static void test_it_is_closed_while_it_fills(void **state)
{
    struct gated gated;
    struct store *cache = NULL;
    pthread_t closer;
    (void)state;
    gated_init(&gated, 100, 3, NULL);
    gated.closed_at = 24;
    assert_ok(row_cache_open(&gated.store, UINT64_MAX, 0, &cache));
    let(&gated, 24);
    assert_int_equal(pthread_create(&closer, NULL, close_store, cache), 0);
    let(&gated, 32); /* the next block is the last */
    assert_int_equal(pthread_join(closer, NULL), 0);
    assert_int_equal(gated.passed, 32);
}

static void check_broken(int64_t gives, enum error ends, const char *words)
{
    struct gated gated;
    struct store *cache = NULL;
    struct reader *reader = NULL;
    int64_t id = 0;
    uint8_t feature;
    double label;
    enum row_status status;
    gated_init(&gated, 20, 1, NULL);
    gated.gives = gives;
    gated.ends = ends;
    gated.open = INT64_MAX;
    assert_ok(row_cache_open(&gated.store, UINT64_MAX, 0, &cache));
    assert_fails(row_cache_wait(cache), ends ? ends : ERROR_INPUT, words);
    assert_ok(reader_open(cache, &reader));
    if (ends == ERROR_IO) /* the next read may be luckier */
        assert_ok(reader_fetch(reader, &id, 1, &feature, 1, &label, &status));
    else
        assert_fails(reader_fetch(reader, &id, 1, &feature, 1, &label, &status), ERROR_INPUT,
                     words);
    reader_close(reader);
    store_close(cache);
}

/* Rows that a store said it has, and does not give, are no zeros. */
static void test_a_scan_that_fails(void **state)
{
    (void)state;
    check_broken(19, OK, "19 rows of 20");
    check_broken(24, OK, "more than the 20 rows");
    check_broken(20, ERROR_INPUT, "ends so");
    check_broken(11, ERROR_INPUT, "ends so");
    check_broken(11, ERROR_IO, "ends so");
}

/* ---- consecutive ids ---------------------------------------------------- */

enum { FIRST_ID = 9, RUN_ROWS = 3000, RUN_FEATURES = 1000 };

/* Rows of consecutive ids, one of them bad. */
struct run_store {
    struct store store;  /* first */
    int64_t lost, fails; /* the rows with these numbers */
    bool has_one_reader; /* it gives no second one */
    _Atomic int64_t fetched, readers;
};

static enum error run_reader_open(struct store *store, struct reader **ret_reader)
{
    struct run_store *run = (struct run_store *)store;
    bool is_second = atomic_fetch_add(&run->readers, 1) > 0;
    return is_second && run->has_one_reader ? error_set(ERROR_IO, "a test gives one reader")
                                            : gated_reader_open(store, ret_reader);
}

static bool run_has_run(struct reader *reader, int64_t *ret_first)
{
    (void)reader;
    *ret_first = FIRST_ID;
    return true;
}

static enum error run_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                            size_t stride_bytes, double *labels, enum row_status *status)
{
    struct run_store *run = (struct run_store *)reader->store;
    for (size_t i = 0; i < count; i++) {
        int64_t row = ids[i] - FIRST_ID;
        uint8_t *slot = (uint8_t *)features + i * stride_bytes;
        if (row == run->fails)
            return error_set(ERROR_IO, "the fetch of a test ends so");
        status[i] = row == run->lost ? ROW_MISSING : row == 77 ? ROW_BAD : ROW_OK;
        fill_row(slot, &run->store.info, status[i] == ROW_OK ? row : 0);
        labels[i] = status[i] == ROW_OK ? (double)row : 0;
    }
    atomic_fetch_add(&run->fetched, (int64_t)count);
    return OK;
}

static enum error run_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                           void *context)
{
    (void)store;
    (void)columns;
    (void)sink;
    (void)context;
    return error_set(ERROR_IO, "nobody scans such a store");
}

static const struct store_ops run_ops = {.scheme = "run",
                                         .scan = run_scan,
                                         .reader_open = run_reader_open,
                                         .reader_close = gated_reader_close,
                                         .has_run = run_has_run,
                                         .fetch = run_fetch};

/* Each row, from where it is; how many of them the store was asked for. */
static int64_t fetch_run_rows(struct run_store *run, struct store *cache)
{
    struct reader *reader = NULL;
    uint8_t features[RUN_FEATURES], right[RUN_FEATURES];
    int64_t before = run->fetched;
    assert_ok(reader_open(cache, &reader));
    for (int64_t row = 0; row < RUN_ROWS; row++) {
        int64_t id = FIRST_ID + row;
        double label;
        enum row_status status;
        assert_ok(reader_fetch(reader, &id, 1, features, RUN_FEATURES, &label, &status));
        assert_int_equal(status, row == 77 ? ROW_BAD : ROW_OK);
        assert_true(label == (double)(row == 77 ? 0 : row));
        fill_row(right, &run->store.info, row == 77 ? 0 : row);
        assert_memory_equal(features, right, RUN_FEATURES);
    }
    reader_close(reader);
    return run->fetched - before;
}

static struct store *cache_run(struct run_store *run, uint64_t limit_bytes)
{
    static char uri[] = "run:";
    struct store *cache = NULL;
    run->store = (struct store){.ops = &run_ops,
                                .info = {.uri = uri,
                                         .rows = RUN_ROWS,
                                         .features = RUN_FEATURES,
                                         .id_column = "id",
                                         .element = ELEMENT_U8}};
    assert_ok(row_cache_open(&run->store, limit_bytes, 0, &cache));
    return cache;
}

static void test_consecutive_ids_are_fetched_by_several_threads(void **state)
{
    uint64_t each = row_cache_row_bytes(RUN_FEATURES, ELEMENT_U8, true);
    (void)state;
    for (int64_t room = 1; room <= RUN_ROWS; room += (RUN_ROWS - 1) / 3) {
        struct run_store run = {.lost = -1, .fails = -1};
        struct store *cache = cache_run(&run, (uint64_t)room * each);
        fetch_run_rows(&run, cache); /* some from the store, some from memory */
        assert_ok(row_cache_wait(cache));
        assert_int_equal(fetch_run_rows(&run, cache), RUN_ROWS - room + (room > 77));
        store_close(cache);
    }
}

/* As where no more files may be open. */
static void test_consecutive_ids_are_fetched_by_one_thread(void **state)
{
    struct run_store run = {.lost = -1, .fails = -1, .has_one_reader = true};
    struct store *cache = cache_run(&run, UINT64_MAX);
    (void)state;
    assert_ok(row_cache_wait(cache));
    run.has_one_reader = false;
    assert_int_equal(fetch_run_rows(&run, cache), 1); /* the bad one */
    store_close(cache);
}

/* A store that does not have what it said is not read; after a failure, what was read stays. */
static void test_a_fetch_of_consecutive_ids_that_fails(void **state)
{
    struct run_store lost = {.lost = 2000, .fails = -1}, fails = {.lost = -1, .fails = 2500};
    struct store *cache = cache_run(&lost, UINT64_MAX);
    struct reader *reader = NULL;
    (void)state;
    assert_fails(row_cache_wait(cache), ERROR_INPUT, "run: lacks the id 2009 of its 3000 rows");
    assert_ok(reader_open(cache, &reader));
    refuse_fetch(reader, FIRST_ID, "lacks the id 2009");
    reader_close(reader);
    store_close(cache);
    cache = cache_run(&fails, UINT64_MAX);
    assert_fails(row_cache_wait(cache), ERROR_IO, "ends so");
    fails.fails = -1;
    assert_true(fetch_run_rows(&fails, cache) < RUN_ROWS);
    store_close(cache);
}

/* Each changes what rows are kept as, behind rows that were kept already. */
static void test_rows_change_their_form(void **state)
{
    (void)state;
    check_cache("label,a,b\n1,2,3\n4,5,0.5\n7,8,9\n", "");
    check_cache("label,a,b\n1,2,3\nx,5,6\ny,8,9\nx,1,1\n", "");
    check_cache("label,a,b\n1,2,3\nx,5,256\ny,8,9\n1,1,1\n", "");
    check_cache("label,a,b\n1,2,3\n1.5,5,6\n-2e3,8,-1\n", "");
    check_cache("label,a,b\n9007199254740993,2,3\n1,5,6\n", "");
    check_cache("label,a,b\nx,2,?\ny,,1\nx,0.5,6\nz,1,2\n", "");
    check_cache("label,a,b\nx,1,2\ny,0.5,?\nx,3,6\n", "");
}

/* Which row a line is cannot be told where lines are blank or rows are several lines. */
static void test_lines_are_not_rows(void **state)
{
    struct store *inner =
        open_inner("label,a,g\n\n\n1,2,x\n\r\n  \n3,4,\"y\nz\n\"\n5,6,w\n\n", "features=a");
    struct rows rows;
    (void)state;
    rows_scan(&rows, inner, SCAN_FEATURES);
    assert_int_equal(rows.count, 3);
    rows_release(&rows);
    store_close(inner);
    check_kept("features=a", UINT64_MAX, true);
}

/* Files of several blocks, that several threads read, with all that may happen in the middle. */
static void check_large(const char *first_label, const char *odd_row, int blank_each)
{
    enum { LARGE_ROWS = 2000, LARGE_FEATURES = 1500 };
    char *text = malloc((size_t)LARGE_ROWS * (LARGE_FEATURES * 4 + 20));
    size_t length = 0;
    for (int i = 0; i < LARGE_ROWS; i++) {
        if (i == LARGE_ROWS - 700 && odd_row) {
            length += (size_t)sprintf(text + length, "%s", odd_row);
            for (int k = 1; k < LARGE_FEATURES; k++)
                length += (size_t)sprintf(text + length, ",%d", k % 7);
            text[length++] = '\n';
            continue;
        }
        length += (size_t)sprintf(text + length, "%s%d", first_label, i % 37);
        for (int k = 0; k < LARGE_FEATURES; k++)
            length += (size_t)sprintf(text + length, ",%d", (i * 31 + k * k) % 256);
        text[length++] = '\n';
        if (blank_each && i % blank_each == 0)
            text[length++] = '\n';
    }
    text[length] = '\0';
    write_file("rows.csv", text);
    free(text);
    check_kept("header=no&label=0", UINT64_MAX, true);
}

static void test_large_files(void **state)
{
    (void)state;
    check_large("", "seven,12", 50);
    check_large("class ", "seven,12.5", 1);
    if (unit_is_for_threads())
        return; /* the others are the same to them */
    check_large("", NULL, 0);
    check_large("", NULL, 100);
    check_large("", "7,0.25", 0);
    check_large("class ", "seven,none", 0);
}

static void test_bad_and_missing_rows_keep_their_words(void **state)
{
    struct store *inner = open_inner("label,a\n1,2\n3,x\n5,6\n", "");
    struct store *cache = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {2, 1, -4, 0};
    uint8_t features[4] = {9, 9, 9, 9};
    double labels[4];
    enum row_status status[4];
    (void)state;
    assert_ok(row_cache_open(inner, UINT64_MAX, 0, &cache));
    assert_ok(reader_open(cache, &reader));
    assert_ok(reader_fetch(reader, ids, 4, features, 1, labels, status));
    assert_int_equal(status[0], ROW_OK);
    assert_int_equal(status[1], ROW_BAD);
    assert_int_equal(status[2], ROW_MISSING);
    assert_int_equal(status[3], ROW_OK);
    assert_memory_equal(features, "\x06\0\0\x02", 4);
    assert_true(labels[0] == 5 && labels[1] == 0 && labels[3] == 1);
    assert_non_null(strstr(error_message(), "line 3 (id 1): column \"a\" is \"x\""));
    assert_ok(reader_fetch(reader, ids + 2, 2, features, 1, labels, status));
    assert_non_null(strstr(error_message(), "no row with the id -4"));
    reader_close(reader);
    store_close(cache);
    store_close(inner);
}

static void test_a_bad_row_that_was_mended_meanwhile(void **state)
{
    struct fake_store fake;
    struct store *cache = NULL;
    struct reader *reader = NULL;
    int64_t id = 3;
    uint8_t features[4];
    double label;
    enum row_status status;
    (void)state;
    fake_store_init(&fake, 10, 4, ELEMENT_U8);
    fake.gives_features = true;
    fake.bad_id = id;
    assert_ok(row_cache_open(&fake.store, UINT64_MAX, 0, &cache));
    assert_ok(row_cache_wait(cache));
    fake.bad_id = -1;
    assert_ok(reader_open(cache, &reader));
    error_set(ERROR_IO, "something else");
    assert_ok(reader_fetch(reader, &id, 1, features, 4, &label, &status));
    assert_int_equal(status, ROW_BAD);
    assert_non_null(strstr(error_message(), "the row with the id 3 was bad when it was cached"));
    reader_close(reader);
    store_close(cache);
}

static void test_the_file_may_go_once_it_is_cached(void **state)
{
    struct store *inner = open_inner("label,a\n1,2\n3,4\n", "");
    struct store *cache = NULL;
    struct reader *reader = NULL;
    int64_t id = 1;
    uint8_t feature;
    double label;
    enum row_status status;
    (void)state;
    assert_ok(row_cache_open(inner, UINT64_MAX, 0, &cache));
    assert_ok(row_cache_wait(cache));
    unlink(path_of("rows.csv"));
    assert_ok(reader_open(cache, &reader));
    assert_ok(reader_fetch(reader, &id, 1, &feature, 1, &label, &status));
    assert_int_equal(feature, 4);
    reader_close(reader);
    store_close(cache);
    store_close(inner);
}

static void test_units_without_rows(void **state)
{
    struct store *inner = NULL;
    struct store *cache = NULL;
    struct rows rows;
    (void)state;
    assert_ok(store_open("range:100?labels=3", false, &inner));
    rows_scan(&rows, inner, SCAN_FEATURES);
    assert_ok(row_cache_open(inner, UINT64_MAX, 0, &cache));
    assert_ok(row_cache_wait(cache));
    check_fetch(cache, &rows, 1);
    rows_release(&rows);
    store_close(cache);
    store_close(inner);
}

enum { THREADS = 4, ROWS = 5000, FEATURES = 40 };

static void *fetch_much(void *argument)
{
    struct store *cache = argument;
    struct reader *reader = NULL;
    uint64_t seed = (uint64_t)(uintptr_t)&reader;
    int64_t ids[50];
    uint8_t features[50 * FEATURES];
    double labels[50];
    enum row_status status[50];
    if (reader_open(cache, &reader))
        return NULL;
    void *right = cache;
    for (int round = 0; round < 200 && right; round++) {
        for (int i = 0; i < 50; i++)
            ids[i] = (int64_t)dice_below(&seed, ROWS);
        if (reader_fetch(reader, ids, 50, features, FEATURES, labels, status))
            right = NULL;
        for (int i = 0; i < 50; i++) {
            if (labels[i] != (double)(ids[i] % 10) ||
                features[i * FEATURES + 7] != (ids[i] + 7) % 256)
                right = NULL;
        }
    }
    reader_close(reader);
    return right;
}

static void test_many_threads_read_at_once(void **state)
{
    struct store *cache = NULL;
    pthread_t threads[THREADS];
    char *text = malloc(ROWS * FEATURES * 5);
    size_t length = 0;
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        length += (size_t)sprintf(text + length, "%d", i % 10);
        for (int k = 0; k < FEATURES; k++)
            length += (size_t)sprintf(text + length, ",%d", (i + k) % 256);
        text[length++] = '\n';
    }
    text[length] = '\0';
    struct store *inner = open_inner(text, "header=no&label=0");
    free(text);
    assert_ok(row_cache_open(inner, UINT64_MAX, 0, &cache));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fetch_much, cache), 0);
    for (int i = 0; i < THREADS; i++) {
        void *right = NULL;
        pthread_join(threads[i], &right);
        assert_ptr_equal(right, cache);
    }
    store_close(cache);
    store_close(inner);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_rows_are_those_of_the_store, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_rows_change_their_form, make_folder, remove_folder),
    cmocka_unit_test(test_units_without_rows),
    cmocka_unit_test(test_pace),
    cmocka_unit_test(test_rows_come_while_it_fills),
    cmocka_unit_test(test_rows_are_awaited_while_the_scan_is_about_to_end),
    cmocka_unit_test(test_as_many_rows_as_there_is_room_for),
    cmocka_unit_test(test_it_stops_where_memory_is_scarce),
    cmocka_unit_test(test_it_is_closed_while_it_fills),
    cmocka_unit_test(test_a_scan_that_fails),
    cmocka_unit_test(test_consecutive_ids_are_fetched_by_several_threads),
    cmocka_unit_test(test_consecutive_ids_are_fetched_by_one_thread),
    cmocka_unit_test(test_a_fetch_of_consecutive_ids_that_fails),
    cmocka_unit_test_setup_teardown(test_lines_are_not_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_large_files, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_bad_and_missing_rows_keep_their_words, make_folder,
                                    remove_folder),
    cmocka_unit_test(test_a_bad_row_that_was_mended_meanwhile),
    cmocka_unit_test_setup_teardown(test_the_file_may_go_once_it_is_cached, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_many_threads_read_at_once, make_folder, remove_folder),
};

UNIT_MAIN(tests)
