/* SPDX-License-Identifier: MIT */
/*
 * Errors: one code for the program, one message for the person.
 *
 * Every function that can fail returns an enum error: OK is 0, each failure is negative. The
 * function that detects the error calls error_set() with a sentence that says what was found,
 * where, and what was expected; callers do not rewrite it. error_prefix() may prepend the place
 * ("row 7 of train.csv: ").
 *
 * Threads: the message belongs to the thread that set it. To pass a failure on, a thread copies it
 * (struct error_report) and the other one calls error_restore().
 */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <stddef.h>

enum error {
    OK = 0,
    ERROR_USAGE = -1,        /* an option or argument is wrong: exit 2, HTTP 400 */
    ERROR_INPUT = -2,        /* bytes from outside are malformed or damaged: exit 2 */
    ERROR_NOT_FOUND = -3,    /* a requested file, row, path or name does not exist */
    ERROR_CONFLICT = -4,     /* belongs to another frame, design or seed, or is in use: exit 2 */
    ERROR_IO = -5,           /* the system refused a read or a write (EIO, ESTALE, EACCES) */
    ERROR_NO_SPACE = -6,     /* disk or quota is full; nothing was lost, retry is possible */
    ERROR_MEMORY = -7,       /* allocation failed, or one of our limits would be exceeded */
    ERROR_NETWORK = -8,      /* a peer is gone, refuses or sends nonsense; port in use */
    ERROR_TIMEOUT = -9,      /* a deadline passed */
    ERROR_UNAVAILABLE = -10, /* not in this build or on this machine (no GPU, no driver) */
    ERROR_CANCELLED = -11,   /* stop requested: SIGTERM, close() during a wait */
    ERROR_END = -12          /* regular end of a stream; not reported as a failure */
};

#define ERROR_MESSAGE_BYTES 1024

#if defined(__GNUC__)
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define MUST_CHECK
#define PRINTF_LIKE(text, first)
#endif

/* A failure that crosses threads: the code and the failing thread's message. */
struct error_report {
    enum error code;
    const char *kind; /* see error_kind() */
    char message[ERROR_MESSAGE_BYTES];
};

/* Stores the message for this thread (cut at ERROR_MESSAGE_BYTES - 1) and returns `code`. */
enum error error_set(enum error code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Like error_set(), and appends ": " and the text of `errno_value`. ENOSPC and EDQUOT become
 * ERROR_NO_SPACE; ENOENT, ENOTDIR, ELOOP and ENAMETOOLONG ERROR_NOT_FOUND; ENOMEM ERROR_MEMORY; all
 * others `code`. */
enum error error_set_errno(enum error code, int errno_value, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* ERROR_MEMORY with "out of memory (N bytes for WHAT)". */
enum error error_set_memory(size_t bytes, const char *what);

/* Prepends text to this thread's message; returns `code`, for use in a return statement. */
enum error error_prefix(enum error code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Names this thread's last failure, for programs that distinguish failures of one code: a word with
 * static storage, such as "paused". Setting a message clears it, error_prefix() keeps it. Returns
 * `code`. */
enum error error_set_kind(enum error code, const char *word);
/* NULL: no name. */
const char *error_kind(void);

/* This thread's last message; valid until its next error_*() call. Never NULL. */
const char *error_message(void);

/* Copies code, message and kind from this thread; error_restore() sets them on another. */
void error_report_take(enum error code, struct error_report *ret_report);
enum error error_restore(const struct error_report *report);

/* The exit status of a code: 0, 2 for bad usage or bad input, else 1. */
int error_exit_status(enum error code);

#endif
