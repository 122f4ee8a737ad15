/*
 * Views of a partition. A damaged file's codes and rows may disagree: counts are checked when the
 * view is made, and rows are kept below N as everywhere.
 */
#include "sampler/frame/partition_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/team.h"

#define STEP 512         /* rows worked on together, on the stack */
#define BLOCK_LINES 4096 /* of a selection, that one thread takes at least */
#define BLOCKS_MOST 64

static const char view_memory[] = "the labels of a part of the frame";

void partition_view_free(struct partition_view *view)
{
    if (!view)
        return;
    rank_bitmap_free(view->in_class);
    packed_release(&view->numbers);
    packed_release(&view->classes);
    packed_release(&view->skipped);
    free(view);
}

/* ---- classes ------------------------------------------------------------ */
static uint32_t class_in_whole(const struct partition_view *view, uint32_t class)
{
    return view->classes.data ? (uint32_t)packed_get(&view->classes, class) : class;
}

static uint32_t number_in_view(const struct partition *partition, uint32_t class)
{
    const struct packed *numbers = &partition->view->numbers;
    return numbers->data ? (uint32_t)packed_get(numbers, class) : class;
}

static void number_all(const struct partition *partition, uint32_t *classes, size_t count)
{
    if (!partition->view->numbers.data)
        return;
    for (size_t i = 0; i < count; i++)
        classes[i] = number_in_view(partition, classes[i]);
}

static int64_t skipped_of(const struct partition_view *view, uint32_t class)
{
    return view->skipped.data ? (int64_t)packed_get(&view->skipped, class) : 0;
}

/* ---- names and numbers: classes of which nothing is left are gone ------- */
/* The texts of classes that are left; numbered by appearance, which is their order. */
static enum error add_names(struct dictionary_builder *builder, const struct dictionary *names,
                            const int64_t *counts)
{
    uint32_t number;
    uint32_t expected = 0;
    for (uint32_t class = 0; class < names->count; class ++) {
        const char *text = dictionary_text(names, class);
        if (counts[class] == 0)
            continue;
        enum error error = dictionary_builder_add(builder, text, strlen(text), &number);
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
    enum error error = packed_init(&view->numbers, whole_count, part->names.count, view_memory);
    if (!error)
        error = packed_init(&view->classes, part->names.count, whole_count, view_memory);
    for (uint32_t class = 0; class < whole_count && !error; class ++) {
        if (counts[class] == 0)
            continue;
        packed_set(&view->classes, *ranks, class);
        packed_set(&view->numbers, class, *ranks++);
    }
    return error;
}

static enum error name_some(struct partition *part, const int64_t *counts)
{
    struct dictionary_builder *builder = NULL;
    uint32_t *ranks = NULL;
    enum error error = dictionary_builder_new("label", &builder);
    if (!error)
        error = add_names(builder, &part->view->whole->names, counts);
    if (!error)
        error = dictionary_build(builder, &part->names, &ranks);
    if (!error)
        error = map_numbers(part, counts, ranks);
    free(ranks);
    dictionary_builder_free(builder);
    return error;
}

static void borrow_names(struct partition *part)
{
    part->names = part->view->whole->names;
    part->names.is_borrowed = true;
}

/* `counts` [L']: rows that are left of each class of the whole. */
static enum error number_classes(struct partition *part, const int64_t *counts)
{
    const struct partition *whole = part->view->whole;
    bool is_all = true;
    for (uint32_t class = 0; class < whole->count; class ++)
        is_all = is_all && counts[class] > 0;
    enum error error = OK;
    if (is_all)
        borrow_names(part);
    else
        error = name_some(part, counts);
    part->count = part->names.count;
    return error;
}

static enum error set_starts(struct partition *part, const int64_t *counts)
{
    enum error error =
        packed_init(&part->starts, (size_t)part->count + 1, (uint64_t)part->units, view_memory);
    if (error)
        return error;
    int64_t sum = 0;
    for (uint32_t class = 0; class < part->count && sum <= part->units; class ++) {
        sum += counts[class_in_whole(part->view, class)];
        if (sum <= part->units)
            packed_set(&part->starts, (size_t) class + 1, (uint64_t)sum);
    }
    if (sum != part->units)
        return error_set(ERROR_INPUT,
                         "the frame is damaged: its labels and their rows do not agree on %" PRId64
                         " units; `tombola-sampler info --verify` says where, build it again",
                         part->units);
    return OK;
}

/* ---- is it cyclic? ------------------------------------------------------ */
/* Cyclic classes differ by one unit at most: most lists are told by this alone. */
static bool are_counts_even(const struct partition *part)
{
    int64_t fewest = part->units / part->count;
    for (uint32_t class = 0; class < part->count; class ++) {
        int64_t units = partition_units(part, class);
        if (units < fewest || units > fewest + 1)
            return false;
    }
    return true;
}

static bool looks_cyclic(const struct partition *part)
{
    uint32_t classes[STEP];
    if (!are_counts_even(part))
        return false;
    uint32_t expected = partition_class(part, 0);
    for (int64_t row = 0; row < part->units;) {
        size_t count = part->units - row < STEP ? (size_t)(part->units - row) : STEP;
        partition_read_classes(part, row, count, classes);
        for (size_t i = 0; i < count; i++) {
            if (classes[i] != expected)
                return false;
            if (++expected == part->count)
                expected = 0;
        }
        row += (int64_t)count;
    }
    return true;
}

/* The closed form where there is one. Names may be the whole's, which outlives the part. */
static void prefer_cyclic(struct partition *part)
{
    if (part->count > 1 && !looks_cyclic(part))
        return;
    part->shift = partition_class(part, 0);
    part->is_cyclic = true;
    partition_view_free(part->view);
    part->view = NULL;
    packed_release(&part->starts);
}

/* ---- plain rows --------------------------------------------------------- */
static enum error skip_rows(struct partition *part)
{
    const struct partition_view *view = part->view;
    if (view->begin == 0)
        return OK;
    enum error error =
        packed_init(&part->view->skipped, part->count, (uint64_t)view->begin, view_memory);
    for (uint32_t class = 0; class < part->count && !error; class ++)
        packed_set(
            &part->view->skipped, class,
            (uint64_t)partition_rows_before(view->whole, class_in_whole(view, class), view->begin));
    return error;
}

static enum error fill_rows(struct partition *part, int64_t *counts)
{
    const struct partition_view *view = part->view;
    for (uint32_t class = 0; class < view->whole->count; class ++) {
        int64_t before = partition_rows_before(view->whole, class, view->begin);
        int64_t upto = partition_rows_before(view->whole, class, view->begin + part->units);
        counts[class] = upto > before ? upto - before : 0;
    }
    enum error error = number_classes(part, counts);
    if (!error)
        error = set_starts(part, counts);
    if (!error)
        error = skip_rows(part);
    if (!error)
        prefer_cyclic(part);
    return error;
}

/* ---- chosen rows -------------------------------------------------------- */
/* The positions [begin, end) of the order of classes, all of them in this class. */
static void choose_in_class(const struct partition_view *view, uint32_t class, int64_t begin,
                            int64_t end)
{
    uint64_t ranks[STEP];
    int64_t rows[STEP];
    int64_t start = partition_start(view->whole, class);
    for (int64_t at = begin; at < end;) {
        size_t count = end - at < STEP ? (size_t)(end - at) : STEP;
        for (size_t i = 0; i < count; i++)
            ranks[i] = (uint64_t)(at - start) + i;
        partition_gather(view->whole, class, ranks, count, rows);
        for (size_t i = 0; i < count; i++)
            rank_bitmap_put(view->in_class, at + (int64_t)i,
                            rank_bitmap_has(view->chosen, rows[i]));
        at += (int64_t)count;
    }
}

static enum error choose_in_block(void *context, int64_t begin, int64_t end)
{
    const struct partition_view *view = context;
    for (uint32_t class = 0; class < view->whole->count; class ++) {
        int64_t start = partition_start(view->whole, class);
        int64_t units = partition_units(view->whole, class);
        int64_t from = start > begin ? start : begin;
        int64_t to = start + units < end ? start + units : end;
        if (from < to)
            choose_in_class(view, class, from, to);
    }
    return OK;
}

/* At most some dozens of blocks: each looks at all classes. */
static enum error choose_in_classes(struct partition_view *view)
{
    int64_t lines = view->whole->units / RANK_BITMAP_LINE_BITS / BLOCKS_MOST + 1;
    int64_t grain = (lines > BLOCK_LINES ? lines : BLOCK_LINES) * RANK_BITMAP_LINE_BITS;
    enum error error = rank_bitmap_new(view->whole->units, &view->in_class);
    if (!error)
        error = team_run_blocks(view->whole->units, grain, choose_in_block, view);
    return error ? error : rank_bitmap_finish(view->in_class);
}

static void count_chosen(const struct partition_view *view, int64_t *counts)
{
    const struct partition *whole = view->whole;
    for (uint32_t class = 0; class < whole->count; class ++) {
        int64_t units = partition_units(whole, class);
        if (view->in_class) {
            int64_t start = partition_start(whole, class);
            counts[class] = rank_bitmap_rank(view->in_class, start + units) -
                            rank_bitmap_rank(view->in_class, start);
        } else {
            counts[class] =
                rank_bitmap_has(view->chosen, partition_row(whole, class, 0)) ? units : 0;
        }
    }
}

static enum error skip_chosen(struct partition *part)
{
    struct partition_view *view = part->view;
    enum error error = packed_init(&view->skipped, part->count, (uint64_t)part->units, view_memory);
    for (uint32_t class = 0; class < part->count && !error; class ++) {
        int64_t start = partition_start(view->whole, class_in_whole(view, class));
        packed_set(&view->skipped, class, (uint64_t)rank_bitmap_rank(view->in_class, start));
    }
    return error;
}

static enum error fill_chosen(struct partition *part, int64_t *counts, bool has_whole_classes)
{
    struct partition_view *view = part->view;
    enum error error = has_whole_classes ? OK : choose_in_classes(view);
    if (error)
        return error;
    count_chosen(view, counts);
    error = number_classes(part, counts);
    if (!error)
        error = set_starts(part, counts);
    if (!error && view->in_class)
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
    part->view->whole = whole;
    part->view->begin = begin;
    part->view->chosen = chosen;
    return OK;
}

/* All classes are left, and the form is known without looking at rows. */
static void shift_cyclic(struct partition *partition, const struct partition *whole, int64_t begin,
                         int64_t end)
{
    *partition = (struct partition){.units = end - begin,
                                    .names = whole->names,
                                    .count = whole->count,
                                    .is_cyclic = true,
                                    .shift = partition_class(whole, begin)};
    partition->names.is_borrowed = true;
}

enum error partition_of_rows(struct partition *partition, const struct partition *whole,
                             int64_t begin, int64_t end)
{
    if (whole->is_cyclic && end - begin >= whole->count) {
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

enum error partition_of_selection(struct partition *partition, const struct partition *whole,
                                  const struct rank_bitmap *chosen, bool has_whole_classes)
{
    struct partition made = {.units = chosen->chosen};
    if (whole->count == 1) {
        shift_cyclic(partition, whole, 0, made.units);
        return OK;
    }
    int64_t *counts = array_new(whole->count, sizeof(*counts), view_memory);
    enum error error = counts ? new_view(&made, whole, 0, chosen) : ERROR_MEMORY;
    if (!error)
        error = fill_chosen(&made, counts, has_whole_classes);
    free(counts);
    if (error)
        partition_release(&made);
    else
        *partition = made;
    return error;
}

/* ---- questions ---------------------------------------------------------- */
static inline int64_t keep_below(int64_t row, int64_t units)
{
    return __builtin_expect((uint64_t)row < (uint64_t)units, 1) ? row : units - 1;
}

uint32_t partition_view_class(const struct partition *partition, int64_t row)
{
    const struct partition_view *view = partition->view;
    int64_t in_whole = view->chosen ? rank_bitmap_select(view->chosen, row) : view->begin + row;
    return number_in_view(partition, partition_class(view->whole, in_whole));
}

void partition_view_gather_classes(const struct partition *partition, const int64_t *rows,
                                   size_t count, uint32_t *ret_classes)
{
    const struct partition_view *view = partition->view;
    int64_t in_whole[STEP];
    for (size_t done = 0; done < count;) {
        size_t step = count - done < STEP ? count - done : STEP;
        if (view->chosen)
            rank_bitmap_select_many(view->chosen, rows + done, step, in_whole);
        for (size_t i = 0; !view->chosen && i < step; i++)
            in_whole[i] = view->begin + rows[done + i];
        partition_gather_classes(view->whole, in_whole, step, ret_classes + done);
        done += step;
    }
    number_all(partition, ret_classes, count);
}

void partition_view_read_classes(const struct partition *partition, int64_t first, size_t count,
                                 uint32_t *ret_classes)
{
    const struct partition_view *view = partition->view;
    int64_t in_whole[STEP];
    if (!view->chosen)
        partition_read_classes(view->whole, view->begin + first, count, ret_classes);
    for (size_t done = 0; view->chosen && done < count;) {
        size_t step = count - done < STEP ? count - done : STEP;
        rank_bitmap_read(view->chosen, first + (int64_t)done, step, in_whole);
        partition_gather_classes(view->whole, in_whole, step, ret_classes + done);
        done += step;
    }
    number_all(partition, ret_classes, count);
}

/* From ranks in the view's class to ranks in the whole's. */
static void rank_in_whole(const struct partition_view *view, uint32_t class, const uint64_t *ranks,
                          size_t count, uint64_t *ret_ranks)
{
    int64_t skipped = skipped_of(view, class);
    int64_t places[STEP];
    if (!view->in_class) {
        for (size_t i = 0; i < count; i++)
            ret_ranks[i] = (uint64_t)skipped + ranks[i];
        return;
    }
    for (size_t i = 0; i < count; i++)
        places[i] = skipped + (int64_t)ranks[i];
    rank_bitmap_select_many(view->in_class, places, count, places);
    int64_t start = partition_start(view->whole, class_in_whole(view, class));
    for (size_t i = 0; i < count; i++)
        ret_ranks[i] = (uint64_t)(places[i] - start);
}

void partition_view_gather(const struct partition *partition, uint32_t class, const uint64_t *ranks,
                           size_t count, int64_t *ret_rows)
{
    const struct partition_view *view = partition->view;
    uint64_t in_whole[STEP];
    for (size_t done = 0; done < count;) {
        size_t step = count - done < STEP ? count - done : STEP;
        int64_t *rows = ret_rows + done;
        rank_in_whole(view, class, ranks + done, step, in_whole);
        partition_gather(view->whole, class_in_whole(view, class), in_whole, step, rows);
        if (view->chosen)
            rank_bitmap_rank_many(view->chosen, rows, step, rows);
        for (size_t i = 0; i < step; i++)
            rows[i] = keep_below(rows[i] - view->begin, partition->units);
        done += step;
    }
}

int64_t partition_view_row(const struct partition *partition, uint32_t class, int64_t j)
{
    uint64_t rank = (uint64_t)j;
    int64_t row;
    partition_view_gather(partition, class, &rank, 1, &row);
    return row;
}

int64_t partition_view_rows_before(const struct partition *partition, uint32_t class, int64_t row)
{
    const struct partition_view *view = partition->view;
    const struct partition *whole = view->whole;
    uint32_t in_whole = class_in_whole(view, class);
    if (!view->chosen)
        return partition_rows_before(whole, in_whole, view->begin + row) - skipped_of(view, class);
    int64_t upto = row < partition->units ? rank_bitmap_select(view->chosen, row) : whole->units;
    int64_t before = partition_rows_before(whole, in_whole, upto);
    if (!view->in_class)
        return before;
    return rank_bitmap_rank(view->in_class, partition_start(whole, in_whole) + before) -
           skipped_of(view, class);
}
