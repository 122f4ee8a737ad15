/* SPDX-License-Identifier: MIT */
/*
 * A design's own fields: {"p":2,"k":8} and the like, as POST /streams and the options of `serve`
 * give them. Converts JSON to values, and to one canonical text: the fields in the order of
 * design_field_list(), labels in the frame's order (without those with 0), numbers in the shortest
 * form that reads back exactly; "" if there are none. The canonical text is stored, shown, bound by
 * tokens, and hashed into the order's key, so that two spellings of the same fields give one order.
 *
 * Every error names the field, its value and what is right. order_new() checks the fields against
 * the frame (p labels of L, a size above N).
 *
 * Dimensions: L labels of the frame.
 */
#ifndef SAMPLER_DESIGN_DESIGN_FIELDS_H
#define SAMPLER_DESIGN_DESIGN_FIELDS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"

struct design_fields {
    int64_t p, k, size, groups; /* at least 1; 0: not given */
    double rate;                /* above 0, at most 1; 0: not given */
    double *shares;             /* [L] >= 0, not all 0; owned; NULL: not given */
    double *deviations;         /* the same */
    char *column;               /* owned; NULL: not given */
};

enum design_field_kind {
    FIELD_COUNT,         /* an integer of at least 1 */
    FIELD_RATE,          /* above 0, at most 1 */
    FIELD_LABEL_NUMBERS, /* an object {"label": number of at least 0} */
    FIELD_TEXT
};

/* A field, for --help and for programs that accept it as an option. */
struct design_field {
    const char *name;
    enum design_field_kind kind;
    const char *designs; /* the designs that have it, for messages: "systematic, weighted" */
    const char *help;
};

/* All fields in canonical order; the last has no name. */
const struct design_field *design_field_list(void);

/* Parses and checks `text`, a JSON object ("" or NULL: none). Labels that `frame`, a view, has
 * dropped are left out. The caller calls design_fields_release(). */
enum error design_fields_parse(const struct frame *frame, const char *design, bool replacement,
                               const char *text, struct design_fields *ret_fields) MUST_CHECK;
void design_fields_release(struct design_fields *fields);

/* The canonical text; the caller frees it. */
enum error design_fields_text(const struct frame *frame, const struct design_fields *fields,
                              char **ret_text) MUST_CHECK;

/* Converts the members of a request that are not common to all designs (NULL: none) to the
 * canonical text, which the caller frees. */
enum error design_fields_canonical(const struct frame *frame, const char *design, bool replacement,
                                   const cJSON *object, char **ret_text) MUST_CHECK;

/* Does the design have a field of this name? */
bool design_has_field(const char *design, bool replacement, const char *name);

/* Are all members of `object` fields of the design? ERROR_USAGE names the first that is not, and
 * the design's fields. An unknown design has none. */
enum error design_fields_check_names(const char *design, bool replacement,
                                     const cJSON *object) MUST_CHECK;

/* `text` is canonical. {"column":NAME} tells what to measure, {"column":NAME,"deviations":{...}}
 * the result, and only the latter makes an order: converts the former to the latter by reading the
 * column from the store at `store_uri` (label_deviations.h; O(N), not on an event loop). Returns
 * any other text unchanged. The caller frees it. store_uri NULL: ERROR_USAGE, the frame does not
 * say where its units are. */
enum error design_fields_resolve(const struct frame *frame, const char *text, const char *store_uri,
                                 char **ret_text) MUST_CHECK;

#endif
