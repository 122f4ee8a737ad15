/* SPDX-License-Identifier: MIT */
/*
 * What `tombola-loader import` records about a table it made, as the table's comment: JSON with the
 * type of the bytes of `features`, the other columns, and the digest of the rows as imported. Later
 * writes go unnoticed, except by `info --verify`: rows are examined whenever the table is opened.
 */
#ifndef LOADER_POSTGRES_POSTGRES_FACTS_H
#define LOADER_POSTGRES_POSTGRES_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "common/error.h"
#include "loader/column/column_role.h"
#include "loader/column/feature_recipe.h"
#include "loader/column/row_limit.h"
#include "loader/store/content_digest.h"
#include "loader/store/store.h"

struct postgres_facts {
    bool there;
    enum element element;
    bool has_weight, has_group;
    char **feature_names; /* owned; [features]; none if rows differ in length, */
    size_t features;
    struct row_limit limit;                 /* in which case this is the limit; else zeroed */
    char digest[CONTENT_DIGEST_TEXT_BYTES]; /* of the rows, at import; "": none */
    struct feature_recipe *recipe; /* owned; the recipe of the features; NULL: unchanged values */
};

/* !there if the comment is not ours, or NULL. ERROR_INPUT if it is ours and damaged. */
enum error postgres_facts_read(struct postgres_facts *facts, const char *comment) MUST_CHECK;
void postgres_facts_release(struct postgres_facts *facts);
/* Applies the recorded columns, unless the URI names others. */
void postgres_facts_choose(const struct postgres_facts *facts, struct column_choice *choice);

/* Appends the JSON. */
enum error postgres_facts_write(const struct store_info *info, const char *digest,
                                struct buffer *out) MUST_CHECK;

#endif
