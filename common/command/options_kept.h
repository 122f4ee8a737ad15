/* SPDX-License-Identifier: MIT */
/*
 * Owns the texts that parsed options point into: values from environment and config files outlive
 * options_parse(). Main thread only.
 */
#ifndef COMMON_COMMAND_OPTIONS_KEPT_H
#define COMMON_COMMAND_OPTIONS_KEPT_H

#include <stddef.h>

/* A zeroed block that lives until options_release(). NULL: no memory (the error is set). */
void *options_keep(size_t bytes);

/* Frees all blocks. At the end of main. */
void options_release(void);

#endif
