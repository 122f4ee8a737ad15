/*
 * A view beside its frame, one thread: `bench_view URI|FILE DESIGN BATCH SHARE` makes the side of a
 * split that has SHARE of the units, draws from both for a second each, and prints
 *
 *   CPU seconds to make the view, ids a second of the frame, of the view, private memory of the
 * view in kB
 *
 * bench_order.py puts it into a table.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text.h"
#include "sampler/build/frame_build.h"
#include "sampler/design/designs.h"
#include "sampler/frame/frame_view.h"
#include "tests/unit/private_memory.h"

#define SLICES 9
#define SLICE_NS INT64_C(120000000)

/* CPU time: the two are compared, whatever else the machine does. */
static int64_t thread_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double rate_of(const struct order *order, int64_t batch, int64_t *ids, uint32_t *labels)
{
    double rates[SLICES];
    int64_t position = 0;
    for (int i = 0; i < SLICES; i++) {
        int64_t start_ns = thread_now_ns();
        int64_t drawn = 0;
        int64_t passed_ns;
        do {
            for (int64_t drawn_here = 0; drawn_here < 10000; drawn_here += batch) {
                order_units(order, position, batch, ids, labels, NULL);
                position += batch;
                drawn += batch;
            }
            passed_ns = thread_now_ns() - start_ns;
        } while (passed_ns < SLICE_NS);
        rates[i] = 1e9 * (double)drawn / (double)passed_ns;
    }
    qsort(rates, SLICES, sizeof(*rates), compare);
    return rates[SLICES / 2];
}

static enum error measure(const struct frame *frame, const char *design_name, int64_t batch,
                          double *ret_rate)
{
    struct design design = {.name = design_name, .seed = 1};
    struct order *order = NULL;
    int64_t *ids = malloc((size_t)batch * sizeof(*ids));
    uint32_t *labels = malloc((size_t)batch * sizeof(*labels));
    enum error error = order_new(frame, &design, &order);
    if (!error && (!ids || !labels))
        error = error_set_memory((size_t)batch * sizeof(*ids), "a batch");
    if (!error)
        *ret_rate = rate_of(order, batch, ids, labels);
    order_free(order);
    free(labels);
    free(ids);
    return error;
}

static enum error open_frame(const char *source, struct frame **ret_frame)
{
    size_t length = strlen(source);
    if (length > 6 && strcmp(source + length - 6, ".frame") == 0)
        return frame_open(source, ret_frame);
    return frame_build(source, ret_frame);
}

static enum error run(const char *source, const char *design, int64_t batch, double share)
{
    struct split_shares shares = {share, 1 - share, 0};
    struct frame *frame = NULL;
    struct frame *view = NULL;
    double frame_rate = 0;
    double view_rate = 0;
    enum error error = open_frame(source, &frame);
    if (!error)
        error = measure(frame, design, batch, &frame_rate);
    long before_kilobytes = private_memory_kilobytes();
    int64_t start_ns = thread_now_ns();
    if (!error)
        error = frame_view(frame, 0, 0, &shares, SPLIT_TRAIN, &view);
    double start_s = 1e-9 * (double)(thread_now_ns() - start_ns);
    long kilobytes = private_memory_kilobytes() - before_kilobytes;
    if (!error)
        error = measure(view, design, batch, &view_rate);
    if (!error)
        printf("%.6f %.0f %.0f %ld\n", start_s, frame_rate, view_rate, kilobytes);
    frame_free(view);
    frame_free(frame);
    return error;
}

int main(int argc, char **argv)
{
    int64_t batch;
    double share;
    if (argc != 5 || !text_parse_integer(argv[3], strlen(argv[3]), 1, 1000000, &batch) ||
        !text_parse_real(argv[4], strlen(argv[4]), &share) || share <= 0 || share > 1) {
        fprintf(stderr, "usage: bench_view URI|FILE.frame DESIGN BATCH SHARE\n");
        return 2;
    }
    enum error error = run(argv[1], argv[2], batch, share);
    if (error)
        fprintf(stderr, "bench_view: %s\n", error_message());
    return error_exit_status(error);
}
