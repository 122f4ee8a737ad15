/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/device/device: The same checks on every device there is; the CPU is the reference.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>

#include "common/log.h"
#include "loader/device/device.h"

#define COUNT 10007

/* NULL where the machine does not have it: the test is skipped, with the reason. */
static struct device *open_or_skip(void **state)
{
    const char *name = *state;
    struct device *device = NULL;
    enum error error = device_open(name, &device);
    if (error == ERROR_UNAVAILABLE) {
        print_message("# skipped: %s\n", error_message());
        skip();
    }
    assert_ok(error);
    return device;
}

static void test_memory(void **state)
{
    struct device *device = open_or_skip(state);
    static const size_t sizes[] = {0, 1, 4095, 4096, 1 << 20};
    struct device_queue *queue;
    assert_ok(device_queue_new(device, &queue));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *host, *memory;
        assert_ok(device_host_new(device, sizes[i], &host));
        assert_ok(device_memory_new(device, sizes[i], &memory));
        assert_int_equal((uintptr_t)host % 4096, 0);
        assert_int_equal((uintptr_t)memory % 256, 0);
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(((char *)host)[at], 0);
        memset(host, 0xff, sizes[i]);
        assert_ok(device_copy_out(device, queue, host, memory, sizes[i]));
        assert_ok(device_queue_wait(device, queue));
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(((char *)host)[at], 0);
        device_host_free(device, host);
        device_memory_free(device, memory);
    }
    device_host_free(device, NULL);
    device_memory_free(device, NULL);
    device_queue_free(device, queue);
    device_queue_free(device, NULL);
    device_close(device);
    device_close(NULL);
}

/* What was given back comes again as zeros. Blocks smaller than one that was given back do so:
 * malloc() keeps them. */
static void test_memory_that_comes_again(void **state)
{
    enum { MOST = 12 << 20, LESS = 4 << 20 };
    static const size_t sizes[] = {MOST, LESS, LESS, LESS};
    static uint8_t ones[MOST], back[MOST];
    static const uint8_t zeros[MOST];
    struct device *device = open_or_skip(state);
    struct device_queue *queue;
    assert_ok(device_queue_new(device, &queue));
    memset(ones, 0xff, MOST);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *memory;
        assert_ok(device_memory_new(device, sizes[i], &memory));
        assert_ok(device_copy_out(device, queue, back, memory, sizes[i]));
        assert_ok(device_copy_in(device, queue, memory, ones, sizes[i]));
        assert_ok(device_queue_wait(device, queue));
        assert_true(memcmp(back, zeros, sizes[i]) == 0);
        device_memory_free(device, memory);
    }
    device_queue_free(device, queue);
    device_close(device);
}

/* Is memory refused of which no machine has so much? */
static bool promises_have_an_end(void)
{
    char mode = '1';
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    bool known = file && fread(&mode, 1, 1, file) == 1;
    if (file)
        fclose(file);
    return known && mode != '1';
}

static void test_too_much_memory(void **state)
{
    struct device *device = open_or_skip(state);
    void *memory;
    assert_int_equal(device_memory_new(device, (size_t)1 << 60, &memory), ERROR_MEMORY);
    assert_int_equal(device_host_new(device, SIZE_MAX, &memory), ERROR_MEMORY);
    if (promises_have_an_end())
        assert_int_equal(device_memory_new(device, (size_t)1 << 45, &memory), ERROR_MEMORY);
    struct device_queue *queue;
    assert_ok(device_queue_new(device, &queue)); /* the failures are forgotten */
    assert_ok(device_memory_new(device, 100, &memory));
    assert_ok(device_scale_f32(device, queue, memory, memory, 25, 1));
    assert_ok(device_queue_wait(device, queue));
    device_memory_free(device, memory);
    device_queue_free(device, queue);
    device_close(device);
}

static void test_copies_in_and_out(void **state)
{
    struct device *device = open_or_skip(state);
    struct device_queue *queue;
    void *host, *memory;
    uint8_t back[COUNT];
    assert_ok(device_queue_new(device, &queue));
    assert_ok(device_host_new(device, COUNT, &host));
    assert_ok(device_memory_new(device, COUNT, &memory));
    for (size_t i = 0; i < COUNT; i++)
        ((uint8_t *)host)[i] = (uint8_t)(i * i);
    assert_ok(device_copy_in(device, queue, memory, host, COUNT));
    assert_ok(device_copy_out(device, queue, back, memory, COUNT));
    assert_ok(device_queue_wait(device, queue));
    assert_memory_equal(back, host, COUNT);
    device_host_free(device, host);
    device_memory_free(device, memory);
    device_queue_free(device, queue);
    device_close(device);
}

/* ---- arithmetic, bit for bit -------------------------------------------- */

struct bench {
    struct device *device;
    struct device_queue *queue;
    void *source, *target; /* device memory */
    float *out;            /* [COUNT], host */
};

static void bench_init(struct bench *bench, void **state)
{
    void *out;
    bench->device = open_or_skip(state);
    assert_ok(device_queue_new(bench->device, &bench->queue));
    assert_ok(device_memory_new(bench->device, COUNT * sizeof(float) + 64, &bench->source));
    assert_ok(device_memory_new(bench->device, COUNT * sizeof(float) + 64, &bench->target));
    assert_ok(device_host_new(bench->device, COUNT * sizeof(float), &out));
    bench->out = out;
}

static void bench_release(struct bench *bench)
{
    device_host_free(bench->device, bench->out);
    device_memory_free(bench->device, bench->target);
    device_memory_free(bench->device, bench->source);
    device_queue_free(bench->device, bench->queue);
    device_close(bench->device);
}

static void u8_to_f32(struct bench *bench, const uint8_t *bytes, size_t offset, size_t count,
                      float scale)
{
    uint8_t *source = (uint8_t *)bench->source + offset;
    float *target = (float *)bench->target + offset % 2; /* at 2 the source alone is not aligned */
    assert_ok(device_copy_in(bench->device, bench->queue, source, bytes, count));
    assert_ok(device_u8_to_f32(bench->device, bench->queue, target, source, count, scale));
    assert_ok(
        device_copy_out(bench->device, bench->queue, bench->out, target, count * sizeof(float)));
    assert_ok(device_queue_wait(bench->device, bench->queue));
}

static void test_expands_bytes(void **state)
{
    static const float scales[] = {1.0f / 255, 1.0f,  0.1f,     1e-41f /* subnormal */,
                                   -3.7e30f,   1e38f, 0x1p-20f, 0.0f};
    static const size_t counts[] = {0, 1, 3, 4, 5, 255, 256, 1023, 9999};
    struct bench bench;
    uint8_t bytes[COUNT];
    bench_init(&bench, state);
    for (size_t i = 0; i < COUNT; i++)
        bytes[i] = (uint8_t)(i + i / 256); /* each byte at each place of a vector */
    for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            for (size_t offset = 0; offset < 4; offset++) {
                u8_to_f32(&bench, bytes, offset, counts[c], scales[s]);
                for (size_t i = 0; i < counts[c]; i++) {
                    float right = (float)bytes[i] * scales[s];
                    assert_memory_equal(&bench.out[i], &right, sizeof(right));
                }
            }
        }
    }
    bench_release(&bench);
}

static void test_scales_floats(void **state)
{
    static const float values[] = {0.0f,     -0.0f,    1.0f,      -1.0f,     0.1f,
                                   3.4e38f,  -3.4e38f, 1.2e-38f,  1e-42f,    -1e-45f,
                                   123.456f, INFINITY, -INFINITY, 0x1p-149f, 16777217.0f};
    static const float scales[] = {1.0f / 255, 2.0f, -0.3f, 1e-30f};
    const size_t kinds = sizeof(values) / sizeof(values[0]);
    struct bench bench;
    bench_init(&bench, state); /* may skip */
    float *input = malloc(COUNT * sizeof(float));
    assert_non_null(input);
    for (size_t i = 0; i < COUNT; i++)
        input[i] = values[(i + i / kinds) % kinds];
    for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++) {
        for (size_t offset = 0; offset < 3; offset++) {
            float *source = (float *)bench.source + (offset + 1) / 2;
            float *target = (float *)bench.target + offset % 2;
            size_t count = COUNT - s;
            assert_ok(
                device_copy_in(bench.device, bench.queue, source, input, count * sizeof(float)));
            assert_ok(
                device_scale_f32(bench.device, bench.queue, target, source, count, scales[s]));
            assert_ok(device_scale_f32(bench.device, bench.queue, source, source, count, 1.0f));
            assert_ok(device_copy_out(bench.device, bench.queue, bench.out, target,
                                      count * sizeof(float)));
            assert_ok(device_queue_wait(bench.device, bench.queue));
            for (size_t i = 0; i < count; i++) {
                float right = input[i] * scales[s];
                assert_memory_equal(&bench.out[i], &right, sizeof(right));
            }
        }
    }
    bench_release(&bench);
    free(input);
}

/* ---- labels ------------------------------------------------------------- */

/* A code that is none is a row of zeros, and nothing beside the rows is written. */
static void one_hot(struct device *device, struct device_queue *queue, size_t rows, size_t classes,
                    bool as_floats)
{
    size_t item = as_floats ? sizeof(float) : 1, made = rows * classes * item + 8;
    void *host, *codes, *to, *back;
    assert_ok(device_host_new(device, rows * sizeof(uint32_t), &host));
    assert_ok(device_host_new(device, made, &back));
    assert_ok(device_memory_new(device, rows * sizeof(uint32_t), &codes));
    assert_ok(device_memory_new(device, made, &to));
    uint32_t *given = host;
    for (size_t i = 0; i < rows; i++)
        given[i] = i % 7 == 6 ? UINT32_MAX - (uint32_t)i : (uint32_t)((5 * i + 3) % (classes + 1));
    memset(back, 0xa5, made);
    assert_ok(device_copy_in(device, queue, to, back, made)); /* was written before */
    assert_ok(device_copy_in(device, queue, codes, host, rows * sizeof(uint32_t)));
    assert_ok(device_one_hot(device, queue, to, codes, rows, classes, as_floats));
    assert_ok(device_queue_wait(device, queue));
    assert_ok(device_copy_out(device, queue, back, to, made));
    assert_ok(device_queue_wait(device, queue));
    for (size_t i = 0; i < rows * classes; i++) {
        bool hot = given[i / classes] == i % classes;
        if (as_floats)
            assert_true(((float *)back)[i] == (hot ? 1.0f : 0.0f));
        else
            assert_int_equal(((uint8_t *)back)[i], hot);
    }
    for (size_t i = made - 8; i < made; i++)
        assert_int_equal(((uint8_t *)back)[i], 0xa5);
    device_host_free(device, host);
    device_host_free(device, back);
    device_memory_free(device, codes);
    device_memory_free(device, to);
}

static void test_one_hot_rows(void **state)
{
    static const size_t shapes[][2] = {{1, 1}, {100, 10}, {37, 3}, {8, 1001}, {5000, 47}, {0, 10}};
    struct bench bench;
    bench_init(&bench, state); /* may skip */
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        one_hot(bench.device, bench.queue, shapes[i][0], shapes[i][1], true);
        one_hot(bench.device, bench.queue, shapes[i][0], shapes[i][1], false);
    }
    bench_release(&bench);
}

/* ---- rows from anywhere ------------------------------------------------- */

/* [ROWS_THERE, columns] of bytes, gathered as they are, as u8 and as f32, with and without moments,
 * are what the steps one by one make of them. */
static void gather(struct device *device, struct device_queue *queue, size_t count, size_t columns,
                   size_t offset, size_t gap)
{
    enum { ROWS_THERE = 37 };
    size_t stride = columns + gap;
    size_t bytes = ROWS_THERE * stride * sizeof(float) + 64;
    size_t made = count * columns * sizeof(float) + 64;
    struct device_rows from = {.count = count, .columns = columns};
    void *host, *host_places, *rows, *places, *to, *back, *mean, *deviation;
    assert_ok(device_host_new(device, bytes, &host));
    assert_ok(device_host_new(device, count * sizeof(uint32_t), &host_places));
    assert_ok(device_host_new(device, made, &back));
    assert_ok(device_memory_new(device, bytes, &rows));
    assert_ok(device_memory_new(device, count * sizeof(uint32_t), &places));
    assert_ok(device_memory_new(device, made, &to));
    assert_ok(device_memory_new(device, columns * sizeof(float), &mean));
    assert_ok(device_memory_new(device, columns * sizeof(float), &deviation));
    float *moments = calloc(2 * columns + 1, sizeof(*moments));
    assert_non_null(moments);
    for (size_t i = 0; i < columns; i++) {
        moments[i] = 0.37f * (float)i;
        moments[columns + i] = 0.1f + (float)(i % 5);
    }
    assert_ok(device_copy_in(device, queue, mean, moments, columns * sizeof(float)));
    assert_ok(device_copy_in(device, queue, deviation, moments + columns, columns * sizeof(float)));
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)host)[i] = (uint8_t)(i * 7 + i / 251 + 64);
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)host_places)[i] = (uint32_t)((i * i + 3) % ROWS_THERE);
    assert_ok(device_copy_in(device, queue, rows, host, bytes));
    assert_ok(device_copy_in(device, queue, places, host_places, count * sizeof(uint32_t)));
    assert_ok(device_queue_wait(device, queue));
    from.places = places;
    for (int kind = 0; kind < 5; kind++) {
        bool floats = kind >= 3, normal = kind == 2 || kind == 4;
        float *target = (float *)to + offset;
        const char *source = (const char *)rows + offset * (floats ? sizeof(float) : 1);
        from.rows = source;
        from.stride_bytes = stride * (floats ? sizeof(float) : 1);
        assert_ok(kind == 0 ? device_gather(device, queue, target, &from)
                  : floats  ? device_gather_f32(device, queue, target, &from, normal ? mean : NULL,
                                               normal ? deviation : NULL)
                            : device_gather_u8(device, queue, target, &from, 0.3f,
                                              normal ? mean : NULL, normal ? deviation : NULL));
        assert_ok(device_copy_out(device, queue, back, to, made));
        assert_ok(device_queue_wait(device, queue));
        for (size_t i = 0; i < count * columns; i++) {
            size_t at = ((uint32_t *)host_places)[i / columns] * stride + i % columns;
            uint8_t byte = ((uint8_t *)host)[offset + at];
            float right = (float)byte * 0.3f;
            if (floats)
                memcpy(&right, (float *)host + offset + at, sizeof(right));
            if (normal) {
                right = right - moments[i % columns];
                right = right / moments[columns + i % columns];
            }
            if (kind == 0)
                assert_int_equal(((uint8_t *)((float *)back + offset))[i], byte);
            else if (memcmp((float *)back + offset + i, &right, sizeof(right)) != 0)
                fail_msg("kind %d, element %zu is %a, not %a", kind, i,
                         (double)((float *)back)[offset + i], (double)right);
        }
        for (size_t i = 0; i < offset * sizeof(float); i++) /* before the rows all is as it was */
            assert_int_equal(((uint8_t *)back)[i], 0);
    }
    free(moments);
    device_host_free(device, host);
    device_host_free(device, host_places);
    device_host_free(device, back);
    device_memory_free(device, rows);
    device_memory_free(device, places);
    device_memory_free(device, to);
    device_memory_free(device, mean);
    device_memory_free(device, deviation);
}

static void test_gathers_rows(void **state)
{
    struct device *device = open_or_skip(state);
    static const size_t columns[] = {1, 3, 4, 16, 37, 784, 1500};
    struct device_queue *queue;
    assert_ok(device_queue_new(device, &queue));
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        for (size_t offset = 0; offset < 3; offset++) {
            gather(device, queue, 1, columns[i], offset, 0);
            gather(device, queue, 100, columns[i], offset, 0);
            gather(device, queue, 50, columns[i], offset, 3);
            gather(device, queue, 50, columns[i], offset, 16);
        }
    }
    gather(device, queue, 0, 4, 0, 0);
    gather(device, queue, 4096 + 7, 3, 0, 0); /* more rows than a grid has blocks */
    device_queue_free(device, queue);
    device_close(device);
}

static void test_tells_what_memory_is_left(void **state)
{
    struct device *device = open_or_skip(state);
    uint64_t before, now;
    void *memory;
    assert_ok(device_memory_left(device, &before));
    assert_ok(device_memory_new(device, 64 << 20, &memory));
    assert_ok(device_memory_left(device, &now));
    assert_true(before > 0);
    if (device->kind == DEVICE_CUDA)
        assert_true(now <= before - (64 << 20));
    device_memory_free(device, memory);
    device_close(device);
}

/* More elements than a grid has threads; what is behind the rows stays as it is. */
static void test_normalizes_floats(void **state)
{
    enum { COLUMNS = 7, ROWS = 4096 * 256 / COLUMNS + 3, MANY = ROWS * COLUMNS + 1 };
    static const float mean[COLUMNS] = {0, 0.1307f, -3, 1e-30f, 3e38f, 255, 0.5f};
    static const float deviation[COLUMNS] = {1, 0.3081f, 3, 1e-38f, 2e38f, 0.1f, 7};
    struct device *device = open_or_skip(state);
    struct device_queue *queue;
    void *host, *x, *means, *deviations;
    assert_ok(device_queue_new(device, &queue));
    assert_ok(device_host_new(device, MANY * sizeof(float), &host));
    assert_ok(device_memory_new(device, MANY * sizeof(float), &x));
    assert_ok(device_memory_new(device, sizeof(mean), &means));
    assert_ok(device_memory_new(device, sizeof(deviation), &deviations));
    assert_ok(device_copy_in(device, queue, means, mean, sizeof(mean)));
    assert_ok(device_copy_in(device, queue, deviations, deviation, sizeof(deviation)));
    for (size_t i = 0; i < MANY; i++)
        ((float *)host)[i] = (float)(i % 1013) * (i % 3 ? 0.37f : -1e35f);
    assert_ok(device_copy_in(device, queue, x, host, MANY * sizeof(float)));
    assert_ok(device_normalize_f32(device, queue, x, 0, COLUMNS, means, deviations));
    assert_ok(device_normalize_f32(device, queue, x, ROWS, COLUMNS, means, deviations));
    assert_ok(device_copy_out(device, queue, host, x, MANY * sizeof(float)));
    assert_ok(device_queue_wait(device, queue));
    for (size_t i = 0; i < MANY; i++) {
        float value = (float)(i % 1013) * (i % 3 ? 0.37f : -1e35f);
        float centred = value - mean[i % COLUMNS];
        float right = i + 1 < MANY ? centred / deviation[i % COLUMNS] : value;
        if (memcmp(&((float *)host)[i], &right, sizeof(right)) != 0)
            fail_msg("element %zu is %g, not %g", i, (double)((float *)host)[i], (double)right);
    }
    device_memory_free(device, x);
    device_memory_free(device, means);
    device_memory_free(device, deviations);
    device_host_free(device, host);
    device_queue_free(device, queue);
    device_close(device);
}

/* A grid has at most 4096 blocks of 256 threads here, of one or four elements each. */
static void test_more_elements_than_a_grid_takes(void **state)
{
    enum { MANY = 4096 * 256 * 4 + 4096 * 3 + 1 };
    struct device *device = open_or_skip(state);
    struct device_queue *queue;
    void *bytes, *floats, *source, *target;
    assert_ok(device_queue_new(device, &queue));
    assert_ok(device_host_new(device, MANY, &bytes));
    assert_ok(device_host_new(device, (size_t)MANY * sizeof(float), &floats));
    assert_ok(device_memory_new(device, MANY, &source));
    assert_ok(device_memory_new(device, (size_t)MANY * sizeof(float), &target));
    for (size_t i = 0; i < MANY; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(i * 7 + i / 4096);
    assert_ok(device_copy_in(device, queue, source, bytes, MANY));
    for (size_t offset = 0; offset < 2; offset++) { /* by four, by one */
        size_t count = (offset == 0 ? MANY : MANY / 4 + 2) - offset;
        float *to = (float *)target + offset;
        assert_ok(
            device_u8_to_f32(device, queue, to, (uint8_t *)source + offset, count, 1.0f / 255));
        assert_ok(device_scale_f32(device, queue, to, to, count, 3));
        assert_ok(device_copy_out(device, queue, floats, to, count * sizeof(float)));
        assert_ok(device_queue_wait(device, queue));
        for (size_t i = 0; i < count; i++) {
            float right = (float)((uint8_t *)bytes)[offset + i] * (1.0f / 255) * 3;
            if (((float *)floats)[i] != right)
                fail_msg("element %zu of %zu is %g, not %g", i, count, (double)((float *)floats)[i],
                         (double)right);
        }
    }
    device_memory_free(device, source);
    device_memory_free(device, target);
    device_host_free(device, bytes);
    device_host_free(device, floats);
    device_queue_free(device, queue);
    device_close(device);
}

/* What comes behind the elements, and before them, stays as it is. */
static void test_writes_only_its_elements(void **state)
{
    static const uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    float around[24];
    struct bench bench;
    bench_init(&bench, state);
    for (size_t i = 0; i < 24; i++)
        around[i] = -1;
    for (size_t count = 0; count < 16; count++) {
        for (size_t offset = 4; offset < 6; offset++) {
            float *target = (float *)bench.target + offset;
            assert_ok(
                device_copy_in(bench.device, bench.queue, bench.target, around, sizeof(around)));
            assert_ok(device_copy_in(bench.device, bench.queue, bench.source, bytes, 16));
            assert_ok(device_u8_to_f32(bench.device, bench.queue, target, bench.source, count, 1));
            assert_ok(device_scale_f32(bench.device, bench.queue, target, target, count, 2));
            assert_ok(device_copy_out(bench.device, bench.queue, bench.out, bench.target,
                                      sizeof(around)));
            assert_ok(device_queue_wait(bench.device, bench.queue));
            for (size_t i = 0; i < 24; i++)
                assert_true(bench.out[i] ==
                            (i < offset || i >= offset + count ? -1 : 2 * bytes[i - offset]));
        }
    }
    bench_release(&bench);
}

/* ---- queues and events -------------------------------------------------- */

static void test_a_mark_orders_two_queues(void **state)
{
    struct device *device = open_or_skip(state);
    enum { BYTES = 1 << 22 };
    struct device_queue *first, *second, *borrowed;
    struct device_event *event;
    void *host, *memory, *back;
    assert_ok(device_queue_new(device, &first));
    assert_ok(device_queue_new(device, &second));
    assert_ok(device_event_new(device, &event));
    assert_ok(device_host_new(device, BYTES, &host));
    assert_ok(device_host_new(device, BYTES, &back));
    assert_ok(device_memory_new(device, BYTES, &memory));
    assert_ok(device_event_wait(device, event)); /* never set: reached */
    assert_ok(device_queue_await(device, second, event));
    for (int round = 1; round <= 20; round++) {
        memset(host, round, BYTES);
        assert_ok(device_copy_in(device, first, memory, host, BYTES));
        assert_ok(device_event_record(device, event, first));
        assert_ok(device_queue_await(device, second, event));
        assert_ok(device_copy_out(device, second, back, memory, BYTES));
        assert_ok(device_event_record(device, event, second));
        assert_ok(device_event_wait(device, event));
        assert_int_equal(((char *)back)[0], round);
        assert_int_equal(((char *)back)[BYTES - 1], round);
    }
    assert_ok(device_queue_borrow(device, device_queue_native(device, first), &borrowed));
    assert_ptr_equal(device_queue_native(device, borrowed), device_queue_native(device, first));
    assert_ok(device_queue_wait(device, borrowed));
    device_queue_free(device, borrowed);
    assert_ok(device_queue_wait(device, first)); /* still there */
    device_host_free(device, host);
    device_host_free(device, back);
    device_memory_free(device, memory);
    device_event_free(device, event);
    device_event_free(device, NULL);
    device_queue_free(device, first);
    device_queue_free(device, second);
    device_close(device);
}

static void *work(void *context)
{
    struct device *device = context;
    struct device_queue *queue;
    uint8_t bytes[256];
    float floats[256];
    void *source, *target;
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    if (device_queue_new(device, &queue) || device_memory_new(device, 256, &source) ||
        device_memory_new(device, 1024, &target) ||
        device_copy_in(device, queue, source, bytes, 256) ||
        device_u8_to_f32(device, queue, target, source, 256, 0.5f) ||
        device_copy_out(device, queue, floats, target, 1024) || device_queue_wait(device, queue))
        return "failed";
    device_memory_free(device, source);
    device_memory_free(device, target);
    device_queue_free(device, queue);
    return floats[255] == 127.5f ? NULL : "wrong";
}

struct leftover {
    struct device *device;
    struct device_queue *queue;
    struct device_event *event;
    void *host, *memory;
};

static void *free_memory(void *context)
{
    struct leftover *all = context;
    device_memory_free(all->device, all->memory);
    return NULL;
}

static void *free_host(void *context)
{
    struct leftover *all = context;
    device_host_free(all->device, all->host);
    return NULL;
}

static void *free_event(void *context)
{
    struct leftover *all = context;
    device_event_free(all->device, all->event);
    return NULL;
}

static void *free_queue(void *context)
{
    struct leftover *all = context;
    device_queue_free(all->device, all->queue);
    return NULL;
}

/* Threads that never did anything else with the device. */
static void test_threads_that_only_free(void **state)
{
    void *(*const frees[])(void *) = {free_memory, free_host, free_event, free_queue};
    struct leftover all = {.device = open_or_skip(state)};
    assert_ok(device_queue_new(all.device, &all.queue));
    assert_ok(device_event_new(all.device, &all.event));
    assert_ok(device_host_new(all.device, 100, &all.host));
    assert_ok(device_memory_new(all.device, 100, &all.memory));
    for (size_t i = 0; i < 4; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, frees[i], &all), 0);
        pthread_join(thread, NULL);
    }
    device_close(all.device);
}

static void test_many_threads(void **state)
{
    struct device *device = open_or_skip(state);
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, device), 0);
    for (size_t i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    device_close(device);
}

/* ---- two GPUs ----------------------------------------------------------- */

/* The emulation's, in a program that has it. */
int emulated_gpu_of(const void *memory) __attribute__((weak));

/* As the pieces of one program that use one GPU each from one thread. */
static void test_in_turn_with_the_second(void **state)
{
    char *names[] = {"cuda:0", "cuda:1"};
    struct bench benches[2];
    struct device_queue *defaults[2];
    struct device_event *events[2];
    uint8_t bytes[2][COUNT];
    (void)state;
    for (int i = 1; i >= 0; i--) { /* the second may be missing */
        void *name = names[i];
        bench_init(&benches[i], &name);
        if (emulated_gpu_of)
            assert_int_equal(emulated_gpu_of(benches[i].target), i);
        memset(bytes[i], i + 1, COUNT);
    }
    /* Each call comes after one for the other GPU. */
#define ON_BOTH(call)                      \
    for (int i = 0; i < 2; i++) {          \
        struct bench *b = &benches[i];     \
        struct device *device = b->device; \
        assert_ok(call);                   \
    }
    ON_BOTH(device_queue_borrow(device, NULL, &defaults[i]));
    ON_BOTH(device_event_new(device, &events[i]));
    ON_BOTH(device_copy_in(device, defaults[i], b->source, bytes[i], COUNT));
    ON_BOTH(device_event_record(device, events[i], defaults[i]));
    ON_BOTH(device_queue_await(device, b->queue, events[i]));
    ON_BOTH(device_u8_to_f32(device, b->queue, b->target, b->source, COUNT, 4));
    ON_BOTH(device_event_record(device, events[i], b->queue));
    ON_BOTH(device_queue_await(device, defaults[i], events[i]));
    ON_BOTH(device_scale_f32(device, defaults[i], b->target, b->target, COUNT, 0.5f));
    ON_BOTH(device_copy_out(device, defaults[i], b->out, b->target, COUNT * sizeof(float)));
    ON_BOTH(device_queue_wait(device, defaults[i]));
    for (int i = 0; i < 2; i++) {
        for (size_t at = 0; at < COUNT; at++)
            assert_true(benches[i].out[at] == (float)(i + 1) * 2);
    }
    for (int i = 0; i < 2; i++) {
        device_queue_free(benches[i].device, defaults[i]);
        device_event_free(benches[i].device, events[i]);
        bench_release(&benches[i]);
    }
}

/* What works in the thread of somebody else leaves its choice as it was. */
static void test_a_choice_is_put_back(void **state)
{
    struct device *device = open_or_skip(state);
    void *memory;
    assert_int_equal(device_choice("cpu"), -1);
    device_choose(device, 0);
    assert_int_equal(device_choice("cuda"), 0);
    assert_ok(device_memory_new(device, 100, &memory));
    assert_int_equal(device_choice("cuda"), device->index);
    device_choose(device, 0);
    assert_int_equal(device_choice("cuda"), 0);
    device_memory_free(device, memory);
    device_choose(device, -1);
    assert_int_equal(device_choice("cuda"), device->index);
    device_close(device);
}

/* So does opening a GPU that cannot be used, as it has no code for it. */
static void test_a_choice_is_kept_by_a_failed_open(void **state)
{
    struct device *first = open_or_skip(state), *second;
    assert_int_equal(device_choice("cuda"), 0);
    setenv("EMULATED_GPU_FAILS", "code", 1);
    enum error error = emulated_gpu_of ? device_open("cuda:1", &second) : ERROR_UNAVAILABLE;
    unsetenv("EMULATED_GPU_FAILS");
    assert_int_equal(error, ERROR_UNAVAILABLE);
    assert_int_equal(device_choice("cuda"), 0);
    device_close(first);
}

/* ---- names -------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",      "gpu", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:x", "cuda:1 ", "cuda:99999999999",
        "auto:1"};
    struct device *device;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_fails(device_open(wrong[i], &device), ERROR_USAGE, "or \"cuda:N\"");
    assert_ok(device_open("auto", &device));
    assert_true(device->description[0] != '\0');
    device_close(device);
    assert_fails(device_open("cuda:1000", &device), ERROR_UNAVAILABLE, "\"cuda");
}

/* Is NVIDIA's driver there? As the test says. */
static bool has_driver;
int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    if (strncmp(path, "/dev/nvidia", 11) != 0)
        return __real_access(path, mode);
    errno = ENOENT;
    return has_driver ? 0 : -1;
}

/* Does "auto" log a warning? */
static bool auto_warns(void)
{
    char logged[1000];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    struct device *device;
    assert_true(file && before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    enum error error = device_open("auto", &device);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    ssize_t length = pread(fileno(file), logged, sizeof(logged) - 1, 0);
    fclose(file);
    assert_int_equal(error, OK);
    assert_int_equal(device->kind, DEVICE_CPU);
    device_close(device);
    assert_true(length >= 0);
    logged[length] = '\0';
    return strstr(logged, "warning no GPU is used: device \"cuda\": ");
}

static void test_a_GPU_that_is_not_used_is_told(void **state)
{
    (void)state;
    struct device *device;
    if (device_open("cuda", &device) == OK) { /* here it is used */
        device_close(device);
        assert_ok(device_open("auto", &device));
        assert_int_equal(device->kind, DEVICE_CUDA);
        device_close(device);
        return;
    }
    log_set_level(LOG_WARNING);
    has_driver = true;
    assert_true(auto_warns());
    has_driver = false;
    assert_false(auto_warns());
    log_set_level(LOG_ERROR);
}

static void test_one_more_than_there_are(void **state)
{
    struct device *device = open_or_skip(state);
    char name[32], wanted[96];
    int last = -1;
    do {
        device_close(device);
        snprintf(wanted, sizeof(wanted), "this machine has cuda:0 to cuda:%d", ++last);
        snprintf(name, sizeof(name), "cuda:%d", last + 1);
    } while (device_open(name, &device) == OK);
    assert_fails(device_open(name, &device), ERROR_UNAVAILABLE, wanted);
}

int main(void)
{
    static char cpu[] = "cpu", cuda[] = "cuda", second[] = "cuda:1";
#define ON(device, test)                               \
    {                                                  \
#test " on " #device, test, NULL, NULL, device \
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_GPU_that_is_not_used_is_told),
        ON(cpu, test_memory),
        ON(cuda, test_memory),
        ON(cpu, test_memory_that_comes_again),
        ON(cuda, test_memory_that_comes_again),
        ON(cpu, test_too_much_memory),
        ON(cuda, test_too_much_memory),
        ON(cpu, test_copies_in_and_out),
        ON(cuda, test_copies_in_and_out),
        ON(cpu, test_expands_bytes),
        ON(cuda, test_expands_bytes),
        ON(cpu, test_scales_floats),
        ON(cpu, test_one_hot_rows),
        ON(cpu, test_normalizes_floats),
        ON(cuda, test_scales_floats),
        ON(cuda, test_one_hot_rows),
        ON(cuda, test_normalizes_floats),
        ON(cpu, test_gathers_rows),
        ON(cuda, test_gathers_rows),
        ON(second, test_gathers_rows),
        ON(cpu, test_tells_what_memory_is_left),
        ON(cuda, test_tells_what_memory_is_left),
        ON(cpu, test_a_mark_orders_two_queues),
        ON(cuda, test_a_mark_orders_two_queues),
        ON(cpu, test_many_threads),
        ON(cuda, test_many_threads),
        ON(second, test_many_threads),
        ON(cpu, test_threads_that_only_free),
        ON(cuda, test_threads_that_only_free),
        ON(second, test_threads_that_only_free),
        ON(second, test_a_mark_orders_two_queues),
        ON(cpu, test_more_elements_than_a_grid_takes),
        ON(cuda, test_more_elements_than_a_grid_takes),
        ON(cpu, test_writes_only_its_elements),
        ON(cuda, test_writes_only_its_elements),
        ON(cuda, test_one_more_than_there_are),
        cmocka_unit_test(test_in_turn_with_the_second),
        ON(second, test_a_choice_is_put_back),
        ON(cuda, test_a_choice_is_kept_by_a_failed_open),
    };
    log_set_level(LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
