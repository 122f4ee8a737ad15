/*
 * The different texts of a column (labels, groups), numbered 0..count-1: integers ascending when
 * every text is a canonical integer (-?[1-9][0-9]* or 0, within int64), else ascending by bytes.
 * Immutable; shared by all threads.
 *
 * A struct names_builder collects them: it numbers texts as they come, and names_build() sorts them
 * and says what the numbers have become.
 */
#ifndef SAMPLER_FRAME_DICTIONARY_H
#define SAMPLER_FRAME_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/packed.h"

#define NAMES_LIMIT (UINT32_C(1) << 24) /* different texts */
#define NAMES_TEXT_LIMIT 1024           /* bytes of one text */

struct names {
    uint32_t count;
    bool are_integers;
    char *texts;           /* NUL-terminated, one behind the other */
    size_t text_bytes;     /* of all */
    struct packed offsets; /* [count + 1] into texts; the last is text_bytes */
    bool is_borrowed;      /* texts and offsets belong to a mapped file */
};

void names_release(struct names *names);

/* NUL-terminated; borrowed until names_release(). */
static inline const char *names_text(const struct names *names, uint32_t number)
{
    return names->texts + packed_get(&names->offsets, number);
}

/* Its value when are_integers, else 0. */
int64_t names_integer(const struct names *names, uint32_t number);

/* The names of integers 0 .. count-1 (a range: store's labels). count <= NAMES_LIMIT. */
enum error names_of_range(uint32_t count, struct names *ret_names) MUST_CHECK;

/* The number of `text`, or -1. O(log count). */
int64_t names_find(const struct names *names, const char *text, size_t length);

struct names_builder;

/* `what` names the column in messages ("label"); it must outlive the builder. */
enum error names_builder_new(const char *what, struct names_builder **ret_builder) MUST_CHECK;
void names_builder_free(struct names_builder *builder);

/* The number of `text` in the order of first appearance. ERROR_INPUT when it is empty, longer than
 * NAMES_TEXT_LIMIT or not UTF-8, or when there are more than NAMES_LIMIT; the caller adds where. */
enum error names_builder_add(struct names_builder *builder, const char *text, size_t length,
                             uint32_t *ret_number) MUST_CHECK;

/* Different texts so far. */
size_t names_builder_count(const struct names_builder *builder);

/* The sorted names; ret_ranks[number by appearance] (caller frees) is the number in ret_names. */
enum error names_build(const struct names_builder *builder, struct names *ret_names,
                       uint32_t **ret_ranks) MUST_CHECK;

#endif
