/* SPDX-License-Identifier: MIT */
/* The pass that learns a recipe: every row's values, in any order; keeps nothing. */

#include "loader/csv/csv_messages.h"
#include "loader/csv/store_csv.h"

/* The state of a slot of the pass, for all its blocks. */
struct learning {
    struct csv_decoder decoder;
    struct recipe_learner *learner; /* owned; NULL: not prepared yet */
};

static enum error prepare(const struct csv_store *store, struct learning *learning)
{
    if (learning->learner)
        return OK;
    enum error error = csv_decoder_init(&learning->decoder, &store->columns, store->delimiter);
    if (error)
        return error;
    learning->learner = recipe_learner_new(store->columns.plan.recipe);
    learning->decoder.learner = learning->learner;
    if (learning->learner)
        return OK;
    csv_decoder_release(&learning->decoder);
    return ERROR_MEMORY;
}

static enum error learn_block(void *context, void *result, struct csv_block *block)
{
    const struct csv_store *store = context;
    struct learning *learning = result;
    struct csv_cursor cursor = {.at = 0};
    struct store_row row;
    char nowhere[1]; /* features are not kept */
    enum error error = prepare(store, learning);
    if (error)
        return error;
    while (!error)
        error = csv_decode_next(&learning->decoder, block, &cursor, ELEMENT_F32, nowhere, &row);
    return error == ERROR_END ? OK : csv_store_prefix(store, error, cursor.line);
}

static enum error take_block(void *context, void *result, const struct csv_block *block)
{
    (void)context;
    (void)result;
    (void)block;
    return OK;
}

static void release(void *context, void *result)
{
    const struct csv_store *store = context;
    struct learning *learning = result;
    if (!learning->learner)
        return;
    recipe_learner_merge(store->columns.plan.recipe, learning->learner);
    csv_decoder_release(&learning->decoder);
}

enum error csv_store_learn(struct csv_store *store)
{
    struct csv_pass pass = {.what = "learning the columns of",
                            .result_bytes = sizeof(struct learning),
                            .work = learn_block,
                            .take = take_block,
                            .release = release,
                            .context = store};
    return csv_pass_run(&pass, &store->source);
}
