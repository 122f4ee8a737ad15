/* SPDX-License-Identifier: MIT */
#include "loader/feed/slot_memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/log.h"
#include "common/machine.h"

#define ALIGNMENT_BYTES ((size_t)4096)
#define FAR_BYTES ((size_t)64 << 10) /* rows with a stride of many pages */

/* Where each part begins in the piece of host memory: slot 0's, slot 1's, ... */
struct host_layout {
    size_t rows, ids, labels, status;
    size_t bytes;
};

/* A small per-row item that is also on the device. */
struct side {
    size_t bytes;    /* per row; 0: not wanted */
    size_t begin;    /* as in struct host_layout */
    void *device;    /* owned; all slots' items; NULL: the device uses the host's */
    bool made_there; /* made on the device: if that has its own memory, the host has none */
};
enum { LABELS, ONE_HOT, WEIGHTS, GROUPS, LENGTHS, PLACES, SIDES };

struct slot_memory {
    struct device *device;
    struct ring_shape shape; /* targets filled in */
    struct slot *slots;
    uint8_t *host; /* owned */
    struct host_layout layout;
    struct side sides[SIDES];
    void *memory; /* owned; the targets; NULL: a slot's target is its host memory */
    void **free;  /* [targets], a stack of unused ones; NULL: each slot keeps its own */
    size_t free_count;
};

/* One part for all slots, page-aligned. */
static size_t part_bytes(size_t rows, size_t row_bytes)
{
    return (rows * row_bytes / ALIGNMENT_BYTES + 1) * ALIGNMENT_BYTES;
}

static void *part(void *memory, size_t number, size_t rows, size_t row_bytes)
{
    return (uint8_t *)memory + number * part_bytes(rows, row_bytes);
}

static size_t add_parts(struct host_layout *layout, size_t slots, size_t rows, size_t row_bytes)
{
    size_t begin = layout->bytes;
    layout->bytes += slots * part_bytes(rows, row_bytes);
    return begin;
}

/* Also fills in `sides`. */
static struct host_layout layout_of(const struct ring_shape *shape, struct side sides[SIDES])
{
    struct host_layout layout = {.bytes = 0};
    layout.rows = add_parts(&layout, shape->slots, shape->rows, shape->row_bytes);
    layout.ids = add_parts(&layout, shape->slots, shape->rows, sizeof(int64_t));
    layout.labels = add_parts(&layout, shape->slots, shape->rows, sizeof(double));
    layout.status = add_parts(&layout, shape->slots, shape->rows, sizeof(enum row_status));
    for (size_t i = 0; i < SIDES; i++) {
        if (sides[i].bytes > 0 && !sides[i].made_there)
            sides[i].begin = add_parts(&layout, shape->slots, shape->rows, sides[i].bytes);
    }
    return layout;
}

/* An overcommitting machine kills the program when memory is touched; what cannot fit at all is
 * refused before. */
static enum error check_size(const struct ring_shape *shape, const struct device *device)
{
    size_t places = shape->has_places ? sizeof(uint32_t) : 0;
    size_t lengths = shape->has_lengths ? sizeof(int64_t) : 0;
    size_t row = sizeof(int64_t) + sizeof(double) + sizeof(enum row_status) + shape->label_bytes +
                 shape->weight_bytes + shape->group_bytes + lengths + places;
    size_t total = SIZE_MAX, targets = 0;
    struct machine machine;
    machine_look(&machine);
    bool over = __builtin_add_overflow(row, shape->row_bytes, &row);
    if (device->kind == DEVICE_CPU)
        over |= __builtin_add_overflow(row, shape->one_hot_bytes, &row);
    over |= __builtin_mul_overflow(row, shape->slots, &total);
    if (device->kind == DEVICE_CPU)
        over |= __builtin_mul_overflow(shape->targets, shape->device_row_bytes, &targets);
    over |= __builtin_add_overflow(total, targets, &total);
    over |= __builtin_mul_overflow(total, shape->rows, &total);
    if (!over && (machine.memory_bytes == 0 || total <= machine.memory_bytes))
        return OK;
    return error_set(ERROR_MEMORY,
                     "%zu slots of %zu rows of %zu bytes need more memory than the %.1f GiB of "
                     "this machine or container; smaller batches or fewer slots do not",
                     shape->slots, shape->rows, row + shape->device_row_bytes,
                     (double)machine.memory_bytes / (1 << 30));
}

static enum error make_targets(struct slot_memory *memory)
{
    const struct ring_shape *shape = &memory->shape;
    enum error error = device_memory_new(
        memory->device, shape->targets * part_bytes(shape->rows, shape->device_row_bytes),
        &memory->memory);
    if (error || shape->targets == shape->slots)
        return error;
    memory->free = array_new(shape->targets, sizeof(*memory->free), "the targets of a ring");
    if (!memory->free)
        return ERROR_MEMORY;
    while (memory->free_count < shape->targets) {
        size_t number = memory->free_count++;
        memory->free[number] = part(memory->memory, number, shape->rows, shape->device_row_bytes);
    }
    return OK;
}

static void *host_part(const struct slot_memory *memory, size_t begin, const struct slot *slot,
                       size_t row_bytes)
{
    return part(memory->host + begin, slot->number, memory->shape.rows, row_bytes);
}

/* A slot's part of a side; both stay NULL if it is not requested. */
static void bind_side(const struct slot_memory *memory, const struct slot *slot,
                      const struct side *side, void **ret_host, void **ret_device)
{
    if (side->bytes > 0 && !side->made_there)
        *ret_host = host_part(memory, side->begin, slot, side->bytes);
    *ret_device = side->device ? part(side->device, slot->number, memory->shape.rows, side->bytes)
                               : *ret_host;
}

static void bind_sides(const struct slot_memory *memory, struct slot *slot)
{
    const struct side *sides = memory->sides;
    void *groups = NULL, *places = NULL, *device_places = NULL, *made = NULL;
    void *lengths = NULL, *device_lengths = NULL;
    bind_side(memory, slot, &sides[LABELS], &slot->host_labels, &slot->device_labels);
    bind_side(memory, slot, &sides[ONE_HOT], &made, &slot->one_hot);
    bind_side(memory, slot, &sides[WEIGHTS], &slot->weights, &slot->device_weights);
    bind_side(memory, slot, &sides[GROUPS], &groups, &slot->device_groups);
    bind_side(memory, slot, &sides[LENGTHS], &lengths, &device_lengths);
    bind_side(memory, slot, &sides[PLACES], &places, &device_places);
    slot->groups = groups;
    slot->lengths = lengths;
    slot->device_lengths = device_lengths;
    slot->places = places;
    slot->device_places = device_places;
}

static enum error slot_init(struct slot_memory *memory, struct slot *slot)
{
    const struct ring_shape *shape = &memory->shape;
    const struct host_layout *layout = &memory->layout;
    slot->ids = host_part(memory, layout->ids, slot, sizeof(*slot->ids));
    slot->labels = host_part(memory, layout->labels, slot, sizeof(*slot->labels));
    slot->status = host_part(memory, layout->status, slot, sizeof(*slot->status));
    slot->host = host_part(memory, layout->rows, slot, shape->row_bytes);
    if (!memory->memory)
        slot->device = slot->host;
    else if (!memory->free)
        slot->device = part(memory->memory, slot->number, shape->rows, shape->device_row_bytes);
    bind_sides(memory, slot);
    enum error error = device_event_new(memory->device, &slot->copied);
    return error ? error : device_event_new(memory->device, &slot->released);
}

/* Rows that differ in length have the stride of the store's longest: if that has megabytes, each
 * short row would cause a huge page to be cleared. Only a hint. */
static void want_small_pages(const struct slot_memory *memory)
{
    const struct ring_shape *shape = &memory->shape;
    if (memory->device->kind == DEVICE_CPU && shape->has_lengths && shape->row_bytes >= FAR_BYTES)
        (void)madvise(memory->host + memory->layout.rows,
                      shape->slots * part_bytes(shape->rows, shape->row_bytes), MADV_NOHUGEPAGE);
}

static enum error make_host(struct slot_memory *memory)
{
    void *host = NULL;
    memory->layout = layout_of(&memory->shape, memory->sides);
    enum error error = device_host_new(memory->device, memory->layout.bytes, &host);
    memory->host = host;
    if (!error)
        want_small_pages(memory);
    return error;
}

static enum error make_side(struct slot_memory *memory, struct side *side)
{
    size_t bytes = memory->shape.slots * part_bytes(memory->shape.rows, side->bytes);
    if (side->bytes == 0 || memory->device->kind == DEVICE_CPU)
        return OK;
    return device_memory_new(memory->device, bytes, &side->device);
}

static enum error memory_init(struct slot_memory *memory)
{
    const struct ring_shape *shape = &memory->shape;
    enum error error = make_host(memory);
    if (!error && shape->device_row_bytes > 0)
        error = make_targets(memory);
    for (size_t i = 0; !error && i < SIDES; i++)
        error = make_side(memory, &memory->sides[i]);
    for (size_t i = 0; !error && i < shape->slots; i++) {
        memory->slots[i].number = i;
        error = slot_init(memory, &memory->slots[i]);
    }
    return error;
}

enum error slot_memory_new(const struct ring_shape *shape, struct device *device,
                           struct slot *slots, struct slot_memory **ret_memory)
{
    bool shares = device->kind == DEVICE_CPU && shape->device_row_bytes > 0;
    struct ring_shape whole = *shape;
    if (!shares || whole.targets == 0 || whole.targets > whole.slots)
        whole.targets = whole.slots;
    enum error error = check_size(&whole, device);
    if (error)
        return error;
    struct slot_memory *memory = array_new(1, sizeof(*memory), "the memory of a ring");
    if (!memory)
        return ERROR_MEMORY;
    *memory = (struct slot_memory){
        .device = device,
        .shape = whole,
        .slots = slots,
        .sides = {
            [LABELS] = {.bytes = shape->label_bytes},
            [ONE_HOT] = {.bytes = shape->one_hot_bytes, .made_there = device->kind != DEVICE_CPU},
            [WEIGHTS] = {.bytes = shape->weight_bytes},
            [GROUPS] = {.bytes = shape->group_bytes},
            [LENGTHS] = {.bytes = shape->has_lengths ? sizeof(int64_t) : 0},
            [PLACES] = {.bytes = shape->has_places ? sizeof(uint32_t) : 0}}};
    error = memory_init(memory);
    if (error) {
        slot_memory_free(memory);
        return error_prefix(error, "%zu slots of %zu rows: ", whole.slots, whole.rows);
    }
    *ret_memory = memory;
    return OK;
}

static void slot_release(const struct slot_memory *memory, struct slot *slot)
{
    struct device *device = memory->device;
    if (slot->released && device_event_wait(device, slot->released))
        log_warning("%s", error_message()); /* the caller's work with the slot failed */
    device_event_free(device, slot->copied);
    device_event_free(device, slot->released);
}

void slot_memory_free(struct slot_memory *memory)
{
    if (!memory)
        return;
    for (size_t i = 0; i < memory->shape.slots; i++)
        slot_release(memory, &memory->slots[i]);
    device_memory_free(memory->device, memory->memory);
    device_host_free(memory->device, memory->host);
    for (size_t i = 0; i < SIDES; i++)
        device_memory_free(memory->device, memory->sides[i].device);
    free(memory->free);
    free(memory);
}

size_t slot_memory_targets(const struct slot_memory *memory)
{
    return memory->shape.targets;
}

size_t slot_memory_free_targets(const struct slot_memory *memory)
{
    return memory->free ? memory->free_count : memory->shape.targets;
}

void slot_memory_bind(struct slot_memory *memory, struct slot *slot)
{
    if (!memory->free)
        return;
    assert(memory->free_count > 0);
    slot->device = memory->free[--memory->free_count];
}

void slot_memory_unbind(struct slot_memory *memory, struct slot *slot)
{
    if (!memory->free)
        return;
    assert(memory->free_count < memory->shape.targets);
    memory->free[memory->free_count++] = slot->device;
    slot->device = NULL;
}
