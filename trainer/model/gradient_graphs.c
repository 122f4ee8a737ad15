/* SPDX-License-Identifier: MIT */
#include "trainer/model/gradient_graphs.h"

#include "common/log.h"

void gradient_graphs_init(struct gradient_graphs *graphs, struct kernel *kernel)
{
    *graphs = (struct gradient_graphs){.kernel = kernel, .on = kernel_captures(kernel)};
}

void gradient_graphs_release(struct gradient_graphs *graphs)
{
    for (size_t i = 0; i < graphs->count; i++)
        kernel_graph_free(graphs->kernel, graphs->list[i].graph);
    graphs->count = 0;
}

static struct gradient_graph *find(struct gradient_graphs *graphs, const struct gradient_key *key)
{
    for (size_t i = 0; i < graphs->count; i++) {
        const struct gradient_key *other = &graphs->list[i].key;
        if (other->rows == key->rows && other->values == key->values &&
            other->gradient == key->gradient)
            return &graphs->list[i];
    }
    return NULL;
}

static enum error capture(struct kernel *kernel, enum error (*enqueue)(void *context),
                          void *context, struct kernel_graph **ret_graph)
{
    struct kernel_graph *graph = NULL;
    struct error_report report;
    enum error error = kernel_capture_begin(kernel);
    if (error)
        return error;
    error_report_take(enqueue(context), &report);
    error = kernel_capture_end(kernel, &graph);
    if (report.code) { /* report the first failure */
        kernel_graph_free(kernel, graph);
        return error_restore(&report);
    }
    if (!error)
        *ret_graph = graph;
    return error;
}

enum error gradient_graphs_run(struct gradient_graphs *graphs, const struct gradient_key *key,
                               enum error (*enqueue)(void *context), void *context)
{
    struct gradient_graph *found = graphs->on ? find(graphs, key) : NULL;
    if (graphs->on && !found && graphs->count < GRADIENT_GRAPHS_LIMIT)
        graphs->list[graphs->count++] = (struct gradient_graph){.key = *key};
    if (!found)
        return enqueue(context);
    if (!found->graph && capture(graphs->kernel, enqueue, context, &found->graph)) {
        log_warning("no CUDA graph is used: %s; each operation is launched by itself, with the "
                    "same results",
                    error_message());
        graphs->on = false;
        return enqueue(context);
    }
    return kernel_graph_launch(graphs->kernel, found->graph);
}
