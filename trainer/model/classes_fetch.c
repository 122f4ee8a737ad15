/* Classes from the sampler: the labels of a stream's frame. */
#include <stdio.h>

#include "common/http_client.h"
#include "common/json.h"
#include "trainer/model/classes.h"

#define ANSWER_LIMIT_BYTES (256 << 20) /* a million labels with their counts */

/* [{"label":0,...},...] -> [0,...], items borrowed from `json`. */
static enum error collect_labels(const cJSON *json, const char *what, cJSON **ret_labels)
{
    const cJSON *list, *entry;
    cJSON *labels;
    enum error error = json_get_array(json, "labels", what, &list);
    if (error)
        return error;
    labels = cJSON_CreateArray();
    if (!labels)
        return error_set_memory(1, "a list of labels");
    cJSON_ArrayForEach(entry, list)
    {
        cJSON *label = cJSON_GetObjectItemCaseSensitive(entry, "label");
        if (!label || !cJSON_AddItemReferenceToArray(labels, label)) {
            cJSON_Delete(labels);
            return error_set(ERROR_INPUT, "%s has an entry without a label", what);
        }
    }
    *ret_labels = labels;
    return OK;
}

static enum error parse(const struct http_response *response, const char *what,
                        struct classes **ret_classes)
{
    const char *text = response->body.data ? response->body.data : "";
    cJSON *json = NULL, *labels = NULL;
    enum error error;
    if ((error = json_parse(text, response->body.length, what, &json)) ||
        (error = collect_labels(json, what, &labels)))
        goto out;
    error = classes_new(labels, what, ret_classes);
out:
    cJSON_Delete(labels);
    cJSON_Delete(json);
    return error;
}

enum error classes_fetch(const char *url, const char *stream, int64_t patience_ms,
                         struct classes **ret_classes)
{
    struct http_response response = HTTP_RESPONSE_INIT(ANSWER_LIMIT_BYTES);
    struct http_client *client = NULL;
    char target[160], what[400], problem[400];
    enum error error = http_client_open(url, &client);
    snprintf(target, sizeof(target), "/labels?stream=%s", stream);
    snprintf(what, sizeof(what), "the sampler's answer to GET %.200s%s", url, target);
    if (!error)
        error = http_client_get(client, target, patience_ms, true, &response);
    if (!error && response.status != 200) {
        http_response_problem(&response, problem, sizeof(problem));
        error = error_set(ERROR_NETWORK, "%s is %d: %s", what, response.status, problem);
    } else if (!error) {
        error = parse(&response, what, ret_classes);
    }
    http_client_close(client);
    http_response_release(&response);
    return error;
}
