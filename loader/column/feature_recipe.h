/* SPDX-License-Identifier: MIT */
/*
 * How missing values and text categories of a table are encoded as numbers:
 *
 *   missing=mean|median|zero|NUMBER   an empty field, NA, N/A, NaN, nan, NULL, null, or a
 *                                     database's NULL or NaN, becomes this of its column; in a
 *                                     column of categories it is none of them
 *   onehot=A,B or onehot=*            the column becomes as many as it has different texts, called
 *                                     "A=text", sorted by bytes: 1 where the row has it, else 0;
 *                                     "*": each column in which a text is no number
 *   unseen=zeros|bad                  a text that none of the categories is: zeros, counted, or a
 *                                     bad row
 *
 * A URI requests a recipe; it is learned from that store's rows (recipe_learner.h), and applied to
 * them and to any other store with those columns (cell_plan.h). A trained model keeps it as JSON.
 * Features are then 32-bit floats, in the order of the table that it was learned from.
 *
 * Once made it does not change, except for its counts: any thread. Reference-counted.
 */
#ifndef LOADER_COLUMN_FEATURE_RECIPE_H
#define LOADER_COLUMN_FEATURE_RECIPE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/uri.h"

#define RECIPE_CATEGORIES_LIMIT 1000    /* per column */
#define RECIPE_CATEGORY_BYTES_LIMIT 256 /* per text */
#define RECIPE_FEATURES_LIMIT 100000    /* of all columns together */
#define RECIPE_JSON_LIMIT ((size_t)64 << 20)

enum missing_rule { MISSING_BAD, MISSING_MEAN, MISSING_MEDIAN, MISSING_NUMBER };

/* A URI's request; all zeros: none. */
struct recipe_request {
    enum missing_rule missing;
    float number; /* MISSING_NUMBER, also for missing=zero */
    char *onehot; /* owned; NULL: no column */
    bool unseen_given, unseen_is_bad;
};

struct recipe_column {
    char *name; /* owned */
    bool is_category;
    float fill;        /* for numbers; unless MISSING_BAD */
    char **categories; /* owned; [count], sorted by bytes */
    size_t count;
    size_t first; /* its (first) feature */
};

struct recipe_learner;

struct feature_recipe {
    _Atomic int keepers; /* in addition to its maker */
    struct recipe_request request;
    struct recipe_column *columns; /* owned; [count], in table order */
    size_t count;
    char **names; /* owned; [features] */
    size_t features;
    struct recipe_learner *learner; /* owned by the learning thread (recipe_learner.h); NULL: the
                                     * recipe is made */
    /* Texts outside the categories since the last warning; an example, and its column. */
    pthread_mutex_t lock;
    int64_t unseen;
    char unseen_text[64];
    size_t unseen_column;
};

/* Takes the URI's three parameters. ERROR_USAGE: an invalid value. Release the request. */
enum error recipe_request_read(struct recipe_request *request, struct uri *uri) MUST_CHECK;
void recipe_request_release(struct recipe_request *request);
static inline bool recipe_request_is_empty(const struct recipe_request *request)
{
    return request->missing == MISSING_BAD && !request->onehot;
}
/* Ignoring unseen=. */
bool recipe_request_is_same(const struct recipe_request *a, const struct recipe_request *b);
/* "missing=mean&onehot=a,b"; "neither missing= nor onehot=". Returns `out`. */
#define RECIPE_REQUEST_BYTES 320
const char *recipe_request_text(const struct recipe_request *request,
                                char out[RECIPE_REQUEST_BYTES]);

/* Makes a recipe that is still to be learned. Takes the request's texts over. NULL:
 * ERROR_MEMORY. */
struct feature_recipe *feature_recipe_new(struct recipe_request *request);
/* NULL is legal. */
void feature_recipe_keep(struct feature_recipe *recipe);
void feature_recipe_free(struct feature_recipe *recipe);

/* Places and names the features of `columns`. ERROR_INPUT: two have the same name, or there are too
 * many. */
enum error feature_recipe_finish(struct feature_recipe *recipe) MUST_CHECK;

/* As a JSON object, and back. ERROR_INPUT names `what`. */
enum error feature_recipe_print(const struct feature_recipe *recipe, struct buffer *out) MUST_CHECK;
enum error feature_recipe_parse(const char *text, const char *what,
                                struct feature_recipe **ret_recipe) MUST_CHECK;
/* A copy with another treatment of texts outside the categories. */
enum error feature_recipe_copy(const struct feature_recipe *recipe, bool unseen_is_bad,
                               struct feature_recipe **ret_copy) MUST_CHECK;
/* Do they encode every row alike? */
bool feature_recipe_is_same(const struct feature_recipe *a, const struct feature_recipe *b);

/* The category's number in the column; count: there is none. */
size_t recipe_column_find(const struct recipe_column *column, const char *text, size_t length);

/* Counts a text outside the categories. */
void feature_recipe_note_unseen(struct feature_recipe *recipe, size_t column, const char *text,
                                size_t length);
/* How many were counted since the last warning; the other lowers the count to `but`, since later
 * rows will be read again. NULL is legal. */
int64_t feature_recipe_unseen(struct feature_recipe *recipe);
void feature_recipe_forget_unseen(struct feature_recipe *recipe, int64_t but);
/* Logs what was counted since the last call, if anything, as of the store `called`. */
void feature_recipe_warn_of_unseen(struct feature_recipe *recipe, const char *called);

/* Does the text mean a missing value, if missing= is given? */
bool feature_is_missing(const char *text, size_t length);
/* " (missing=...)": advice for a feature that is not a number, to end a message. NULL: a database's
 * NULL. */
const char *feature_way_out(const char *text, size_t length);

#endif
