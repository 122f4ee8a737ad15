/* SPDX-License-Identifier: MIT */
#include "trainer/run/prediction.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "common/text.h"
#include "trainer/model/targets.h"

#define LINES_LIMIT_BYTES ((size_t)1 << 31)

struct predicting {
    struct trained_model *trained;
    const struct store_info *info;
    const struct classes *classes; /* NULL: a regression */
    struct targets *targets;       /* NULL: a regression, or labels that cannot be looked up */
    size_t outputs;                /* 1 for a regression */
    float *output;                 /* [rows of a batch, outputs] */
    struct buffer lines;
    struct output *out;
    int64_t not_finite; /* rows */
};

static void add_integer(struct buffer *lines, int64_t value)
{
    char text[TEXT_INTEGER_BYTES];
    buffer_add(lines, text, (size_t)(text_write_integer(text, value) - text));
}

/* Writes a class as the sampler does, so that it can be compared with `predicted`, and any other
 * label as the store has it. */
static void add_label(struct predicting *predicting, double label)
{
    struct buffer *lines = &predicting->lines;
    int32_t number = predicting->targets ? targets_find(predicting->targets, label) : -1;
    enum label_kind kind = predicting->info->label_kind;
    char real[TEXT_REAL_BYTES];
    if (number >= 0)
        buffer_add_csv(lines, predicting->classes->texts[number]);
    else if (kind == LABEL_INTEGER)
        add_integer(lines, (int64_t)label);
    else if (kind == LABEL_TEXT)
        buffer_add_csv(lines, predicting->info->label_texts[(size_t)label]);
    else if (kind == LABEL_REAL)
        buffer_add_text(lines, text_of_real(label, real));
}

static void add_prediction(struct predicting *predicting, const float *output)
{
    const struct classes *classes = predicting->classes;
    struct buffer *lines = &predicting->lines;
    char number[TEXT_REAL_BYTES];
    bool finite = true;
    if (classes) {
        buffer_add(lines, ",", 1);
        buffer_add_csv(lines, classes->texts[classes_choose(output, classes->count)]);
    }
    for (size_t i = 0; i < (classes ? classes->count : 1); i++) {
        finite &= isfinite(output[i]);
        /* A NaN may have a sign, which would be printed. */
        int length = snprintf(number, sizeof(number), ",%.9g",
                              isnan(output[i]) ? (double)NAN : (double)output[i]);
        buffer_add(lines, number, (size_t)length);
    }
    buffer_add(lines, "\n", 1);
    predicting->not_finite += !finite;
}

static enum error write_lines(struct predicting *predicting)
{
    struct buffer *lines = &predicting->lines;
    enum error error = output_add(predicting->out, lines->data, lines->length);
    buffer_clear(lines);
    return error;
}

static enum error predict_rows(void *context, const struct trained_model_rows *rows)
{
    struct predicting *predicting = context;
    enum error error =
        model_predict(predicting->trained->model, rows->features, rows->rows, predicting->output);
    for (size_t i = 0; i < rows->rows && !error; i++) {
        add_integer(&predicting->lines, rows->ids[i]);
        buffer_add(&predicting->lines, ",", 1);
        if (!rows->status || rows->status[i] == ROW_OK) /* else zeros are in its place */
            add_label(predicting, rows->labels[i]);
        add_prediction(predicting, predicting->output + i * predicting->outputs);
        error = predicting->lines.error;
    }
    return error ? error : write_lines(predicting);
}

/* Labels are only copied to the output: failing to look them up is no error. */
static void look_up_labels(struct predicting *predicting, const struct store *store)
{
    if (!predicting->classes || predicting->info->label_kind == LABEL_NONE)
        return;
    if (targets_new(predicting->classes, store, &predicting->targets))
        log_warning("labels are written as the store has them: %s", error_message());
}

/* Columns are named "p0" if each class is its own number, else "p_setosa". */
static void add_heading(struct buffer *lines, const struct classes *classes)
{
    bool numbered = true;
    char text[TEXT_INTEGER_BYTES + 1];
    for (size_t i = 0; i < classes->count && numbered; i++) {
        *text_write_integer(text, (int64_t)i) = '\0';
        numbered = strcmp(classes->texts[i], text) == 0;
    }
    for (size_t i = 0; i < classes->count; i++) {
        struct buffer name = BUFFER_INIT(LINES_LIMIT_BYTES);
        buffer_print(&name, numbered ? "p%s" : "p_%s", classes->texts[i]);
        buffer_add_text(lines, ",");
        buffer_add_csv(lines, name.data ? name.data : "");
        lines->error = lines->error ? lines->error : name.error;
        buffer_release(&name);
    }
}

static enum error predict_store(struct predicting *predicting,
                                const struct trained_model_source *source, struct store *store)
{
    const struct model_options *model = model_get_options(predicting->trained->model);
    struct buffer *lines = &predicting->lines;
    predicting->info = store_info(store);
    predicting->classes = checkpoint_get_facts(predicting->trained->checkpoint)->classes;
    predicting->outputs = model->shape.outputs;
    predicting->output = array_new(model->batch_rows * predicting->outputs,
                                   sizeof(*predicting->output), "a batch's predictions");
    if (!predicting->output)
        return ERROR_MEMORY;
    look_up_labels(predicting, store);
    buffer_add_text(lines, "id,label,predicted");
    if (predicting->classes)
        add_heading(lines, predicting->classes);
    buffer_add(lines, "\n", 1);
    enum error error =
        trained_model_run(predicting->trained, source, store, predict_rows, predicting);
    if (!error)
        error = write_lines(predicting);
    if (!error && predicting->not_finite > 0)
        log_warning("%" PRId64 " %s a prediction that is not finite, which says nothing: the "
                    "features are too large for this model",
                    predicting->not_finite,
                    text_plural(predicting->not_finite, "row has", "rows have"));
    return error ? error : output_flush(predicting->out);
}

enum error prediction_run(struct trained_model *trained, const struct trained_model_source *source,
                          struct output *out)
{
    struct predicting predicting = {
        .trained = trained, .lines = BUFFER_INIT(LINES_LIMIT_BYTES), .out = out};
    struct store *store = NULL;
    enum error error = trained_model_open_store(trained, source, &store);

    if (error)
        return error;
    error = predict_store(&predicting, source, store);
    buffer_release(&predicting.lines);
    free(predicting.output);
    targets_free(predicting.targets);
    store_close(store);
    return error;
}
