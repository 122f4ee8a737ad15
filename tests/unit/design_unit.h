/* SPDX-License-Identifier: MIT */
/* Frames with labels, weights and groups for tests of designs, and every design on them. */
#ifndef TESTS_UNIT_DESIGN_UNIT_H
#define TESTS_UNIT_DESIGN_UNIT_H

#include "tests/unit/unit.h"

#include "sampler/build/frame_build.h"
#include "sampler/design/designs.h"
#include "sampler/shuffle/random.h"
#include "tests/unit/order_unit.h"

/* One design as a test asks for it. */
struct design_case {
    const char *name;
    bool replacement;
    const char *fields;
};

/* All of them on a frame of design_frame(): labels a, b, c and weights and groups. */
static const struct design_case design_cases[] = {
    {"srs", false, ""},
    {"srs", true, ""},
    {"sequential", false, ""},
    {"proportional", false, ""},
    {"proportional", true, ""},
    {"equal", false, ""},
    {"equal", true, ""},
    {"quota", false, "{\"shares\":{\"a\":0.1,\"c\":0.3}}"},
    {"quota", false, "{\"shares\":{\"c\":0.2,\"b\":0.3,\"a\":0.5}}"},
    {"quota", true, "{\"shares\":{\"c\":1,\"b\":2,\"a\":1.5}}"},
    {"neyman", false, "{\"deviations\":{\"a\":1.5,\"b\":0.25,\"c\":2}}"},
    {"neyman", true, "{\"deviations\":{\"a\":1,\"b\":0,\"c\":3}}"},
    {"pxk", false, "{\"p\":2,\"k\":3}"},
    {"pxk", false, "{\"p\":3,\"k\":1}"},
    {"pxk", false, "{\"p\":1,\"k\":2}"},
    {"pxk", false, "{\"p\":2,\"k\":5}"},
    {"weighted", true, ""},
    {"weighted", false, "{\"size\":9}"},
    {"weighted", false, "{\"size\":30}"},
    {"systematic", false, "{\"size\":13}"},
    {"systematic", false, "{\"size\":1}"},
    {"cluster", false, ""},
    {"cluster", false, "{\"groups\":4}"},
    {"cluster", false, "{\"groups\":1}"},
    {"bernoulli", false, "{\"rate\":0.3}"},
    {"bernoulli", false, "{\"rate\":0.02}"},
    {"bernoulli", false, "{\"rate\":1}"},
};

enum { DESIGN_CASES = sizeof(design_cases) / sizeof(design_cases[0]) };

/* `units` of them: every third is a, every fifth of the others b, the rest c; weights 0 to 40 with
 * a heavy one now and then; groups of 1 to 8 units, scattered. */
static inline struct frame *design_frame(const char *folder, int64_t units)
{
    char path[400];
    char uri[512];
    struct frame *frame;
    snprintf(path, sizeof(path), "%s/units%lld.csv", folder, (long long)units);
    snprintf(uri, sizeof(uri), "csv:%s?id=id&label=label&weight=weight&group=group", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label,weight,group\n", file);
    for (int64_t row = 0; row < units; row++) {
        uint64_t chance = random_mix((uint64_t)row + 99);
        const char *label = row % 3 == 0 ? "a" : chance % 5 == 0 ? "b" : "c";
        double weight = chance % 11 == 0 ? 0 : (double)(chance % 4001) / 100;
        if (chance % 17 == 1)
            weight *= 30;
        if (row == 1)
            label = "b";
        fprintf(file, "%lld,%s,%.2f,g%llu\n", (long long)(1000 + 7 * row), label, weight,
                (unsigned long long)(chance % 64 % (uint64_t)(units / 4 + 1)));
    }
    assert_int_equal(fclose(file), 0);
    assert_ok(frame_build(uri, &frame));
    return frame;
}

static inline struct order *design_order(const struct frame *frame, const struct design_case *one,
                                         uint64_t seed)
{
    struct order *order;
    struct design design = {
        .name = one->name, .replacement = one->replacement, .seed = seed, .fields = one->fields};
    enum error error = order_new(frame, &design, &order);
    if (error)
        fail_msg("%s %s: %s", one->name, one->fields, error_message());
    return order;
}

#endif
