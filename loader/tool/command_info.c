/* SPDX-License-Identifier: MIT */
/* `tombola-loader info URI`: a store's rows, features and labels, for people or as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buffer.h"
#include "common/command/options.h"
#include "common/json.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/column/label_dictionary.h"
#include "loader/store/content_digest.h"
#include "loader/store/feature_range.h"
#include "loader/store/label_counts.h"
#include "loader/store/scan_apart.h"
#include "loader/store/store.h"
#include "loader/store_apart.h"
#include "loader/tool/commands.h"

#define LABELS_SHOWN 20
#define JSON_LIMIT_BYTES ((size_t)1 << 30)

/* Results of the scan. */
struct findings {
    const struct store_info *info;
    bool verify;
    struct label_counts labels;
    struct feature_range range;
    struct content_digest digest;
    char digest_text[CONTENT_DIGEST_TEXT_BYTES]; /* "" unless verified */
};

static enum error add_block(void *context, const struct store_block *block)
{
    struct findings *findings = context;
    enum error error = OK;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while reading %s", findings->info->uri);
    if (findings->info->label_kind != LABEL_NONE)
        error = label_counts_add(&findings->labels, block);
    if (!error && findings->verify)
        error = content_digest_add(&findings->digest, findings->info, block);
    if (!error && findings->verify && findings->info->element != ELEMENT_I32)
        feature_range_add(&findings->range, findings->info, block);
    return error;
}

static enum error find(struct store *store, struct findings *findings)
{
    enum scan_columns columns = findings->verify ? SCAN_FEATURES | SCAN_DIGESTS : SCAN_KEYS;
    enum error error = findings->verify ? OK : feature_range_find(store, &findings->range);
    if (error || (findings->info->label_kind == LABEL_NONE && !findings->verify))
        return error;
    error = store_scan_apart(store, columns, add_block, findings);
    if (error)
        return error;
    label_counts_finish(&findings->labels);
    if (findings->verify)
        content_digest_text(&findings->digest, findings->digest_text);
    return OK;
}

/* ---- for people --------------------------------------------------------- */

/* A text of the data, in which nothing acts on a terminal. */
static void print_data(const char *text, int width)
{
    struct buffer shown = BUFFER_INIT(JSON_LIMIT_BYTES);
    enum error error = buffer_add(&shown, text, strlen(text) + 1);
    if (!error)
        text_mask_controls(shown.data);
    printf("%-*s", width, error ? "(no memory)" : shown.data);
    buffer_release(&shown);
}

static void print_column(const char *what, const char *name)
{
    if (!name)
        return;
    printf("%-10s column ", what);
    print_data(name, 0);
    printf("\n");
}

static void print_names(const struct store_info *info)
{
    if (info->features == 0 || !info->feature_names)
        return;
    printf("%-10s ", "columns");
    print_data(info->feature_names[0], 0);
    for (size_t i = 1; i < info->features && i < 3; i++) {
        printf(", ");
        print_data(info->feature_names[i], 0);
    }
    if (info->features > 3) {
        printf(info->features > 4 ? ", ..., " : ", ");
        print_data(info->feature_names[info->features - 1], 0);
    }
    printf("\n");
}

static void print_features(const struct store_info *info)
{
    const char *element = element_names[info->element];
    if (info->lengths == LENGTHS_ALIKE) {
        printf("%-10s %zu of %s\n", "features", info->features, element);
        return;
    }
    printf("%-10s %.1f of %s a row, %zu in the longest", "features",
           (double)info->elements / (double)info->rows, element, info->longest);
    if (info->lengths == LENGTHS_LIMITED)
        printf("; batches are %zu wide", info->features);
    printf("\n");
}

static void print_range(const struct findings *findings)
{
    const struct feature_range *range = &findings->range;
    if (feature_range_is_rounded(range))
        printf("%-10s " FEATURE_RANGE_ROUNDED "\n", "values");
    if (range->rows == 0 || findings->info->features == 0 || findings->info->element != ELEMENT_U8)
        return;
    printf("%-10s up to %d", "values", range->largest);
    if (range->rows < findings->info->rows)
        printf(" in the first %" PRId64 " rows", range->rows);
    printf("; a model takes them times 1/255%s\n",
           feature_range_is_small(range)
               ? ", too small here: tombola-trainer train --feature-scale 1"
               : " (tombola-trainer train --feature-scale)");
}

/* Integers that a double cannot hold exactly are texts inside, but shown as integers. */
static enum label_kind kind_of(const struct store_info *info)
{
    bool integers = info->label_kind == LABEL_TEXT &&
                    labels_are_integers(info->label_texts, info->label_text_count);
    return integers ? LABEL_INTEGER : info->label_kind;
}

static void print_labels(const struct findings *findings)
{
    const struct store_info *info = findings->info;
    size_t count = findings->labels.texts.count;
    if (info->label_kind == LABEL_NONE) {
        char hint[STORE_HINT_BYTES];
        store_label_hint(info, hint);
        printf("%-10s none%s%s\n", "labels", hint[0] ? "; " : "", hint);
        return;
    }
    printf("%-10s %zu, %s, column ", "labels", count, label_kind_names[kind_of(info)]);
    print_data(info->label_column, 0);
    printf("\n");
    for (size_t i = 0; i < count && i < LABELS_SHOWN; i++) {
        const struct label_count *label = &findings->labels.counts[i];
        printf("  ");
        print_data(label->text, 20);
        printf(" %12" PRId64 "  %6.2f %%\n", label->rows,
               100 * (double)label->rows / (double)info->rows);
    }
    if (count > LABELS_SHOWN)
        printf("  and %zu more (--json lists all)\n", count - LABELS_SHOWN);
}

static void print_text(const struct findings *findings)
{
    const struct store_info *info = findings->info;
    printf("%-10s %s\n", "store", info->uri);
    printf("%-10s %" PRId64 "\n", "rows", info->rows);
    print_features(info);
    print_names(info);
    print_range(findings);
    if (info->id_column)
        print_column("id", info->id_column);
    else
        printf("%-10s row number, from 0\n", "id");
    print_column("weight", info->weight_column);
    print_column("group", info->group_column);
    print_labels(findings);
    if (info->bad_rows > 0)
        printf("%-10s %" PRId64 "\n", "bad rows", info->bad_rows);
    if (findings->digest_text[0])
        printf("%-10s %s%s\n", "digest", findings->digest_text,
               info->digest ? ", as imported" : "");
    else if (info->digest)
        printf("%-10s %s when it was imported\n", "digest", info->digest);
}

/* ---- as JSON ------------------------------------------------------------ */

static void add_text(struct buffer *json, const char *key, const char *text)
{
    buffer_print(json, ",\"%s\":", key);
    if (text)
        json_add_string(json, text);
    else
        buffer_add_text(json, "null");
}

static void add_labels(struct buffer *json, const struct findings *findings)
{
    bool integers = kind_of(findings->info) == LABEL_INTEGER;
    buffer_add_text(json, ",\"labels\":[");
    for (size_t i = 0; i < findings->labels.texts.count; i++) {
        const struct label_count *label = &findings->labels.counts[i];
        buffer_print(json, "%s{\"label\":", i ? "," : "");
        if (integers)
            buffer_add_text(json, label->text);
        else
            json_add_string(json, label->text);
        buffer_print(json, ",\"rows\":%" PRId64 "}", label->rows);
    }
    buffer_add_text(json, "]");
}

/* For rows that differ in length. */
static void add_lengths(struct buffer *json, const struct store_info *info)
{
    if (info->lengths == LENGTHS_ALIKE)
        return;
    buffer_print(json, ",\"longest\":%zu,\"elements\":%" PRIu64 ",\"limit\":", info->longest,
                 info->elements);
    if (info->lengths == LENGTHS_LIMITED)
        buffer_print(json, "%zu", info->features);
    else
        buffer_add_text(json, "null");
}

static enum error print_json(const struct findings *findings)
{
    const struct store_info *info = findings->info;
    struct buffer json = BUFFER_INIT(JSON_LIMIT_BYTES);
    buffer_add_text(&json, "{\"store\":");
    json_add_string(&json, info->uri);
    buffer_print(&json,
                 ",\"rows\":%" PRId64 ",\"features\":%zu,\"element\":\"%s\","
                 "\"bad_rows\":%" PRId64 ",\"label_kind\":\"%s\"",
                 info->rows, info->features, element_names[info->element], info->bad_rows,
                 label_kind_names[kind_of(info)]);
    add_text(&json, "id_column", info->id_column);
    add_text(&json, "label_column", info->label_column);
    add_text(&json, "weight_column", info->weight_column);
    add_text(&json, "group_column", info->group_column);
    buffer_add_text(&json, ",\"columns\":");
    json_add_strings(&json, info->feature_names, info->feature_names ? info->features : 0);
    add_lengths(&json, info);
    add_labels(&json, findings);
    const char *noted = info->digest_may_be_old ? NULL : info->digest;
    add_text(&json, "digest", findings->digest_text[0] ? findings->digest_text : noted);
    if (findings->range.rows > 0 && info->element == ELEMENT_U8)
        buffer_print(&json, ",\"largest_value\":%d,\"largest_value_rows\":%" PRId64,
                     findings->range.largest, findings->range.rows);
    enum error error = buffer_add_text(&json, "}\n");
    if (!error)
        fputs(json.data, stdout);
    buffer_release(&json);
    return error;
}

/* ---- the command -------------------------------------------------------- */

static enum error show(struct store *store, bool verify, bool json)
{
    struct findings findings = {.info = store_info(store), .verify = verify};
    content_digest_init(&findings.digest);
    enum error error = find(store, &findings);
    if (!error && verify)
        error = content_digest_check(&findings.digest, findings.info);
    if (!error && json)
        error = print_json(&findings);
    else if (!error)
        print_text(&findings);
    if (!error && findings.info->first_bad_row)
        error = error_set(ERROR_INPUT, "%s", findings.info->first_bad_row);
    content_digest_release(&findings.digest);
    label_counts_release(&findings.labels);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    bool json = false;
    bool verify = false;
    struct store *store = NULL;
    char **words;
    const struct option options[] = {
        {.name = "json", .type = OPTION_FLAG, .target = &json, .help = "print one JSON object"},
        {.name = "verify",
         .type = OPTION_FLAG,
         .target = &verify,
         .help = "read every row and print the digest of all rows: equal rows have "
                 "equal digests in any store. It must match the one recorded by import "
                 "(else exit status 2: the rows are damaged, or were modified since)"},
    };
    enum error error = options_parse(program, &command_info, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, &words);
    if (!error)
        error =
            store_open_apart(words[0], &(struct store_open_options){.keys_only = false}, &store);
    if (!error)
        error = show(store, verify, json);
    store_close(store);
    return error;
}

const struct command command_info = {
    .name = "info",
    .positional = "URI",
    .summary = "show a store's rows, features, labels and their counts",
    .details =
        "  tombola-loader info 'csv:mnist_train.csv?label=0&header=no'\n"
        "  tombola-loader info --json mnist.sqlite\n"
        "`values` is the largest byte among the first rows (with --verify: all rows); in JSON\n"
        "`largest_value`, and `largest_value_rows`, the number of rows examined.\n",
    .run = run,
    .ends_anywhere = true,
};
