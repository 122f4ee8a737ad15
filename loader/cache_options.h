/* SPDX-License-Identifier: MIT */
/* The option rows for --cache-bytes, --cache and --cache-limit. */
#ifndef LOADER_CACHE_OPTIONS_H
#define LOADER_CACHE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "common/command/option.h"

/* Pointers: int64_t, bool set if the first is given (or NULL), const char *, int64_t. */
#define CACHE_OPTIONS(bytes_target, bytes_given, folder_target, limit_target)          \
    {.name = "cache_bytes",                                                            \
     .type = OPTION_INTEGER,                                                           \
     .target = (bytes_target),                                                         \
     .given = (bytes_given),                                                           \
     .argument = "BYTES",                                                              \
     .help = "memory for a cache of rows, filled while the first batches are "         \
             "fetched; it keeps as many as fit. 0: no cache",                          \
     .minimum = 0,                                                                     \
     .maximum = (long double)INT64_MAX},                                               \
        {.name = "cache",                                                              \
         .type = OPTION_TEXT,                                                          \
         .target = (folder_target),                                                    \
         .argument = "DIR",                                                            \
         .help = "keep rows in a file in this folder, shared with other programs on "  \
                 "this machine and with later runs; it is filled while the first "     \
                 "batches are fetched"},                                               \
    {                                                                                  \
        .name = "cache_limit", .type = OPTION_INTEGER, .target = (limit_target),       \
        .argument = "BYTES",                                                           \
        .help = "total size of the files there; the least recently used are removed. " \
                "0: keep a twentieth of the disk free",                                \
        .minimum = 0, .maximum = (long double)INT64_MAX                                \
    }

#endif
