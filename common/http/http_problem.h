/* SPDX-License-Identifier: MIT */
/*
 * Failures as HTTP responses: `application/problem+json` (RFC 9457) with type, title, status and
 * detail.
 */
#ifndef COMMON_HTTP_HTTP_PROBLEM_H
#define COMMON_HTTP_HTTP_PROBLEM_H

#include "common/buffer.h"
#include "common/error.h"

#define HTTP_PROBLEM_CONTENT_TYPE "application/problem+json"

/* "Not Found" for 404; "Error" for a status that this program does not use. */
const char *http_status_title(int status);

/* The status of an error code: 400 for ERROR_USAGE, 404, 409, 507 for ERROR_NO_SPACE, 503 if a
 * later try may work (ERROR_IO, ERROR_MEMORY, ERROR_UNAVAILABLE, ERROR_TIMEOUT), else 500. */
int http_status_of_error(enum error error);

/* Appends the body. `kind` (error_kind()) makes the type "/problems/KIND"; NULL: "about:blank". */
enum error http_problem_add(struct buffer *buffer, int status, const char *kind,
                            const char *detail) MUST_CHECK;

#endif
