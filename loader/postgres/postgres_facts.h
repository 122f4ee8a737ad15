/* SPDX-License-Identifier: MIT */
/*
 * What `tombola-loader import` notes about a table it made, as the table's comment: JSON that says
 * what the bytes of `features` are, which other columns it has, and the digest of the rows as they
 * were imported. Whoever writes to the table later is not noticed, but by `info --verify`: the rows
 * are looked at whenever it is opened.
 */
#ifndef LOADER_POSTGRES_POSTGRES_FACTS_H
#define LOADER_POSTGRES_POSTGRES_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "common/error.h"
#include "loader/store/column_role.h"
#include "loader/store/content_digest.h"
#include "loader/store/feature_recipe.h"
#include "loader/store/row_limit.h"
#include "loader/store/store.h"

struct postgres_facts {
    bool there;
    enum element element;
    bool has_weight, has_group;
    char **feature_names; /* owned; [features]; none where rows differ in length, */
    size_t features;
    struct row_limit limit;                 /* which may be so long; else zeroed */
    char digest[CONTENT_DIGEST_TEXT_BYTES]; /* of the rows, then; "": none */
    struct feature_recipe *recipe; /* owned; what the features were made by; NULL: as they stood */
};

/* !there when the comment is somebody's own, or NULL. ERROR_INPUT when it is ours and damaged. */
enum error postgres_facts_read(struct postgres_facts *facts, const char *comment) MUST_CHECK;
void postgres_facts_release(struct postgres_facts *facts);
/* What the note says of columns, unless the URI says otherwise. */
void postgres_facts_choose(const struct postgres_facts *facts, struct column_choice *choice);

/* Appends the note. */
enum error postgres_facts_write(const struct store_info *info, const char *digest,
                                struct buffer *out) MUST_CHECK;

#endif
