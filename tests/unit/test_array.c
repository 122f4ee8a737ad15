/* SPDX-License-Identifier: MIT */
/*
 * Covers common/array: Large arrays have pages of their own, whatever was freed before. Counted by
 * malloc() itself.
 */
#include "tests/unit/unit.h"

#include <malloc.h>
#include <stdbool.h>

#include "common/array.h"

#define LARGE_BYTES ((size_t)1 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static bool has_own_malloc = true;
#else
static bool has_own_malloc;
#endif

static void test_large_arrays_are_mapped(void **state)
{
    void *grown = NULL;
    size_t capacity = 0;
    (void)state;
    if (has_own_malloc) {
        print_message("# skipped: the sanitizer has malloc() for itself\n");
        skip();
    }
    array_map_large();
    void *volatile larger = malloc(16 * LARGE_BYTES);
    free(larger); /* from then on malloc() would map larger ones only */
    size_t mapped = mallinfo2().hblks;
    void *array = array_new(LARGE_BYTES, 1, "a test");
    assert_non_null(array);
    assert_int_equal(mallinfo2().hblks, mapped + 1);
    assert_ok(array_grow(&grown, &capacity, LARGE_BYTES, 1, "a test"));
    assert_int_equal(mallinfo2().hblks, mapped + 2);
    free(grown);
    free(array);
    assert_int_equal(mallinfo2().hblks, mapped);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_large_arrays_are_mapped),
};

UNIT_MAIN(tests)
