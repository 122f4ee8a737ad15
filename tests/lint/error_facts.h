/* SPDX-License-Identifier: MIT */
/*
 * Read before every file by clang-tidy only (tests/run lint): its analyzer does not know that these
 * functions return the code that they are given, and would follow paths on which a failure is OK.
 */
#ifndef TESTS_LINT_ERROR_FACTS_H
#define TESTS_LINT_ERROR_FACTS_H

#include "common/error.h"

#define error_set(code, ...) (error_set(code, __VA_ARGS__), (code))
#define error_set_errno(code, ...) (error_set_errno(code, __VA_ARGS__), (code))
#define error_set_memory(bytes, what) (error_set_memory(bytes, what), ERROR_MEMORY)
#define error_prefix(code, ...) (error_prefix(code, __VA_ARGS__), (code))

#endif
