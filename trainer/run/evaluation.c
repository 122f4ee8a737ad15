/* SPDX-License-Identifier: MIT */
#include "trainer/run/evaluation.h"

#include <stdlib.h>

#include "common/array.h"
#include "trainer/model/targets.h"

struct scoring {
    struct trained_model *trained;
    struct targets *targets;
    int32_t *classes; /* [rows of a batch] */
    float *numbers;
    float *scores; /* [rows of a batch, L]; NULL: a regression */
    struct model_score score;
    struct baseline baseline;
    struct confusion confusion;
};

static enum error score_rows(void *context, const struct trained_model_rows *rows)
{
    struct scoring *scoring = context;
    struct model_batch batch = {.rows = rows->rows,
                                .features = rows->features,
                                .classes = scoring->classes,
                                .targets = scoring->numbers};
    enum error error = targets_convert(scoring->targets, rows->ids, rows->labels, rows->status,
                                       rows->rows, scoring->classes, scoring->numbers);
    if (error)
        return error;
    baseline_add(&scoring->baseline, scoring->classes, scoring->numbers, rows->rows);
    error = model_evaluate(scoring->trained->model, &batch, &scoring->score);
    if (error || !scoring->scores)
        return error;
    error = model_read_outputs(scoring->trained->model, rows->rows, scoring->scores);
    if (!error)
        confusion_add(&scoring->confusion, scoring->classes, scoring->scores, rows->rows);
    return error;
}

static enum error begin_confusion(struct scoring *scoring, const struct classes *classes,
                                  size_t rows)
{
    if (!classes)
        return OK;
    scoring->scores =
        array_new(rows * classes->count, sizeof(*scoring->scores), "a batch's scores");
    return scoring->scores ? confusion_init(&scoring->confusion, classes->count) : ERROR_MEMORY;
}

static enum error score_store(struct scoring *scoring, const struct trained_model_source *source,
                              struct store *store)
{
    const struct checkpoint_facts *facts = checkpoint_get_facts(scoring->trained->checkpoint);
    size_t rows = model_get_options(scoring->trained->model)->batch_rows;
    enum error error = targets_new(facts->classes, store, &scoring->targets);
    if (error)
        return error;
    scoring->classes = array_new(rows, sizeof(*scoring->classes), "a batch's classes");
    scoring->numbers = array_new(rows, sizeof(*scoring->numbers), "a batch's targets");
    if (!scoring->classes || !scoring->numbers)
        return ERROR_MEMORY;
    error = baseline_init(&scoring->baseline, facts->classes ? facts->classes->count : 0);
    if (!error)
        error = begin_confusion(scoring, facts->classes, rows);
    if (error)
        return error;
    error = trained_model_run(scoring->trained, source, store, score_rows, scoring);
    if (!error && scoring->score.rows == 0)
        error = error_set(ERROR_INPUT, "%s has no rows to evaluate on", store_info(store)->uri);
    return error;
}

enum error evaluation_run(struct trained_model *trained, const struct trained_model_source *source,
                          struct evaluation *ret_evaluation)
{
    struct scoring scoring = {.trained = trained};
    struct store *store = NULL;
    *ret_evaluation = (struct evaluation){.rows = 0};
    enum error error = trained_model_open_store(trained, source, &store);
    if (error)
        return error;
    error = score_store(&scoring, source, store);
    if (!error)
        *ret_evaluation = (struct evaluation){
            .rows = scoring.score.rows,
            .accuracy = (double)scoring.score.correct / (double)scoring.score.rows,
            .loss = scoring.score.loss_sum / (double)scoring.score.rows,
            .baseline = baseline_loss(&scoring.baseline),
            .confusion = scoring.confusion,
        };
    else
        confusion_release(&scoring.confusion);
    baseline_release(&scoring.baseline);
    free(scoring.classes);
    free(scoring.numbers);
    free(scoring.scores);
    targets_free(scoring.targets);
    store_close(store);
    return error;
}

void evaluation_release(struct evaluation *evaluation)
{
    confusion_release(&evaluation->confusion);
}
