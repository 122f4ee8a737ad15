/* SPDX-License-Identifier: MIT */
#include "loader/feed/label_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"

static const char what_labels[] = "the answer to GET /labels";

struct label_check {
    const struct store_info *store;
    double *wanted; /* owned; [count]: the store's values; NAN: the store lacks the label */
    char **texts;   /* owned; [count]: the sampler's texts */
    size_t count;   /* 0: nothing is compared */
};

enum error label_check_new(const struct store_info *store, struct label_check **ret_check)
{
    struct label_check *check = array_new(1, sizeof(*check), "a comparison of labels");
    if (!check)
        return ERROR_MEMORY;
    check->store = store;
    *ret_check = check;
    return OK;
}

static void forget(struct label_check *check)
{
    for (size_t i = 0; check->texts && i < check->count; i++)
        free(check->texts[i]);
    free(check->texts);
    free(check->wanted);
    check->texts = NULL;
    check->wanted = NULL;
    check->count = 0;
}

void label_check_free(struct label_check *check)
{
    if (!check)
        return;
    forget(check);
    free(check);
}

/* ---- the sampler's labels in the store ---------------------------------- */

/* NAN: the store has no such label. */
static double value_in_store(const struct store_info *store, const char *text)
{
    size_t length = strlen(text), count = store->label_text_count;
    double value;
    if (store->label_kind != LABEL_TEXT)
        return text_parse_real(text, length, &value) ? value : NAN;
    size_t number = text_find(text, length, store->label_texts, count);
    return number < count ? (double)number : NAN;
}

static enum error add_label(struct label_check *check, const cJSON *entry)
{
    const cJSON *label = cJSON_GetObjectItemCaseSensitive(entry, "label");
    char number[TEXT_INTEGER_BYTES + 1];
    int64_t integer;
    const char *text = number;
    if (cJSON_IsString(label))
        text = label->valuestring;
    else if (label && json_integer(label, &integer))
        *text_write_integer(number, integer) = '\0';
    else
        return error_set(ERROR_INPUT, "%s: entry %zu has no label", what_labels, check->count);
    check->texts[check->count] = strdup(text);
    if (!check->texts[check->count])
        return error_set_memory(strlen(text), "a label");
    check->wanted[check->count++] = value_in_store(check->store, text);
    return OK;
}

/* A frame without labels has a single one, 0, for all units. */
static bool is_no_label(const struct label_check *check)
{
    return check->count == 1 && strcmp(check->texts[0], "0") == 0;
}

static enum error read_labels(struct label_check *check, const char *text, size_t length)
{
    const cJSON *list = NULL;
    const cJSON *entry;
    cJSON *json = NULL;
    enum error error = json_parse(text, length, what_labels, &json);
    if (!error)
        error = json_get_array(json, "labels", what_labels, &list);
    size_t count = error ? 0 : (size_t)cJSON_GetArraySize(list);
    if (!error) {
        check->wanted = array_new(count, sizeof(*check->wanted), "labels");
        check->texts = array_new(count, sizeof(*check->texts), "labels");
        error = check->wanted && check->texts ? OK : ERROR_MEMORY;
    }
    for (entry = !error && list ? list->child : NULL; entry && !error; entry = entry->next)
        error = add_label(check, entry);
    cJSON_Delete(json);
    if (error || is_no_label(check))
        forget(check);
    return error;
}

enum error label_check_fetch(struct label_check *check, struct sampler_client *client)
{
    struct buffer body = BUFFER_INIT(SAMPLER_LABELS_BYTES_LIMIT);
    bool given = false;
    if (check->store->label_kind == LABEL_NONE)
        return OK;
    enum error error = sampler_client_labels(client, &body, &given);
    if (!error && given)
        error = read_labels(check, body.data ? body.data : "", body.length);
    else if (!error)
        log_debug("labels are not compared: %s", error_message());
    if (error == ERROR_INPUT)
        error = error_prefix(ERROR_NETWORK,
                             "%s is not a Tombola sampler: ", sampler_client_url(client));
    buffer_release(&body);
    return error;
}

/* ---- comparing ---------------------------------------------------------- */

static const char *label_text(const struct store_info *store, double label,
                              char number[TEXT_REAL_BYTES])
{
    if (store->label_kind == LABEL_TEXT && label >= 0 && label < (double)store->label_text_count)
        return store->label_texts[(size_t)label];
    return text_of_real(label, number);
}

static enum error refuse(const struct label_check *check, int64_t id, uint32_t number, double label)
{
    char texts[2][TEXT_QUOTE_BYTES];
    char real[TEXT_REAL_BYTES];
    const char *store = label_text(check->store, label, real);
    const char *sampler = number < check->count ? check->texts[number] : "?";
    return error_set(
        ERROR_INPUT,
        "id %" PRId64 ": the sampler says its label is %s, %s has %s: the store is not "
        "the one that the sampler's frame was made of",
        id, text_quote(texts[0], sizeof(texts[0]), sampler, strlen(sampler)), check->store->uri,
        text_quote(texts[1], sizeof(texts[1]), store, strlen(store)));
}

enum error label_check_rows(const struct label_check *check, const int64_t *ids,
                            const uint32_t *numbers, const double *labels,
                            const enum row_status *status, size_t rows)
{
    for (size_t i = 0; i < rows && check->count > 0; i++) {
        bool same = numbers[i] < check->count && check->wanted[numbers[i]] == labels[i];
        if (!same && status[i] == ROW_OK)
            return refuse(check, ids[i], numbers[i], labels[i]);
    }
    return OK;
}
