/* SPDX-License-Identifier: MIT */
/* A folder of the test program's own, as setup and teardown of a test or a group. */
#ifndef TESTS_UNIT_FOLDER_UNIT_H
#define TESTS_UNIT_FOLDER_UNIT_H

#include "tests/unit/unit.h"

static char folder[256];

static inline int make_folder(void **state)
{
    (void)state;
    unit_folder_make(folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    unit_folder_remove(folder);
    return 0;
}

#endif
