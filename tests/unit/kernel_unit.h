/* SPDX-License-Identifier: MIT */
/*
 * What the tests of trainer/compute/kernel.h share: a kernel on the device that the test's state
 * names, arrays on both sides. Tests of a GPU are skipped, with the reason, where there is none.
 */
#ifndef TESTS_UNIT_KERNEL_UNIT_H
#define TESTS_UNIT_KERNEL_UNIT_H

#include "tests/unit/trainer_unit.h"
#include "trainer/compute/kernel.h"

static struct device *device;
static struct device_queue *queue;
static struct kernel *kernel;

/* Opens the device that the test's state names, or skips the test. `options` may be NULL. */
static inline void open_kernel_with(void **state, const struct kernel_options *options)
{
    enum error error = device_open(*state, &device);
    if (error == ERROR_UNAVAILABLE) {
        print_message("# %s\n", error_message());
        skip();
    }
    assert_int_equal(error, OK);
    assert_ok(device_queue_new(device, &queue));
    error = kernel_open(device, queue, options, &kernel);
    if (error)
        fail_msg("%s", error_message());
}

static inline void open_kernel(void **state)
{
    open_kernel_with(state, NULL);
}

static inline void close_kernel(void)
{
    kernel_close(kernel);
    device_queue_free(device, queue);
    device_close(device);
}

/* An array on the host and the same on the device. */
struct array {
    size_t count;
    float *host, *there;
};

static inline struct array array_of(size_t count, unsigned density)
{
    struct array array = {.count = count, .host = malloc(count * sizeof(float))};
    void *memory;
    assert_non_null(array.host);
    for (size_t i = 0; i < count; i++) {
        array.host[i] = random_sparse(density);
    }
    assert_ok(device_memory_new(device, count * sizeof(float), &memory));
    array.there = memory;
    return array;
}

static inline void send(struct array *array)
{
    assert_ok(
        device_copy_in(device, queue, array->there, array->host, array->count * sizeof(float)));
    assert_ok(device_queue_wait(device, queue));
}

static inline struct array sent_array(size_t count, unsigned density)
{
    struct array array = array_of(count, density);
    send(&array);
    return array;
}

static inline void fetch(struct array *array)
{
    assert_ok(
        device_copy_out(device, queue, array->host, array->there, array->count * sizeof(float)));
    assert_ok(device_queue_wait(device, queue));
}

static inline void release(struct array *array)
{
    free(array->host);
    device_memory_free(device, array->there);
}

static inline void fetch_result(struct kernel_result *from, struct kernel_result *ret_result)
{
    assert_ok(device_copy_out(device, queue, ret_result, from, sizeof(*from)));
    assert_ok(device_queue_wait(device, queue));
}

static inline void assert_near(float got, double wanted, double size, const char *what, size_t at)
{
    if (!(fabs(got - wanted) <= 2e-6 * (size + 1e-30)))
        fail_msg("%s[%zu] is %.9g, not %.9g", what, at, (double)got, wanted);
}

#define ON_EACH_DEVICE(test)                                  \
    {#test " on the CPU", test, NULL, NULL, (void *)"cpu"},   \
    {                                                         \
#test " on the GPU", test, NULL, NULL, (void *)"cuda" \
    }

#endif
