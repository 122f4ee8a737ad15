#include <stdlib.h>

#include "common/array.h"
#include "sampler/packed.h"

unsigned packed_width(uint64_t largest)
{
    if (largest <= UINT8_MAX)
        return 1;
    if (largest <= UINT16_MAX)
        return 2;
    return largest <= UINT32_MAX ? 4 : 8;
}

enum error packed_init(struct packed *packed, size_t count, uint64_t largest, const char *what)
{
    unsigned width = packed_width(largest);
    void *data = array_new(count, width, what);
    if (!data)
        return ERROR_MEMORY;
    *packed = (struct packed){
        .data = data, .count = count, .capacity = count ? count : 1, .width = width};
    return OK;
}

void packed_release(struct packed *packed)
{
    if (packed->capacity > 0)
        free(packed->data);
    *packed = (struct packed){.width = packed->width};
}

static enum error widen(struct packed *packed, unsigned width, const char *what)
{
    struct packed wider = {.count = packed->count, .capacity = packed->capacity, .width = width};
    wider.data = array_new(packed->capacity, width, what);
    if (!wider.data)
        return ERROR_MEMORY;
    for (size_t i = 0; i < packed->count; i++)
        packed_set(&wider, i, packed_get(packed, i));
    packed_release(packed);
    *packed = wider;
    return OK;
}

enum error packed_add(struct packed *packed, uint64_t value, const char *what)
{
    unsigned width = packed_width(value);
    enum error error = OK;
    if (width > packed->width && packed->capacity > 0)
        error = widen(packed, width, what);
    else if (width > packed->width)
        packed->width = width;
    if (!error && packed->count == packed->capacity)
        error =
            array_grow(&packed->data, &packed->capacity, packed->count + 1, packed->width, what);
    if (error)
        return error;
    packed_set(packed, packed->count++, value);
    return OK;
}

void packed_trim(struct packed *packed)
{
    if (packed->count == packed->capacity || packed->count == 0)
        return;
    void *smaller = realloc(packed->data, packed->count * packed->width);
    if (smaller) {
        packed->data = smaller;
        packed->capacity = packed->count;
    }
}
