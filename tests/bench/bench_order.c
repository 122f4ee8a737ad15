/*
 * One order, one thread: `bench_order URI DESIGN BATCH` builds the frame, draws a first batch, then
 * batches for a second, and prints
 *
 *   seconds to the first batch, ids a second (median of 9 slices), private memory in kB
 *
 * bench_order.py puts it into a table beside numpy.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/text.h"
#include "sampler/order.h"
#include "tests/unit/private_memory.h"

#define SLICES 9
#define SLICE_NS INT64_C(120000000)

struct bench {
    struct order *order;
    int64_t batch;
    int64_t position;
    int64_t *ids;     /* [batch] */
    uint32_t *labels; /* [batch] */
};

static void draw(struct bench *bench)
{
    order_units(bench->order, bench->position, (size_t)bench->batch, bench->ids, bench->labels);
    bench->position += bench->batch;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(struct bench *bench)
{
    double rates[SLICES];
    for (int i = 0; i < SLICES; i++) {
        int64_t start_ns = clock_now_ns();
        int64_t drawn = 0;
        int64_t passed_ns;
        do {
            draw(bench);
            drawn += bench->batch;
            passed_ns = clock_now_ns() - start_ns;
        } while (passed_ns < SLICE_NS);
        rates[i] = 1e9 * (double)drawn / (double)passed_ns;
    }
    qsort(rates, SLICES, sizeof(*rates), compare);
    return rates[SLICES / 2];
}

static enum error run(const char *uri, const char *design_name, int64_t batch)
{
    struct bench bench = {.batch = batch};
    struct design design = {.name = design_name, .seed = 1};
    struct frame *frame = NULL;
    int64_t start_ns = clock_now_ns();
    enum error error = frame_build(uri, &frame);
    if (error == OK)
        error = order_new(frame, &design, &bench.order);
    bench.ids = malloc((size_t)batch * sizeof(*bench.ids));
    bench.labels = malloc((size_t)batch * sizeof(*bench.labels));
    if (error == OK && (!bench.ids || !bench.labels))
        error = error_set_memory((size_t)batch * sizeof(*bench.ids), "a batch");
    if (error == OK) {
        draw(&bench);
        double start_s = 1e-9 * (double)(clock_now_ns() - start_ns);
        double rate = measure(&bench);
        printf("%.6f %.0f %ld\n", start_s, rate, private_memory_kilobytes());
    }
    free(bench.labels);
    free(bench.ids);
    order_free(bench.order);
    frame_free(frame);
    return error;
}

int main(int argc, char **argv)
{
    int64_t batch;
    if (argc != 4 || !text_parse_integer(argv[3], strlen(argv[3]), 1, 1000000, &batch)) {
        fprintf(stderr, "usage: bench_order URI DESIGN BATCH\n");
        return 2;
    }
    enum error error = run(argv[1], argv[2], batch);
    if (error != OK)
        fprintf(stderr, "bench_order: %s\n", error_message());
    return error_exit_status(error);
}
