/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/feed: "No allocation in the steady state": this program's malloc() and its
 * relatives are counted while a feed hands out batches 10 to 1000. Calls that come from our own
 * code (everything that is linked into this program) must be none; those of libcurl are shown.
 */
#include "tests/unit/feed_unit.h"

#include <link.h>

#include "loader/store/store.h"
#include "loader/store_open.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#else
#define COUNTING 1
#endif

#define WARM 200 /* every thread of the feed has had its turn */
#define BATCHES 1000

struct range {
    uintptr_t begin, end;
};

static _Atomic bool counting;
static _Atomic int64_t own, curls, others;
static struct range own_range, curl_range;

#if COUNTING
/* Libraries find these functions before those of libc. */
#define EXPORTED __attribute__((visibility("default"), noinline))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static bool within(const struct range *range, const void *address)
{
    return (uintptr_t)address >= range->begin && (uintptr_t)address < range->end;
}

static void note(const void *caller)
{
    if (!atomic_load(&counting))
        return;
    if (within(&own_range, caller))
        atomic_fetch_add(&own, 1);
    else if (within(&curl_range, caller))
        atomic_fetch_add(&curls, 1);
    else
        atomic_fetch_add(&others, 1);
}

EXPORTED void *malloc(size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *memory, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}
#endif

static int find_ranges(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    struct range *range = NULL;
    if (info->dlpi_name[0] == '\0' && own_range.end == 0) /* the first one is the program */
        range = &own_range;
    else if (strstr(info->dlpi_name, "libcurl"))
        range = &curl_range;
    for (int i = 0; range && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            range->begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            range->end = range->begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 0;
}

static void skip_unless_counting(void)
{
    if (!COUNTING) {
        print_message("# skipped: the sanitizer has malloc() for itself\n");
        skip();
    }
}

static void test_counts_at_all(void **state)
{
    (void)state;
    skip_unless_counting();
    int64_t before = atomic_load(&own);
    atomic_store(&counting, true);
    void *volatile memory = malloc(10);
    void *volatile other = calloc(10, 10);
    atomic_store(&counting, false);
    free(memory);
    free(other);
    assert_int_equal(atomic_load(&own) - before, 2);
}

static void count_feed(struct setting *setting)
{
    const struct feed_batch *batch;
    setting_open(setting);
    atomic_store(&own, 0);
    atomic_store(&curls, 0);
    atomic_store(&others, 0);
    for (int i = 0; i < BATCHES; i++) {
        if (i == WARM)
            atomic_store(&counting, true);
        assert_ok(feed_next(setting->feed, NULL, &batch));
        assert_ok(feed_put(setting->feed, NULL, batch));
    }
    atomic_store(&counting, false);
    print_message("# batches %d to %d: own code %lld, libcurl %lld, others %lld allocations\n",
                  WARM, BATCHES, (long long)atomic_load(&own), (long long)atomic_load(&curls),
                  (long long)atomic_load(&others));
    assert_int_equal(atomic_load(&own), 0);
}

static void test_by_index(void **state)
{
    (void)state;
    struct setting setting;
    skip_unless_counting();
    setting_init(&setting, 100000, 100);
    setting.options.expand = true;
    setting.options.fetchers = 3;
    count_feed(&setting);
    setting_close(&setting);
}

static void test_by_draws(void **state)
{
    (void)state;
    struct setting setting;
    skip_unless_counting();
    setting_init(&setting, 100000, 100);
    setting.sampler.epochs = 0; /* at an end the stream is described, which allocates */
    setting.options.pull = FEED_DRAW;
    count_feed(&setting);
    setting_close(&setting);
}

/* A CSV of 2000 rows: label, then FEATURES numbers. */
static void write_csv(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int row = 0; row < 2000; row++) {
        fprintf(file, "%d", row % 10);
        for (size_t j = 0; j < FEATURES; j++)
            fprintf(file, ",%d", (int)fake_feature(row, j));
        fputc('\n', file);
    }
    assert_int_equal(fclose(file), 0);
}

static void count_csv(size_t cache_bytes)
{
    struct setting setting;
    struct store *store;
    char folder[256], uri[512];
    skip_unless_counting();
    unit_folder_make(folder);
    snprintf(uri, sizeof(uri), "%s/rows.csv", folder);
    write_csv(uri);
    snprintf(uri, sizeof(uri), "csv:%s/rows.csv?label=0&header=no", folder);
    setting_init(&setting, 2000, 100);
    setting.sampler.epochs = 0;
    assert_ok(store_open(uri, false, &store));
    setting.options.store = store;
    setting.options.cache_bytes = cache_bytes;
    count_feed(&setting);
    setting_close(&setting);
    store_close(store);
    unit_folder_remove(folder);
}

static void test_from_a_csv(void **state)
{
    (void)state;
    count_csv(0);
}

static void test_from_a_row_cache(void **state)
{
    (void)state;
    count_csv(100 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_at_all),    cmocka_unit_test(test_by_index),
        cmocka_unit_test(test_by_draws),         cmocka_unit_test(test_from_a_csv),
        cmocka_unit_test(test_from_a_row_cache),
    };
    dl_iterate_phdr(find_ranges, NULL);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
