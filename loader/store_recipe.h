/* SPDX-License-Identifier: MIT */
/*
 * The recipe with which stores are opened together: the caller's, or, if their URIs request one,
 * learned from all their rows.
 */
#ifndef LOADER_STORE_RECIPE_H
#define LOADER_STORE_RECIPE_H

#include "loader/store_open.h"

/* *ret_recipe: the caller's to free; NULL: features stay unchanged. Reads all rows if it learns.
 * ERROR_USAGE: the URIs request different ones; ERROR_CONFLICT: the URIs and options->recipe do;
 * else as store_open(). */
enum error store_recipe_find(const struct store_open_options *options, const char *text,
                             struct feature_recipe **ret_recipe) MUST_CHECK;

#endif
