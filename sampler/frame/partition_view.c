/* SPDX-License-Identifier: MIT */
/*
 * Views of a partition. The codes and rows of a damaged file may disagree: counts are checked when
 * the view is made, and rows are kept below N as everywhere.
 */
#include "sampler/frame/partition_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/team.h"

#define STEP 512         /* rows processed together, on the stack */
#define BLOCK_LINES 4096 /* of the bitmap, least work per thread */
#define BLOCKS_MOST 64

static const char view_memory[] = "the labels of a part of the frame";

struct partition_view {
    const struct partition *whole;    /* borrowed */
    int64_t begin;                    /* plain rows: the first of them */
    const struct rank_bitmap *chosen; /* borrowed: rows of the whole [N']; NULL: plain rows */
    struct rank_bitmap *in_category;  /* owned: [N'] in the layout of partition_start(); or NULL */
    struct packed numbers;            /* [L']: the view's number of a category; none: the same */
    struct packed categories;         /* [L]: the whole's number of a category; none: the same */
    struct packed skipped; /* [L]: rows of the whole's category before the view's first, or, with
                              in_category, chosen ones before the category begins */
};

static void view_release(struct partition *partition)
{
    struct partition_view *view = partition->view;
    rank_bitmap_free(view->in_category);
    packed_release(&view->numbers);
    packed_release(&view->categories);
    packed_release(&view->skipped);
    free(view);
    partition->view = NULL;
}

/* ---- categories --------------------------------------------------------- */

static uint32_t category_in_whole(const struct partition_view *view, uint32_t category)
{
    return view->categories.data ? (uint32_t)packed_get(&view->categories, category) : category;
}

static uint32_t number_in_view(const struct partition *partition, uint32_t category)
{
    const struct packed *numbers = &partition->view->numbers;
    return numbers->data ? (uint32_t)packed_get(numbers, category) : category;
}

static void number_all(const struct partition *partition, uint32_t *categories, size_t count)
{
    if (!partition->view->numbers.data)
        return;
    for (size_t i = 0; i < count; i++)
        categories[i] = number_in_view(partition, categories[i]);
}

static int64_t skipped_of(const struct partition_view *view, uint32_t category)
{
    return view->skipped.data ? (int64_t)packed_get(&view->skipped, category) : 0;
}

/* ---- questions ---------------------------------------------------------- */

static inline int64_t keep_below(int64_t row, int64_t units)
{
    return __builtin_expect((uint64_t)row < (uint64_t)units, 1) ? row : units - 1;
}

static uint32_t view_category(const struct partition *partition, int64_t row)
{
    const struct partition_view *view = partition->view;
    int64_t in_whole = view->chosen ? rank_bitmap_select(view->chosen, row) : view->begin + row;
    return number_in_view(partition, partition_category(view->whole, in_whole));
}

static void view_gather_categories(const struct partition *partition, const int64_t *rows,
                                   size_t count, uint32_t *ret_categories)
{
    const struct partition_view *view = partition->view;
    int64_t in_whole[STEP];
    for (size_t done = 0; done < count;) {
        size_t step = count - done < STEP ? count - done : STEP;
        if (view->chosen)
            rank_bitmap_select_many(view->chosen, rows + done, step, in_whole);
        for (size_t i = 0; !view->chosen && i < step; i++)
            in_whole[i] = view->begin + rows[done + i];
        partition_gather_categories(view->whole, in_whole, step, ret_categories + done);
        done += step;
    }
    number_all(partition, ret_categories, count);
}

static void view_read_categories(const struct partition *partition, int64_t first, size_t count,
                                 uint32_t *ret_categories)
{
    const struct partition_view *view = partition->view;
    int64_t in_whole[STEP];
    if (!view->chosen)
        partition_read_categories(view->whole, view->begin + first, count, ret_categories);
    for (size_t done = 0; view->chosen && done < count;) {
        size_t step = count - done < STEP ? count - done : STEP;
        rank_bitmap_read(view->chosen, first + (int64_t)done, step, in_whole);
        partition_gather_categories(view->whole, in_whole, step, ret_categories + done);
        done += step;
    }
    number_all(partition, ret_categories, count);
}

/* Converts ranks in the view's category to ranks in the whole's. */
static void rank_in_whole(const struct partition_view *view, uint32_t category,
                          const uint64_t *ranks, size_t count, uint64_t *ret_ranks)
{
    int64_t skipped = skipped_of(view, category);
    int64_t positions[STEP];
    if (!view->in_category) {
        for (size_t i = 0; i < count; i++)
            ret_ranks[i] = (uint64_t)skipped + ranks[i];
        return;
    }
    for (size_t i = 0; i < count; i++)
        positions[i] = skipped + (int64_t)ranks[i];
    rank_bitmap_select_many(view->in_category, positions, count, positions);
    int64_t start = partition_start(view->whole, category_in_whole(view, category));
    for (size_t i = 0; i < count; i++)
        ret_ranks[i] = (uint64_t)(positions[i] - start);
}

static void view_gather(const struct partition *partition, uint32_t category, const uint64_t *ranks,
                        size_t count, int64_t *ret_rows)
{
    const struct partition_view *view = partition->view;
    uint64_t in_whole[STEP];
    for (size_t done = 0; done < count;) {
        size_t step = count - done < STEP ? count - done : STEP;
        int64_t *rows = ret_rows + done;
        rank_in_whole(view, category, ranks + done, step, in_whole);
        partition_gather(view->whole, category_in_whole(view, category), in_whole, step, rows);
        if (view->chosen)
            rank_bitmap_rank_many(view->chosen, rows, step, rows);
        for (size_t i = 0; i < step; i++)
            rows[i] = keep_below(rows[i] - view->begin, partition->units);
        done += step;
    }
}

static int64_t view_rows_before(const struct partition *partition, uint32_t category, int64_t row)
{
    const struct partition_view *view = partition->view;
    const struct partition *whole = view->whole;
    uint32_t in_whole = category_in_whole(view, category);
    if (!view->chosen)
        return partition_rows_before(whole, in_whole, view->begin + row) -
               skipped_of(view, category);
    int64_t upto = row < partition->units ? rank_bitmap_select(view->chosen, row) : whole->units;
    int64_t before = partition_rows_before(whole, in_whole, upto);
    if (!view->in_category)
        return before;
    return rank_bitmap_rank(view->in_category, partition_start(whole, in_whole) + before) -
           skipped_of(view, category);
}

static const struct partition_ops view_ops = {
    .category = view_category,
    .gather = view_gather,
    .gather_categories = view_gather_categories,
    .read_categories = view_read_categories,
    .rows_before = view_rows_before,
    .release = view_release,
};

/* ---- names and numbers: categories of which nothing is left are gone ---- */

/* Adds the texts of remaining categories; numbered by appearance, which is their order. */
static enum error add_names(struct text_set *left, const struct dictionary *dictionary,
                            const int64_t *counts)
{
    uint32_t number;
    uint32_t expected = 0;
    for (uint32_t category = 0; category < dictionary->count; category++) {
        const char *text = dictionary_text(dictionary, category);
        if (counts[category] == 0)
            continue;
        enum error error = dictionary_add(left, "label", text, strlen(text), &number);
        if (error)
            return error;
        if (number != expected++)
            return error_set(
                ERROR_INPUT,
                "the frame is damaged: two of its labels are called %s; build it again", text);
    }
    return OK;
}

static enum error map_numbers(struct partition *part, const int64_t *counts, const uint32_t *ranks)
{
    struct partition_view *view = part->view;
    uint32_t whole_count = view->whole->count;
    enum error error =
        packed_init(&view->numbers, whole_count, part->dictionary.count, view_memory);
    if (!error)
        error = packed_init(&view->categories, part->dictionary.count, whole_count, view_memory);
    for (uint32_t category = 0; category < whole_count && !error; category++) {
        if (counts[category] == 0)
            continue;
        packed_set(&view->categories, *ranks, category);
        packed_set(&view->numbers, category, *ranks++);
    }
    return error;
}

static enum error name_some(struct partition *part, const int64_t *counts)
{
    struct text_set left = {.texts = NULL};
    uint32_t *ranks = NULL;
    enum error error = add_names(&left, &part->view->whole->dictionary, counts);
    if (!error)
        error = dictionary_build(&left, &part->dictionary, &ranks);
    if (!error)
        error = map_numbers(part, counts, ranks);
    free(ranks);
    text_set_release(&left);
    return error;
}

static void borrow_names(struct partition *part)
{
    part->dictionary = part->view->whole->dictionary;
    part->dictionary.is_borrowed = true;
}

/* `counts` [L']: remaining rows of each category of the whole. */
static enum error number_categories(struct partition *part, const int64_t *counts)
{
    const struct partition *whole = part->view->whole;
    bool is_all = true;
    for (uint32_t category = 0; category < whole->count; category++)
        is_all = is_all && counts[category] > 0;
    enum error error = OK;
    if (is_all)
        borrow_names(part);
    else
        error = name_some(part, counts);
    part->count = part->dictionary.count;
    return error;
}

static enum error set_starts(struct partition *part, const int64_t *counts)
{
    enum error error =
        packed_init(&part->starts, (size_t)part->count + 1, (uint64_t)part->units, view_memory);
    if (error)
        return error;
    int64_t sum = 0;
    for (uint32_t category = 0; category < part->count && sum <= part->units; category++) {
        sum += counts[category_in_whole(part->view, category)];
        if (sum <= part->units)
            packed_set(&part->starts, (size_t)category + 1, (uint64_t)sum);
    }
    if (sum != part->units)
        return error_set(ERROR_INPUT,
                         "the frame is damaged: its labels and their rows do not agree on %" PRId64
                         " units; `tombola-sampler info --verify` says where, build it again",
                         part->units);
    return OK;
}

/* ---- is it cyclic? ------------------------------------------------------ */

/* Cyclic categories differ by at most one unit: this alone excludes most lists. */
static bool are_counts_even(const struct partition *part)
{
    int64_t fewest = part->units / part->count;
    for (uint32_t category = 0; category < part->count; category++) {
        int64_t units = partition_units(part, category);
        if (units < fewest || units > fewest + 1)
            return false;
    }
    return true;
}

static bool looks_cyclic(const struct partition *part)
{
    uint32_t categories[STEP];
    if (!are_counts_even(part))
        return false;
    uint32_t expected = partition_category(part, 0);
    for (int64_t row = 0; row < part->units;) {
        size_t count = part->units - row < STEP ? (size_t)(part->units - row) : STEP;
        partition_read_categories(part, row, count, categories);
        for (size_t i = 0; i < count; i++) {
            if (categories[i] != expected)
                return false;
            if (++expected == part->count)
                expected = 0;
        }
        row += (int64_t)count;
    }
    return true;
}

/* Uses the closed form if there is one. Names may be the whole's, which outlives the part. */
static void prefer_cyclic(struct partition *part)
{
    if (part->count > 1 && !looks_cyclic(part))
        return;
    part->shift = partition_category(part, 0);
    view_release(part);
    packed_release(&part->starts);
    part->ops = &partition_cyclic;
}

/* ---- plain rows --------------------------------------------------------- */

static enum error skip_rows(struct partition *part)
{
    const struct partition_view *view = part->view;
    if (view->begin == 0)
        return OK;
    enum error error =
        packed_init(&part->view->skipped, part->count, (uint64_t)view->begin, view_memory);
    for (uint32_t category = 0; category < part->count && !error; category++)
        packed_set(&part->view->skipped, category,
                   (uint64_t)partition_rows_before(view->whole, category_in_whole(view, category),
                                                   view->begin));
    return error;
}

static enum error fill_rows(struct partition *part, int64_t *counts)
{
    const struct partition_view *view = part->view;
    for (uint32_t category = 0; category < view->whole->count; category++) {
        int64_t before = partition_rows_before(view->whole, category, view->begin);
        int64_t upto = partition_rows_before(view->whole, category, view->begin + part->units);
        counts[category] = upto > before ? upto - before : 0;
    }
    enum error error = number_categories(part, counts);
    if (!error)
        error = set_starts(part, counts);
    if (!error)
        error = skip_rows(part);
    if (!error)
        prefer_cyclic(part);
    return error;
}

/* ---- chosen rows -------------------------------------------------------- */

/* Chooses positions [begin, end) of the order of categories, all of them in this category. */
static void choose_in_category(const struct partition_view *view, uint32_t category, int64_t begin,
                               int64_t end)
{
    uint64_t ranks[STEP];
    int64_t rows[STEP];
    int64_t start = partition_start(view->whole, category);
    for (int64_t at = begin; at < end;) {
        size_t count = end - at < STEP ? (size_t)(end - at) : STEP;
        for (size_t i = 0; i < count; i++)
            ranks[i] = (uint64_t)(at - start) + i;
        partition_gather(view->whole, category, ranks, count, rows);
        for (size_t i = 0; i < count; i++)
            rank_bitmap_put(view->in_category, at + (int64_t)i,
                            rank_bitmap_has(view->chosen, rows[i]));
        at += (int64_t)count;
    }
}

static enum error choose_in_block(void *context, int64_t begin, int64_t end)
{
    const struct partition_view *view = context;
    for (uint32_t category = 0; category < view->whole->count; category++) {
        int64_t start = partition_start(view->whole, category);
        int64_t units = partition_units(view->whole, category);
        int64_t from = start > begin ? start : begin;
        int64_t to = start + units < end ? start + units : end;
        if (from < to)
            choose_in_category(view, category, from, to);
    }
    return OK;
}

/* At most a few dozen blocks: each examines all categories. */
static enum error choose_in_categories(struct partition_view *view)
{
    int64_t lines = view->whole->units / RANK_BITMAP_LINE_BITS / BLOCKS_MOST + 1;
    int64_t grain = (lines > BLOCK_LINES ? lines : BLOCK_LINES) * RANK_BITMAP_LINE_BITS;
    enum error error = rank_bitmap_new(view->whole->units, &view->in_category);
    if (!error)
        error = team_run_blocks("the labels of a split were found", view->whole->units, grain,
                                choose_in_block, view);
    return error ? error : rank_bitmap_finish(view->in_category);
}

static void count_chosen(const struct partition_view *view, int64_t *counts)
{
    const struct partition *whole = view->whole;
    for (uint32_t category = 0; category < whole->count; category++) {
        int64_t units = partition_units(whole, category);
        if (view->in_category) {
            int64_t start = partition_start(whole, category);
            counts[category] = rank_bitmap_rank(view->in_category, start + units) -
                               rank_bitmap_rank(view->in_category, start);
        } else {
            counts[category] =
                rank_bitmap_has(view->chosen, partition_row(whole, category, 0)) ? units : 0;
        }
    }
}

static enum error skip_chosen(struct partition *part)
{
    struct partition_view *view = part->view;
    enum error error = packed_init(&view->skipped, part->count, (uint64_t)part->units, view_memory);
    for (uint32_t category = 0; category < part->count && !error; category++) {
        int64_t start = partition_start(view->whole, category_in_whole(view, category));
        packed_set(&view->skipped, category, (uint64_t)rank_bitmap_rank(view->in_category, start));
    }
    return error;
}

static enum error fill_chosen(struct partition *part, int64_t *counts, bool has_whole_categories)
{
    struct partition_view *view = part->view;
    enum error error = has_whole_categories ? OK : choose_in_categories(view);
    if (error)
        return error;
    count_chosen(view, counts);
    error = number_categories(part, counts);
    if (!error)
        error = set_starts(part, counts);
    if (!error && view->in_category)
        error = skip_chosen(part);
    if (!error)
        prefer_cyclic(part);
    return error;
}

/* ---- both --------------------------------------------------------------- */

static enum error new_view(struct partition *part, const struct partition *whole, int64_t begin,
                           const struct rank_bitmap *chosen)
{
    part->view = array_new(1, sizeof(*part->view), view_memory);
    if (!part->view)
        return ERROR_MEMORY;
    part->ops = &view_ops;
    part->view->whole = whole;
    part->view->begin = begin;
    part->view->chosen = chosen;
    return OK;
}

/* If all categories remain, the form is known without examining rows. */
static void shift_cyclic(struct partition *partition, const struct partition *whole, int64_t begin,
                         int64_t end)
{
    *partition = (struct partition){.ops = &partition_cyclic,
                                    .units = end - begin,
                                    .dictionary = whole->dictionary,
                                    .count = whole->count,
                                    .shift = partition_category(whole, begin)};
    partition->dictionary.is_borrowed = true;
}

enum error partition_of_rows(struct partition *partition, const struct partition *whole,
                             int64_t begin, int64_t end)
{
    if (partition_is_cyclic(whole) && end - begin >= whole->count) {
        shift_cyclic(partition, whole, begin, end);
        return OK;
    }
    struct partition made = {.units = end - begin};
    int64_t *counts = array_new(whole->count, sizeof(*counts), view_memory);
    enum error error = counts ? new_view(&made, whole, begin, NULL) : ERROR_MEMORY;
    if (!error)
        error = fill_rows(&made, counts);
    free(counts);
    if (error)
        partition_release(&made);
    else
        *partition = made;
    return error;
}

enum error partition_of_bitmap(struct partition *partition, const struct partition *whole,
                               const struct rank_bitmap *chosen, bool has_whole_categories)
{
    struct partition made = {.units = chosen->ones};
    if (whole->count == 1) {
        shift_cyclic(partition, whole, 0, made.units);
        return OK;
    }
    int64_t *counts = array_new(whole->count, sizeof(*counts), view_memory);
    enum error error = counts ? new_view(&made, whole, 0, chosen) : ERROR_MEMORY;
    if (!error)
        error = fill_chosen(&made, counts, has_whole_categories);
    free(counts);
    if (error)
        partition_release(&made);
    else
        *partition = made;
    return error;
}
