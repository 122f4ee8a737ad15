/* SPDX-License-Identifier: MIT */
/*
 * A design's own fields as JSON: the first byte chooses design and replacement, the rest is the
 * text. What is taken reads back as itself from its canonical text, and makes an order that draws,
 * or is refused with a message.
 */
#include <stdlib.h>
#include <string.h>

#include "sampler/build/frame_build.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/designs.h"

#define FUZZ_CHECK(what)      \
    do {                      \
        if (!(what))          \
            __builtin_trap(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct frame *fuzz_frame(void)
{
    static struct frame *frame;
    if (!frame && frame_build("range:500?labels=7", &frame))
        __builtin_trap();
    return frame;
}

static void draw(const struct order *order)
{
    int64_t ids[64];
    uint32_t labels[64];
    int64_t rows[64];
    int64_t m = order_epoch_positions(order);
    size_t count = order_units(order, m - 1, 64, ids, labels, rows);
    FUZZ_CHECK(count <= 64 && m >= 1);
    for (size_t i = 0; i < count; i++) {
        double probability;
        order_probabilities(order, &rows[i], 1, &probability);
        FUZZ_CHECK(rows[i] >= 0 && rows[i] < 500 && labels[i] < 7 && probability > 0);
    }
}

static void check(const char *design, bool replacement, const char *text)
{
    struct design_fields fields;
    char *canonical;
    char *again;
    struct order *order;
    if (design_fields_parse(fuzz_frame(), design, replacement, text, &fields)) {
        FUZZ_CHECK(error_message()[0] != '\0');
        return;
    }
    FUZZ_CHECK(!design_fields_text(fuzz_frame(), &fields, &canonical));
    design_fields_release(&fields);
    FUZZ_CHECK(!design_fields_parse(fuzz_frame(), design, replacement, canonical, &fields));
    FUZZ_CHECK(!design_fields_text(fuzz_frame(), &fields, &again));
    design_fields_release(&fields);
    FUZZ_CHECK(strcmp(canonical, again) == 0);
    struct design wanted = {
        .name = design, .replacement = replacement, .seed = 1, .fields = canonical};
    if (!order_new(fuzz_frame(), &wanted, &order)) {
        draw(order);
        order_free(order);
    }
    free(canonical);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t designs = 0;
    if (size == 0)
        return 0;
    while (design_all[designs])
        designs++;
    char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check(design_all[data[0] % designs]->name, data[0] >= 128, text);
    free(text);
    return 0;
}
