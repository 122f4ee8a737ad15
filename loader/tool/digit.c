/* SPDX-License-Identifier: MIT */
/*
 * Coordinates are in 1/256 of a pixel. A stroke becomes quadratic curves (between midpoints of its
 * control points), each split into a few straight segments; a pixel's ink depends on its distance
 * to the nearest segment. No floating point: the file must be the same everywhere.
 */
#include "loader/tool/digit.h"

#include <stdbool.h>

#include "common/splitmix64.h"

#define ONE 256 /* one pixel */
#define PIECES_A_CURVE 5
#define SOFT_EDGE (ONE * 3 / 4) /* from full ink to none */

struct dice {
    uint64_t state; /* of splitmix64 */
};

/* An integer in [low, high]. */
static int dice_between(struct dice *dice, int low, int high)
{
    return low + (int)splitmix64_below(&dice->state, (uint64_t)((int64_t)high - low + 1));
}

/* Like dice_between(), but the middle is likelier: the mean of two throws. */
static int dice_near(struct dice *dice, int low, int high)
{
    return (dice_between(dice, low, high) + dice_between(dice, low, high)) / 2;
}

struct place {
    int x, y; /* 1/256 pixel */
};

/* How this digit is drawn. Factors are in 1/256. */
struct hand {
    int width, height; /* pixels the field of 100 x 100 covers, times 256 */
    int slant, turn;   /* x += slant * y; a small rotation */
    struct place middle;
    int shake; /* units of the field */
    int pen;   /* half the pen's width, 1/256 pixel */
    int ink;   /* 0 to 255 */
};

static struct hand hand_new(struct dice *dice)
{
    struct hand hand; /* one throw per statement, because the order of throws matters */
    hand.width = dice_between(dice, 11 * ONE, 20 * ONE);
    hand.height = dice_between(dice, 15 * ONE, 21 * ONE);
    hand.slant = dice_near(dice, -150, 110);
    hand.turn = dice_near(dice, -75, 75);
    hand.middle.x = dice_near(dice, 11 * ONE, 17 * ONE);
    hand.middle.y = dice_near(dice, 11 * ONE, 17 * ONE);
    hand.shake = dice_between(dice, 3, 11);
    hand.pen = dice_between(dice, 120, 360);
    hand.ink = dice_between(dice, 150, 255);
    return hand;
}

static struct place hand_put(const struct hand *hand, struct dice *dice, struct digit_point point)
{
    int field_x = point.x - 50 + dice_near(dice, -hand->shake, hand->shake);
    int field_y = point.y - 50 + dice_near(dice, -hand->shake, hand->shake);
    int x = field_x * hand->width / 100;
    int y = field_y * hand->height / 100;
    int slanted = x - hand->slant * y / 256;
    return (struct place){hand->middle.x + slanted - hand->turn * y / 256,
                          hand->middle.y + y + hand->turn * slanted / 256};
}

struct sheet {
    int distance[DIGIT_PIXELS]; /* to the nearest stroke, 1/256 pixel, large: far away */
};

static int square_root(int64_t value)
{
    int64_t root = 0;
    for (int64_t bit = INT64_C(1) << 20; bit > 0; bit >>= 1)
        if ((root + bit) * (root + bit) <= value)
            root += bit;
    return (int)root;
}

static int distance_to_piece(struct place p, struct place a, struct place b)
{
    int64_t dx = b.x - a.x, dy = b.y - a.y;
    int64_t px = p.x - a.x, py = p.y - a.y;
    int64_t length2 = dx * dx + dy * dy;
    int64_t along = px * dx + py * dy;
    if (along > 0 && length2 > 0) {
        if (along > length2)
            along = length2;
        px -= dx * along / length2;
        py -= dy * along / length2;
    }
    return square_root(px * px + py * py);
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* Only pixels within the pen's reach. */
static void sheet_add_piece(struct sheet *sheet, struct place a, struct place b, int reach)
{
    int left = clamp(((a.x < b.x ? a.x : b.x) - reach) / ONE - 1, 0, DIGIT_SIDE - 1);
    int right = clamp(((a.x > b.x ? a.x : b.x) + reach) / ONE + 1, 0, DIGIT_SIDE - 1);
    int top = clamp(((a.y < b.y ? a.y : b.y) - reach) / ONE - 1, 0, DIGIT_SIDE - 1);
    int bottom = clamp(((a.y > b.y ? a.y : b.y) + reach) / ONE + 1, 0, DIGIT_SIDE - 1);
    for (int y = top; y <= bottom; y++) {
        for (int x = left; x <= right; x++) {
            struct place centre = {x * ONE + ONE / 2, y * ONE + ONE / 2};
            int distance = distance_to_piece(centre, a, b);
            int *nearest = &sheet->distance[y * DIGIT_SIDE + x];
            if (distance < *nearest)
                *nearest = distance;
        }
    }
}

static struct place curve_at(struct place a, struct place pull, struct place b, int t)
{
    int s = PIECES_A_CURVE - t;
    int whole = PIECES_A_CURVE * PIECES_A_CURVE;
    return (struct place){(a.x * s * s + 2 * pull.x * s * t + b.x * t * t) / whole,
                          (a.y * s * s + 2 * pull.y * s * t + b.y * t * t) / whole};
}

static void sheet_add_curve(struct sheet *sheet, struct place a, struct place pull, struct place b,
                            int reach)
{
    struct place from = a;
    for (int t = 1; t <= PIECES_A_CURVE; t++) {
        struct place to = curve_at(a, pull, b, t);
        sheet_add_piece(sheet, from, to, reach);
        from = to;
    }
}

static struct place midpoint(struct place a, struct place b)
{
    return (struct place){(a.x + b.x) / 2, (a.y + b.y) / 2};
}

static bool same_point(struct digit_point a, struct digit_point b)
{
    return a.x == b.x && a.y == b.y;
}

static void sheet_add_stroke(struct sheet *sheet, const struct digit_stroke *stroke,
                             const struct hand *hand, struct dice *dice)
{
    struct place place[DIGIT_STROKE_POINTS] = {{0, 0}};
    int reach = hand->pen + SOFT_EDGE;
    for (size_t i = 0; i < stroke->points; i++) {
        place[i] = hand_put(hand, dice, stroke->point[i]);
        if (i > 0 && same_point(stroke->point[i], stroke->point[i - 1]))
            place[i] = place[i - 1]; /* a corner stays a corner */
    }
    struct place from = place[0];
    for (size_t i = 1; i + 1 < stroke->points; i++) {
        struct place to = midpoint(place[i], place[i + 1]);
        sheet_add_curve(sheet, from, place[i], to, reach);
        from = to;
    }
    sheet_add_piece(sheet, from, place[stroke->points - 1], reach);
}

static int ink_at(const struct hand *hand, int distance)
{
    if (distance <= hand->pen)
        return hand->ink;
    if (distance >= hand->pen + SOFT_EDGE)
        return 0;
    return hand->ink * (hand->pen + SOFT_EDGE - distance) / SOFT_EDGE;
}

/* Grain on the ink, and sometimes a speck on the paper. */
static int with_noise(struct dice *dice, int ink)
{
    if (ink > 0)
        ink += dice_between(dice, -36, 36);
    else if (dice_between(dice, 0, 199) == 0)
        ink = dice_between(dice, 20, 140);
    return clamp(ink, 0, 255);
}

unsigned digit_draw(uint64_t seed, uint64_t number, uint8_t ret_pixels[DIGIT_PIXELS])
{
    struct dice dice = {.state = seed};
    dice.state = splitmix64_next(&dice.state) ^ (number * UINT64_C(0xd1342543de82ef95));
    dice.state = splitmix64_next(&dice.state);
    unsigned digit = (unsigned)dice_between(&dice, 0, DIGIT_KINDS - 1);
    size_t count;
    const struct digit_form *forms = digit_forms(digit, &count);
    const struct digit_form *form = &forms[dice_between(&dice, 0, (int)count - 1)];
    struct hand hand = hand_new(&dice);

    struct sheet sheet;
    for (size_t i = 0; i < DIGIT_PIXELS; i++)
        sheet.distance[i] = DIGIT_SIDE * ONE;
    for (size_t i = 0; i < form->strokes; i++)
        sheet_add_stroke(&sheet, &form->stroke[i], &hand, &dice);
    for (size_t i = 0; i < DIGIT_PIXELS; i++)
        ret_pixels[i] = (uint8_t)with_noise(&dice, ink_at(&hand, sheet.distance[i]));
    return digit;
}
