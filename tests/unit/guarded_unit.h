/* SPDX-License-Identifier: MIT */
/* Memory whose end is watched to the byte, for code that reads or writes by vectors. */
#ifndef TESTS_UNIT_GUARDED_UNIT_H
#define TESTS_UNIT_GUARDED_UNIT_H

#include <sys/mman.h>

/* The end of memory behind which lies a page that ends the program when it is touched. */
static inline char *guarded_pages(void)
{
    enum { PAGE = 4096, PAGES = 4 };
    char *pages =
        mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGES * PAGE, PAGE, PROT_NONE), 0);
    return pages + PAGES * PAGE;
}

#endif
