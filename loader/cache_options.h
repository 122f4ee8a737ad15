/* SPDX-License-Identifier: MIT */
/* The rows for --cache-bytes, --cache and --cache-limit of a command's table of options. */
#ifndef LOADER_CACHE_OPTIONS_H
#define LOADER_CACHE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "common/option.h"

/* Pointers: int64_t, bool that is set where the first is given (or NULL), const char *, int64_t. */
#define CACHE_OPTIONS(bytes_target, bytes_given, folder_target, limit_target)                    \
    {.name = "cache_bytes",                                                                      \
     .type = OPTION_INTEGER,                                                                     \
     .target = (bytes_target),                                                                   \
     .given = (bytes_given),                                                                     \
     .argument = "BYTES",                                                                        \
     .help =                                                                                     \
         "memory for rows, all or as many as fit, filled while the first batches come; 0: none", \
     .minimum = 0,                                                                               \
     .maximum = (long double)INT64_MAX},                                                         \
        {.name = "cache",                                                                        \
         .type = OPTION_TEXT,                                                                    \
         .target = (folder_target),                                                              \
         .argument = "DIR",                                                                      \
         .help = "keep rows in a file of this folder, which other programs on the machine and "  \
                 "later ones read too; it is made while the first batches come"},                \
    {                                                                                            \
        .name = "cache_limit", .type = OPTION_INTEGER, .target = (limit_target),                 \
        .argument = "BYTES",                                                                     \
        .help = "of all files there; those not used for the longest time make room. 0: until a " \
                "twentieth of the disk is left",                                                 \
        .minimum = 0, .maximum = (long double)INT64_MAX                                          \
    }

#endif
