/* SPDX-License-Identifier: MIT */
/*
 * Errors: one code for the program, one message for the person.
 *
 * Every function that can fail returns an enum error: OK is 0, each failure is negative. The place
 * that decides which error it is calls error_set() with a sentence that says what was met, where,
 * and what would have been right; nobody above rewrites it. error_prefix() may put the place in
 * front ("row 7 of train.csv: ").
 *
 * Threads: the message belongs to the thread that set it. A thread that hands a failure to another
 * copies the text (struct error_report) and the other one takes it with error_restore().
 */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <stddef.h>

enum error {
    OK = 0,
    ERROR_USAGE = -1,        /* an option or argument is wrong: exit 2, HTTP 400 */
    ERROR_INPUT = -2,        /* bytes from outside are malformed or damaged: exit 2 */
    ERROR_NOT_FOUND = -3,    /* a file, row, path or name that was asked for does not exist */
    ERROR_CONFLICT = -4,     /* belongs to another frame, design or seed, or is in use: exit 2 */
    ERROR_IO = -5,           /* the system refused a read or a write (EIO, ESTALE, EACCES) */
    ERROR_NO_SPACE = -6,     /* disk or quota is full; nothing was lost, may be tried again */
    ERROR_MEMORY = -7,       /* allocation failed, or a limit of ours would have been passed */
    ERROR_NETWORK = -8,      /* a peer is gone, refuses or answers nonsense; port in use */
    ERROR_TIMEOUT = -9,      /* a deadline passed */
    ERROR_UNAVAILABLE = -10, /* this build or machine lacks it (no GPU, no driver) */
    ERROR_CANCELLED = -11,   /* somebody asked to stop: SIGTERM, close() during a wait */
    ERROR_END = -12          /* regular end of a stream; not a failure to report */
};

#define ERROR_MESSAGE_BYTES 1024

#if defined(__GNUC__)
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define MUST_CHECK
#define PRINTF_LIKE(text, first)
#endif

/* A failure that crosses threads: code, and the message that the failing thread had. */
struct error_report {
    enum error code;
    const char *kind; /* as error_kind() */
    char message[ERROR_MESSAGE_BYTES];
};

/* Stores the message for this thread (cut at ERROR_MESSAGE_BYTES - 1) and returns `code`. */
enum error error_set(enum error code, const char *format, ...) PRINTF_LIKE(2, 3);

/* As error_set() with ": " and the text of `errno_value` behind; ENOSPC and EDQUOT become
 * ERROR_NO_SPACE; names that lead nowhere (ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG) ERROR_NOT_FOUND;
 * ENOMEM becomes ERROR_MEMORY, all else `code`. */
enum error error_set_errno(enum error code, int errno_value, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* ERROR_MEMORY with "out of memory (N bytes for WHAT)". */
enum error error_set_memory(size_t bytes, const char *what);

/* Puts text in front of this thread's message; returns `code`, so that it can end a function. */
enum error error_prefix(enum error code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Names this thread's last failure, for programs that distinguish failures of one code: a word that
 * lives as long as the program, "paused". Whatever sets a message clears it, error_prefix() keeps
 * it. Returns `code`. */
enum error error_set_kind(enum error code, const char *word);
/* NULL: it has no name. */
const char *error_kind(void);

/* This thread's last message; valid until its next error_*() call. Never NULL. */
const char *error_message(void);

/* Copies (code, this thread's message and kind) out, and back in on another thread. */
void error_report_take(enum error code, struct error_report *ret_report);
enum error error_restore(const struct error_report *report);

/* The exit status that the contract gives a code: 0, 2 for bad usage or bad input, else 1. */
int error_exit_status(enum error code);

#endif
