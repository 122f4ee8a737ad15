/* SPDX-License-Identifier: MIT */
/*
 * One order, one thread: `bench_order URI DESIGN BATCH [FIELDS]` builds the frame, draws a first
 * batch, then batches for a second, and prints
 *
 *   seconds to the first batch, ids a second of CPU time (median of 9 slices), private memory in kB
 * beyond the frame's columns, chi-square of batches of 100 against tenths of the rows by its 9
 * degrees of freedom (1 is chance; nothing where a design does not draw all rows alike)
 *
 * DESIGN `weighted` gets weights 1 to 1000, `cluster` groups of about a thousand units; `alias`
 * draws with the same weights from an alias table (M. D. Vose, 1991), to compare.
 * bench_order.py puts it into a table beside peers.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/text.h"
#include "sampler/build/frame_build.h"
#include "sampler/design/designs.h"
#include "sampler/frame/frame_private.h"
#include "sampler/shuffle/random.h"
#include "tests/unit/order_unit.h"
#include "tests/unit/private_memory.h"

#define SLICES 9
#define SLICE_NS INT64_C(120000000)
#define LOOK_UNITS 16384 /* between two looks at the clock, which is a system call */
#define CHI_BATCHES 20000
#define CHI_BATCH 100
#define GROUP_UNITS 1000

/* Unit i with probability threshold[i] / 2^32, else other[i], i uniform. */
struct alias {
    uint32_t *threshold; /* [N] */
    uint32_t *other;     /* [N] */
};

struct bench {
    struct frame *frame;
    struct order *order;
    struct alias alias;
    int64_t batch;
    int64_t position;
    int64_t *ids;     /* [batch] */
    uint32_t *labels; /* [batch] */
};

/* ---- the alias table ---------------------------------------------------- */

static enum error alias_new(struct alias *alias, const double *weights, size_t units)
{
    double sum = 0;
    size_t small = 0;
    size_t large = 0;
    double *scaled = array_new(units, sizeof(*scaled), "an alias table");
    uint32_t *stack = array_new(units, sizeof(*stack), "an alias table");
    alias->threshold = array_new(units, sizeof(*alias->threshold), "an alias table");
    alias->other = array_new(units, sizeof(*alias->other), "an alias table");
    enum error error = scaled && stack && alias->threshold && alias->other ? OK : ERROR_MEMORY;
    for (size_t i = 0; !error && i < units; i++)
        sum += weights[i];
    for (size_t i = 0; !error && i < units; i++) { /* small ones in front, large ones behind */
        scaled[i] = weights[i] / sum * (double)units;
        alias->other[i] = (uint32_t)i;
        stack[scaled[i] < 1 ? small++ : units - ++large] = (uint32_t)i;
    }
    while (!error && small > 0 && large > 0) {
        uint32_t low = stack[--small];
        uint32_t high = stack[units - large];
        alias->threshold[low] = (uint32_t)(scaled[low] * 4294967295.0);
        alias->other[low] = high;
        scaled[high] -= 1 - scaled[low];
        if (scaled[high] < 1) {
            large--;
            stack[small++] = high;
        }
    }
    free(scaled);
    free(stack);
    return error;
}

static void alias_draw(const struct bench *bench, struct random_key key)
{
    uint64_t units = (uint64_t)frame_units(bench->frame);
    for (int64_t i = 0; i < bench->batch; i++) {
        uint64_t p = (uint64_t)(bench->position + i);
        uint64_t unit = random_below(key, p, units);
        bool keeps = (uint32_t)random_mix(p ^ key.second) <= bench->alias.threshold[unit];
        bench->ids[i] = keeps ? (int64_t)unit : (int64_t)bench->alias.other[unit];
    }
    frame_gather_labels(bench->frame, bench->ids, (size_t)bench->batch, bench->labels);
    frame_gather_ids(bench->frame, bench->ids, (size_t)bench->batch, bench->ids);
}

/* ---- drawing ------------------------------------------------------------ */

static int64_t draw(struct bench *bench)
{
    size_t units = (size_t)bench->batch;
    if (bench->order)
        units = order_units(bench->order, bench->position, bench->batch, bench->ids, bench->labels,
                            NULL);
    else
        alias_draw(bench, (struct random_key){.first = 1, .second = 2});
    bench->position += bench->batch;
    return (int64_t)units;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of this thread, so that a busy machine does not show. */
static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static double measure(struct bench *bench)
{
    double rates[SLICES];
    for (int i = 0; i < SLICES; i++) {
        int64_t start_ns = cpu_ns();
        int64_t drawn = 0;
        int64_t passed_ns;
        do {
            for (int64_t units = 0; units < LOOK_UNITS; units += bench->batch)
                drawn += draw(bench);
            passed_ns = cpu_ns() - start_ns;
        } while (passed_ns < SLICE_NS);
        rates[i] = 1e9 * (double)drawn / (double)passed_ns;
    }
    qsort(rates, SLICES, sizeof(*rates), compare);
    return rates[SLICES / 2];
}

/* Batches from all over the first epochs. */
static double chi_square(const struct bench *bench)
{
    double chi = 0;
    double units = (double)frame_units(bench->frame);
    int64_t step = order_epoch_positions(bench->order) / CHI_BATCHES;
    for (int64_t i = 0; i < CHI_BATCHES; i++) {
        int64_t rows[CHI_BATCH];
        int counts[10] = {0};
        size_t found =
            order_rows(bench->order, i * (step > CHI_BATCH ? step : CHI_BATCH), CHI_BATCH, rows);
        for (size_t k = 0; k < found; k++)
            counts[(int)((double)rows[k] / units * 10)]++;
        for (int k = 0; k < 10; k++)
            chi += ((double)counts[k] - (double)found / 10) *
                   ((double)counts[k] - (double)found / 10) / ((double)(found + !found) / 10);
    }
    return chi / CHI_BATCHES / 9;
}

/* ---- the frame ---------------------------------------------------------- */

static enum error add_weights(struct frame *frame)
{
    frame->weights = array_new((size_t)frame->units, sizeof(double), "weights");
    for (int64_t row = 0; frame->weights && row < frame->units; row++)
        frame->weights[row] = (double)(1 + random_mix((uint64_t)row) % 1000);
    return frame->weights ? OK : ERROR_MEMORY;
}

static enum error add_columns(struct frame *frame, const char *design)
{
    if (strcmp(design, "weighted") == 0 || strcmp(design, "alias") == 0)
        return add_weights(frame);
    if (strcmp(design, "cluster") != 0)
        return OK;
    frame->has_groups = true; /* of two sizes, so that a table is needed */
    return partition_of_range(&frame->groups, frame->units,
                              (uint32_t)(frame->units / GROUP_UNITS) + 7);
}

static enum error start(struct bench *bench, const char *name, const char *fields)
{
    bool weighted = strcmp(name, "weighted") == 0;
    if (strcmp(name, "alias") == 0)
        return alias_new(&bench->alias, bench->frame->weights, (size_t)frame_units(bench->frame));
    struct design design = {
        .name = name, .seed = 1, .fields = fields, .replacement = weighted && fields[0] == '\0'};
    return order_new(bench->frame, &design, &bench->order);
}

static bool draws_all_alike(const char *name)
{
    static const char *const others[] = {"alias", "weighted", "systematic", "cluster",
                                         "sequential"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(name, others[i]) == 0)
            return false;
    }
    return true;
}

static enum error run(struct bench *bench, const char *uri, const char *name, const char *fields)
{
    enum error error = frame_build(uri, &bench->frame);
    if (!error)
        error = add_columns(bench->frame, name);
    if (error)
        return error;
    long kilobytes = private_memory_kilobytes();
    if (!bench->frame->weights) /* all of it counts, the program's own too */
        kilobytes = 0;
    int64_t start_ns = clock_now_ns();
    error = start(bench, name, fields);
    if (error)
        return error;
    draw(bench);
    double start_s = 1e-9 * (double)(clock_now_ns() - start_ns);
    double rate = measure(bench);
    printf("%.6f %.0f %ld", start_s, rate, private_memory_kilobytes() - kilobytes);
    if (draws_all_alike(name))
        printf(" %.3f", chi_square(bench));
    printf("\n");
    return OK;
}

int main(int argc, char **argv)
{
    struct bench bench = {.batch = 0};
    if (argc < 4 || argc > 5 ||
        !text_parse_integer(argv[3], strlen(argv[3]), 1, 1000000, &bench.batch)) {
        fprintf(stderr, "usage: bench_order URI DESIGN BATCH [FIELDS]\n");
        return 2;
    }
    bench.ids = malloc((size_t)bench.batch * sizeof(*bench.ids));
    bench.labels = malloc((size_t)bench.batch * sizeof(*bench.labels));
    enum error error = bench.ids && bench.labels
                           ? run(&bench, argv[1], argv[2], argc == 5 ? argv[4] : "")
                           : error_set_memory((size_t)bench.batch * sizeof(*bench.ids), "a batch");
    if (error)
        fprintf(stderr, "bench_order: %s\n", error_message());
    order_free(bench.order);
    free(bench.alias.threshold);
    free(bench.alias.other);
    free(bench.labels);
    free(bench.ids);
    frame_free(bench.frame);
    return error_exit_status(error);
}
