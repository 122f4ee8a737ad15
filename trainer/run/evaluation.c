/* SPDX-License-Identifier: MIT */
#include "trainer/run/evaluation.h"

#include <stdlib.h>

#include "common/array.h"
#include "loader/store_open.h"
#include "trainer/model/targets.h"

struct scoring {
    struct trained_model *trained;
    struct targets *targets;
    int32_t *classes; /* [rows of a batch] */
    float *numbers;
    struct model_score score;
};

static enum error score_rows(void *context, const struct trained_model_rows *rows)
{
    struct scoring *scoring = context;
    struct model_batch batch = {.rows = rows->rows,
                                .features = rows->features,
                                .classes = scoring->classes,
                                .targets = scoring->numbers};
    enum error error = targets_convert(scoring->targets, rows->ids, rows->labels, rows->rows,
                                       scoring->classes, scoring->numbers);
    return error ? error : model_evaluate(scoring->trained->model, &batch, &scoring->score);
}

static enum error score_store(struct scoring *scoring, struct store *store)
{
    const struct checkpoint_facts *facts = checkpoint_get_facts(scoring->trained->checkpoint);
    size_t rows = model_get_options(scoring->trained->model)->batch_rows;
    enum error error = targets_new(facts->classes, store, &scoring->targets);
    if (error)
        return error;
    if (scoring->trained->bad_rows == BAD_ROWS_REPLACE)
        targets_allow_zero(scoring->targets);
    scoring->classes = array_new(rows, sizeof(*scoring->classes), "a batch's classes");
    scoring->numbers = array_new(rows, sizeof(*scoring->numbers), "a batch's targets");
    if (!scoring->classes || !scoring->numbers)
        return ERROR_MEMORY;
    error = trained_model_scan(scoring->trained, store, score_rows, scoring);
    if (!error && scoring->score.rows == 0)
        error = error_set(ERROR_INPUT, "%s has no rows to evaluate on", store_info(store)->uri);
    return error;
}

enum error evaluation_run(struct trained_model *trained, const char *store_uri,
                          struct evaluation *ret_evaluation)
{
    struct scoring scoring = {.trained = trained};
    const struct model_score *score = &scoring.score;
    struct store *store = NULL;
    enum error error = store_open(store_uri, false, &store);
    if (error)
        return error;
    error = score_store(&scoring, store);
    if (!error)
        *ret_evaluation = (struct evaluation){
            .score = *score,
            .loss = model_score_loss(trained->model, score),
            .accuracy = (double)score->correct / (double)score->rows,
            .squared = score->loss_sum / (double)score->rows,
        };
    free(scoring.classes);
    free(scoring.numbers);
    targets_free(scoring.targets);
    store_close(store);
    return error;
}
