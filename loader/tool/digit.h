/* SPDX-License-Identifier: MIT */
/*
 * Handwritten-looking digits for the demo data: 28 x 28 gray pixels drawn by strokes.
 *
 * A digit has several forms; each is a set of strokes through control points. Points are jittered,
 * the whole is slanted, rotated, scaled and moved, pen width and blackness vary, and the paper has
 * noise. Integer arithmetic only, so the same seed and number give the same pixels on every
 * machine. Pure functions; any thread.
 */
#ifndef LOADER_TOOL_DIGIT_H
#define LOADER_TOOL_DIGIT_H

#include <stddef.h>
#include <stdint.h>

#define DIGIT_SIDE 28
#define DIGIT_PIXELS (DIGIT_SIDE * DIGIT_SIDE)
#define DIGIT_KINDS 10

/* Control points of one stroke on a field of 100 x 100, x to the right, y down. The pen runs from
 * the first point to the last and is attracted by those between; a repeated point is a corner. */
struct digit_point {
    int8_t x, y;
};
#define DIGIT_STROKE_POINTS 16
struct digit_stroke {
    size_t points;
    struct digit_point point[DIGIT_STROKE_POINTS];
};

/* One form of a digit. */
struct digit_form {
    size_t strokes;
    struct digit_stroke stroke[2];
};

/* All forms of `digit` (0 to 9); static storage. */
const struct digit_form *digit_forms(unsigned digit, size_t *ret_count);

/* Draws number `number` of the endless sequence of `seed`: its pixels, row by row, 0 paper to 255
 * ink; returns which digit it is (0 to 9, equally likely). */
unsigned digit_draw(uint64_t seed, uint64_t number, uint8_t ret_pixels[DIGIT_PIXELS]);

#endif
