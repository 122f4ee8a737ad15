/* SPDX-License-Identifier: MIT */
#include "trainer/run/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "trainer/events/event_writer.h"

_Static_assert(EVENT_TAG_BYTES >= MODEL_NAME_BYTES, "a tensor's name is its tag");

/* Sums since the last summary. */
struct window {
    int64_t begin_ns, begin_step, begin_wait_ns;
    int64_t batches, rows, behind; /* `behind`: steps of other workers, summed over the batches */
    int64_t judged, judged_rows, correct;
    double loss; /* per row, summed over the judged batches */
};

struct summary {
    struct summary_options options;
    struct event_writer *writer;
    struct window window;
    int64_t step, wait_ns; /* of the latest batch */
    int64_t interval_ns;
    int64_t tested_step; /* of the latest test, which is shown again at the end */
    int64_t tested_ns;   /* when a test was written last */
    int64_t test_step;   /* of a test that is not written yet; -1: none */
    double test_loss, test_accuracy;
};

static void begin_window(struct summary *summary, int64_t now_ns)
{
    summary->window = (struct window){
        .begin_ns = now_ns, .begin_step = summary->step, .begin_wait_ns = summary->wait_ns};
}

/* Starts a session: TensorBoard forgets its events of step `first` and later ones. */
static void begin_at(struct summary *summary, int64_t first)
{
    event_writer_session(summary->writer, first, EVENT_START, NULL);
    summary->step = first > 0 ? first - 1 : 0;
    begin_window(summary, clock_now_ns());
}

enum error summary_open(const struct summary_options *options, struct summary **ret_summary)
{
    struct summary *summary = array_new(1, sizeof(*summary), "a summary");
    if (!summary)
        return ERROR_MEMORY;
    enum error error = event_writer_open(options->folder, options->below, &summary->writer);
    if (error) {
        free(summary);
        return error;
    }
    summary->options = *options;
    summary->interval_ns = (int64_t)(options->seconds * 1e9);
    summary->test_step = summary->tested_step = -1;
    begin_at(summary, options->step > 0 ? options->step + 1 : 0);
    *ret_summary = summary;
    return OK;
}

static void write_window(struct summary *summary, int64_t now_ns)
{
    const struct window *window = &summary->window;
    const struct summary_options *options = &summary->options;
    struct event_scalar scalars[8];
    size_t count = 0;
    double seconds = (double)(now_ns - window->begin_ns) / 1e9;
    double waited = (double)(summary->wait_ns - window->begin_wait_ns) / 1e9;
    if (summary->step <= window->begin_step)
        return;
    if (window->judged > 0)
        scalars[count++] = (struct event_scalar){"loss", window->loss / (double)window->judged};
    if (window->judged > 0 && options->has_accuracy)
        scalars[count++] = (struct event_scalar){"accuracy", (double)window->correct /
                                                                 (double)window->judged_rows};
    if (seconds > 0) {
        scalars[count++] = (struct event_scalar){"rows_per_s", (double)window->rows / seconds};
        scalars[count++] = (struct event_scalar){
            "steps_per_s", (double)(summary->step - window->begin_step) / seconds};
        scalars[count++] = (struct event_scalar){"wait_for_data", waited / seconds};
    }
    scalars[count++] = (struct event_scalar){
        "learning_rate", (double)optimizer_learning_rate(options->optimizer, summary->step)};
    if (options->has_staleness)
        scalars[count++] =
            (struct event_scalar){"staleness", (double)window->behind / (double)window->batches};
    event_writer_scalars(summary->writer, summary->step, scalars, count);
    begin_window(summary, now_ns);
}

static void write_test(struct summary *summary, int64_t now_ns)
{
    const struct event_scalar scalars[] = {{"test_loss", summary->test_loss},
                                           {"test_accuracy", summary->test_accuracy}};
    if (summary->test_step < 0)
        return;
    event_writer_scalars(summary->writer, summary->test_step, scalars,
                         summary->options.has_accuracy ? 2 : 1);
    summary->tested_ns = now_ns;
    summary->test_step = -1;
}

void summary_close(struct summary *summary)
{
    if (!summary)
        return;
    write_window(summary, clock_now_ns());
    write_test(summary, 0);
    event_writer_session(summary->writer, summary->step, EVENT_STOP, NULL);
    event_writer_close(summary->writer);
    free(summary);
}

static void follow(struct summary *summary, const struct summary_step *step)
{
    struct window *window = &summary->window;
    summary->step = step->step;
    summary->wait_ns = step->wait_ns;
    window->batches++;
    window->rows += step->rows;
    window->behind += step->step > step->before ? step->step - step->before - 1 : 0;
    if (step->judged_rows == 0)
        return;
    window->judged++;
    window->judged_rows += step->judged_rows;
    window->correct += step->correct;
    window->loss += step->loss;
}

void summary_step(struct summary *summary, const struct summary_step *step)
{
    if (!summary)
        return;
    int64_t now_ns = clock_now_ns();
    if (step->step < summary->step) /* a cluster that lost a server went back to its last cut */
        begin_at(summary, step->step);
    follow(summary, step);
    if (now_ns - summary->window.begin_ns >= summary->interval_ns)
        write_window(summary, now_ns);
}

void summary_test(struct summary *summary, int64_t step, double loss, double accuracy)
{
    if (!summary || step == summary->tested_step)
        return;
    int64_t now_ns = clock_now_ns();
    summary->test_step = summary->tested_step = step;
    summary->test_loss = loss;
    summary->test_accuracy = accuracy;
    if (now_ns - summary->tested_ns >= summary->interval_ns)
        write_test(summary, now_ns);
}

void summary_checkpoint(struct summary *summary, int64_t step, const char *path)
{
    if (summary)
        event_writer_session(summary->writer, step, EVENT_CHECKPOINT, path);
}

/* The parameters' tensors, without the optimizer's slots. */
static size_t list_tensors(const struct model_layout *layout, struct event_tensor *ret_tensors)
{
    size_t count = 0;
    for (; count < layout->tensor_count; count++) {
        const struct model_tensor *tensor = &layout->tensors[count];
        if (tensor->offset >= layout->parameters)
            break;
        ret_tensors[count].offset = tensor->offset;
        ret_tensors[count].count = tensor->count;
        snprintf(ret_tensors[count].tag, EVENT_TAG_BYTES, "%s", tensor->name);
    }
    return count;
}

void summary_parameters(struct summary *summary, struct kernel *kernel, struct model *model)
{
    if (!summary)
        return;
    const struct model_layout *layout = model_get_layout(model);
    struct event_tensor *tensors = array_new(layout->tensor_count, sizeof(*tensors), "histograms");
    float *values = array_new(layout->parameters, sizeof(*values), "histograms of parameters");
    if (tensors && values &&
        !kernel_read(kernel, model_values(model), layout->parameters, values)) {
        event_writer_tensors(summary->writer, model_get_step(model), tensors,
                             list_tensors(layout, tensors), values);
        return;
    }
    log_warning("step %" PRId64 " has no histograms: %s", model_get_step(model), error_message());
    free(tensors);
    free(values);
}
