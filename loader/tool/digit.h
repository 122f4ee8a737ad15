/* SPDX-License-Identifier: MIT */
/*
 * Handwritten-looking digits for the demo data: 28 x 28 gray pixels drawn by strokes.
 *
 * A digit has several ways of being written; each is a set of strokes through control points. The
 * points are shaken, the whole is slanted, turned, scaled and moved, the pen has its own width and
 * blackness, and the paper has noise. Integer arithmetic only, so that the same seed and number
 * give the same pixels on every machine. Pure functions; any thread.
 */
#ifndef LOADER_TOOL_DIGIT_H
#define LOADER_TOOL_DIGIT_H

#include <stddef.h>
#include <stdint.h>

#define DIGIT_SIDE 28
#define DIGIT_PIXELS (DIGIT_SIDE * DIGIT_SIDE)
#define DIGIT_KINDS 10

/* Control points of one stroke on a field of 100 x 100, x to the right, y down. The pen runs from
 * the first point to the last and is drawn towards those between; a point twice is a corner. */
struct digit_point {
    int8_t x, y;
};
#define DIGIT_STROKE_POINTS 16
struct digit_stroke {
    size_t points;
    struct digit_point point[DIGIT_STROKE_POINTS];
};

/* One way of writing a digit. */
struct digit_form {
    size_t strokes;
    struct digit_stroke stroke[2];
};

/* All ways of writing `digit` (0 to 9); static storage. */
const struct digit_form *digit_forms(unsigned digit, size_t *ret_count);

/* Number `number` of the endless sequence that `seed` names: its pixels, row by row, 0 paper to 255
 * ink, and which digit it is (returned; 0 to 9, equally often on average). */
unsigned digit_draw(uint64_t seed, uint64_t number, uint8_t ret_pixels[DIGIT_PIXELS]);

#endif
