/* SPDX-License-Identifier: MIT */
/* The rules and messages are those of the classic estimators' run configuration. */
#include "trainer/run/tf_config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"

/* The index may be a number or digits in a text; absent: `fallback`. */
static enum error read_index(const cJSON *task, int64_t fallback, int64_t *ret_index)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(task, "index");
    if (!item) {
        *ret_index = fallback;
        return OK;
    }
    if (cJSON_IsString(item) &&
        text_parse_integer(item->valuestring, strlen(item->valuestring), 0, INT32_MAX, ret_index))
        return OK;
    if (cJSON_IsNumber(item) && !json_get_integer(task, "index", "task", ret_index) &&
        *ret_index >= 0)
        return OK;
    return error_set(ERROR_USAGE, "TF_CONFIG: task index must be a non-negative number");
}

static enum error check_alone(const char *type, int64_t index)
{
    if (type && strcmp(type, "worker") != 0)
        return error_set(ERROR_USAGE,
                         "TF_CONFIG: if \"cluster\" is not set, task type must be "
                         "\"worker\", not \"%.60s\"",
                         type);
    if (index != 0)
        return error_set(ERROR_USAGE,
                         "TF_CONFIG: if \"cluster\" is not set, task index must be 0, not %" PRId64,
                         index);
    return OK;
}

/* A cluster of one task is this process, if it is named so. */
static enum error check_cluster(const cJSON *cluster, const char *type, int64_t index)
{
    const cJSON *job, *only = NULL;
    int tasks = 0;
    cJSON_ArrayForEach(job, cluster)
    {
        if (!cJSON_IsArray(job) && !cJSON_IsObject(job))
            return error_set(ERROR_USAGE, "TF_CONFIG: job %.60s of the cluster is no list of tasks",
                             job->string);
        tasks += cJSON_GetArraySize(job);
        if (cJSON_GetArraySize(job) > 0)
            only = job;
    }
    if (!only)
        return check_alone(type, index);
    if (tasks > 1)
        return error_set(
            ERROR_USAGE,
            "TF_CONFIG names a cluster of %d tasks; this version trains in one process "
            "(start one trainer without TF_CONFIG, or with {\"cluster\":{}})",
            tasks);
    if (!type || strcmp(type, only->string) != 0 || index != 0)
        return error_set(ERROR_USAGE, "TF_CONFIG: the task is not the cluster's only one, %.60s 0",
                         only->string);
    if (strcmp(type, "ps") == 0)
        return error_set(ERROR_USAGE, "TF_CONFIG: a parameter server alone trains nothing");
    return OK;
}

static enum error check(const cJSON *json)
{
    const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(json, "cluster");
    const cJSON *task = cJSON_GetObjectItemCaseSensitive(json, "task");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(task, "type");
    int64_t index = 0;
    if (!cJSON_IsObject(json) || (cluster && !cJSON_IsObject(cluster)) ||
        (task && !cJSON_IsObject(task)) || (type && !cJSON_IsString(type)))
        return error_set(ERROR_USAGE, "TF_CONFIG is not {\"cluster\":{...},\"task\":{\"type\":"
                                      "TEXT,\"index\":N}}");
    enum error error = read_index(task, 0, &index);
    if (error)
        return error;
    return check_cluster(cluster, type ? type->valuestring : NULL, index);
}

enum error tf_config_check_local(const char *text)
{
    cJSON *json = NULL;
    if (!text || !text[0])
        return OK;
    if (json_parse(text, strlen(text), "TF_CONFIG", &json))
        return ERROR_USAGE;
    enum error error = check(json);
    cJSON_Delete(json);
    return error;
}
