/* SPDX-License-Identifier: MIT */
#include "trainer/cluster/tf_config.h"

#include <inttypes.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "trainer/cluster/cluster_builder.h"

#define SOURCE "TF_CONFIG"

/* The JSON's description of this process; the texts are borrowed from the tree. */
struct task {
    const char *type; /* "": not given */
    int64_t index;    /* -1: not given */
};

static const char *const job_names[] = {"chief", "master", "worker", "ps", "evaluator"};
static const enum cluster_role job_roles[] = {CLUSTER_CHIEF, CLUSTER_CHIEF, CLUSTER_WORKER,
                                              CLUSTER_PS, CLUSTER_EVALUATOR};
#define JOBS (sizeof(job_names) / sizeof(job_names[0]))

/* False: there is no such job. */
static bool find_role(const char *name, enum cluster_role *ret_role)
{
    size_t job = 0;
    while (job < JOBS && strcmp(job_names[job], name) != 0)
        job++;
    if (job < JOBS)
        *ret_role = job_roles[job];
    return job < JOBS;
}

/* ---- members of the JSON ------------------------------------------------ */

/* *ret_item is NULL if it is absent or null, as in Python's get(). */
static enum error read_member(const cJSON *object, const char *key, const char *expected,
                              cJSON_bool (*is_right)(const cJSON *), const cJSON **ret_item)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (item && cJSON_IsNull(item))
        item = NULL;
    if (item && !is_right(item))
        return error_set(ERROR_USAGE, "If \"%s\" is set in TF_CONFIG, it must be %s, not %s", key,
                         expected, json_kind(item));
    *ret_item = item;
    return OK;
}

/* As Python's int(): digits in a text are accepted. */
static enum error read_index(const cJSON *task, int64_t *ret_index)
{
    char shown[TEXT_REAL_BYTES];
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(task, "index");
    *ret_index = -1;
    if (!item || cJSON_IsNull(item))
        return OK;
    if (cJSON_IsString(item) && text_parse_integer(item->valuestring, strlen(item->valuestring), 0,
                                                   CLUSTER_INDEX_LIMIT, ret_index))
        return OK;
    if (cJSON_IsNumber(item) && json_integer(item, ret_index) && *ret_index >= 0 &&
        *ret_index <= CLUSTER_INDEX_LIMIT)
        return OK;
    return error_set(ERROR_USAGE,
                     "Task index must be non-negative number, at most %d; in TF_CONFIG it is %.40s",
                     CLUSTER_INDEX_LIMIT,
                     cJSON_IsString(item)   ? item->valuestring
                     : cJSON_IsNumber(item) ? text_of_real(item->valuedouble, shown)
                                            : json_kind(item));
}

static enum error read_task(const cJSON *json, struct task *ret_task)
{
    const cJSON *task = NULL, *type = NULL, *service;
    enum error error = read_member(json, "service", "a dict", cJSON_IsObject, &service);
    if (!error)
        error = read_member(json, "task", "an object", cJSON_IsObject, &task);
    if (!error)
        error = read_member(task, "type", "a text", cJSON_IsString, &type);
    if (!error)
        error = read_index(task, &ret_task->index);
    ret_task->type = type ? type->valuestring : "";
    return error;
}

/* ---- the cluster -------------------------------------------------------- */

static enum error refuse_job(const char *name)
{
    char shown[TEXT_QUOTE_BYTES];
    const char *near = text_nearest(name, job_names, JOBS);
    return error_set(ERROR_USAGE,
                     "TF_CONFIG: the cluster has a job %s%s%s%s; jobs are chief (or master), "
                     "worker, ps and evaluator",
                     text_quote(shown, sizeof(shown), name, strlen(name)),
                     near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

/* The number of an entry: its index in a list, its key in a map. */
static enum error number_of(const cJSON *job, const cJSON *entry, int64_t place, int64_t *ret_index)
{
    char shown[TEXT_QUOTE_BYTES];
    const char *key = entry->string;
    *ret_index = place;
    if (cJSON_IsArray(job) ||
        text_parse_integer(key, strlen(key), 0, CLUSTER_INDEX_LIMIT, ret_index))
        return OK;
    return error_set(ERROR_USAGE,
                     "TF_CONFIG: job %s of the cluster has the task %s, must be a number from 0 to "
                     "%d",
                     job->string, text_quote(shown, sizeof(shown), key, strlen(key)),
                     CLUSTER_INDEX_LIMIT);
}

static enum error add_job(struct cluster_builder *builder, const cJSON *job, enum cluster_role role)
{
    int64_t place = 0;
    const cJSON *entry;
    enum error error = OK;
    if (!cJSON_IsArray(job) && !cJSON_IsObject(job))
        return error_set(ERROR_USAGE,
                         "TF_CONFIG: job %s of the cluster is %s, must be a list "
                         "[\"HOST:PORT\",...] or a map {\"0\":\"HOST:PORT\",...}",
                         job->string, json_kind(job));
    for (entry = job->child; entry && !error; entry = entry->next, place++) {
        int64_t index;
        error = number_of(job, entry, place, &index);
        if (!error && !cJSON_IsString(entry))
            error = error_set(ERROR_USAGE,
                              "TF_CONFIG: %s %" PRId64 " of the cluster is %s, must be a text "
                              "\"HOST:PORT\"",
                              job->string, index, json_kind(entry));
        if (!error)
            error = cluster_builder_add(builder, SOURCE, role, index, entry->valuestring);
    }
    return error;
}

/* A map anywhere marks the sparse form: tasks that it omits may still exist. */
static bool is_sparse(const cJSON *cluster)
{
    const cJSON *job;
    cJSON_ArrayForEach(job, cluster)
    {
        if (cJSON_IsObject(job))
            return true;
    }
    return false;
}

static enum error add_jobs(struct cluster_builder *builder, const cJSON *cluster)
{
    const cJSON *job;
    enum error error = OK;
    bool has_master = cJSON_GetObjectItemCaseSensitive(cluster, "master") != NULL;
    if (has_master && cJSON_GetObjectItemCaseSensitive(cluster, "chief"))
        return error_set(ERROR_USAGE, "If `master` node exists in `cluster`, job `chief` is not "
                                      "supported; TF_CONFIG has both");
    builder->cluster.source = SOURCE;
    builder->cluster.chief_is_master = has_master;
    builder->cluster.workers_known = !is_sparse(cluster);
    for (job = cluster ? cluster->child : NULL; job && !error; job = job->next) {
        enum cluster_role role;
        error =
            find_role(job->string, &role) ? add_job(builder, job, role) : refuse_job(job->string);
    }
    return error;
}

/* ---- this process in it ------------------------------------------------- */

static enum error check_alone(const struct task *task)
{
    if (task->type[0] && strcmp(task->type, "worker") != 0)
        return error_set(ERROR_USAGE,
                         "If \"cluster\" is not set in TF_CONFIG, task type must be WORKER, not "
                         "\"%.60s\"",
                         task->type);
    if (task->index > 0)
        return error_set(ERROR_USAGE,
                         "If \"cluster\" is not set in TF_CONFIG, task index must be 0, not "
                         "%" PRId64,
                         task->index);
    return OK;
}

/* An operator's sparse form leaves only a chief without a task (README, rule 5). */
static enum error settle_alone(struct cluster *cluster, const struct task *task, bool sparse)
{
    enum cluster_role role;
    if (!sparse || !find_role(task->type, &role) || role != CLUSTER_CHIEF)
        return check_alone(task);
    cluster->role = CLUSTER_CHIEF;
    cluster->chief_is_master = strcmp(task->type, "master") == 0;
    log_warning("TF_CONFIG gives the %s an empty cluster: it trains alone, in one process; where "
                "the operator starts workers one by one (enableDynamicWorker), leave the %s out: "
                "worker 0 does its part",
                task->type, task->type);
    return OK;
}

static enum error check_task(const struct cluster_builder *builder, const struct task *task)
{
    const char *chief = cluster_role_name(&builder->cluster, CLUSTER_CHIEF);
    if (cluster_builder_count(builder, CLUSTER_CHIEF) > 1)
        return error_set(ERROR_USAGE,
                         "The \"cluster\" in TF_CONFIG must have only one \"%s\" node, not %zu",
                         chief, cluster_builder_count(builder, CLUSTER_CHIEF));
    if (!task->type[0])
        return error_set(ERROR_USAGE, "If \"cluster\" is set in TF_CONFIG, task type must be set");
    if (task->index < 0)
        return error_set(ERROR_USAGE, "If \"cluster\" is set in TF_CONFIG, task index must be set");
    if (builder->cluster.chief_is_master && strcmp(task->type, "evaluator") == 0)
        return error_set(ERROR_USAGE, "If `master` node exists in `cluster`, task_type `evaluator` "
                                      "is not supported");
    if (builder->cluster.workers_known && cluster_builder_count(builder, CLUSTER_CHIEF) == 0 &&
        cluster_builder_count(builder, CLUSTER_WORKER) == 0)
        return error_set(ERROR_USAGE, "If \"cluster\" is set in TF_CONFIG, it must have one "
                                      "\"chief\" node, or a worker: nobody trains");
    return OK;
}

/* This process's job; "chief" if the cluster has a master, and vice versa, is not one of its
 * jobs. */
static enum error find_own_role(const struct cluster *cluster, const char *type,
                                enum cluster_role *ret_role)
{
    char shown[TEXT_QUOTE_BYTES];
    if (find_role(type, ret_role) && strcmp(cluster_role_name(cluster, *ret_role), type) == 0)
        return OK;
    return error_set(
        ERROR_USAGE,
        "%s is not a valid task_type in the cluster_spec: there is no such job in TF_CONFIG, only "
        "%s, worker, ps and evaluator",
        text_quote(shown, sizeof(shown), type, strlen(type)),
        cluster_role_name(cluster, CLUSTER_CHIEF));
}

/* An operator's sparse form shows a ps only its own address, at the start of a list. */
static void settle_lone_server(struct cluster *cluster, const cJSON *jobs)
{
    if (!cluster->servers_known && cluster->task_count == 1 &&
        cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(jobs, "ps")))
        cluster->tasks[0].index = cluster->index;
}

static enum error settle(struct cluster_builder *builder, const struct task *task,
                         const cJSON *jobs)
{
    struct cluster *cluster = &builder->cluster;
    enum error error = check_task(builder, task);
    if (!error)
        error = find_own_role(cluster, task->type, &cluster->role);
    if (error)
        return error;
    cluster->index = task->index;
    cluster->servers_known = cluster->workers_known || cluster->role != CLUSTER_PS;
    settle_lone_server(cluster, jobs);
    return cluster_builder_finish(builder);
}

static enum error read_all(struct cluster_builder *builder, const cJSON *json)
{
    struct task task;
    const cJSON *jobs = NULL;
    if (!cJSON_IsObject(json))
        return error_set(ERROR_USAGE,
                         "TF_CONFIG is %s, must be {\"cluster\":{...},\"task\":{\"type\":TEXT,"
                         "\"index\":N}}",
                         json_kind(json));
    enum error error = read_member(json, "cluster", "an object", cJSON_IsObject, &jobs);
    if (!error && !jobs) /* the operators' name for the sparse form before 2023-05 */
        error = read_member(json, "sparseCluster", "an object", cJSON_IsObject, &jobs);
    if (!error)
        error = read_task(json, &task);
    if (!error)
        error = add_jobs(builder, jobs);
    if (error)
        return error;
    if (builder->cluster.task_count > 0)
        return settle(builder, &task, jobs);
    bool sparse = !builder->cluster.workers_known;
    cluster_init(&builder->cluster);
    return settle_alone(&builder->cluster, &task, sparse);
}

enum error tf_config_parse(const char *text, struct cluster *ret_cluster)
{
    cJSON *json = NULL;
    struct cluster_builder builder = {.capacity = 0};
    enum error error = OK;
    cluster_init(&builder.cluster);
    if (text && text[0])
        error = json_parse(text, strlen(text), SOURCE, &json);
    if (!error && json)
        error = read_all(&builder, json);
    cJSON_Delete(json);
    if (!error)
        *ret_cluster = builder.cluster;
    else
        cluster_release(&builder.cluster);
    return error == ERROR_INPUT ? ERROR_USAGE : error;
}

/* ---- printing ----------------------------------------------------------- */

static void print_job(const struct cluster *cluster, enum cluster_role role, struct buffer *out)
{
    char address[CLUSTER_ADDRESS_BYTES];
    for (size_t i = cluster->begin[role]; i < cluster->begin[role + 1]; i++) {
        buffer_add_text(out, i > cluster->begin[role] ? "," : "");
        json_add_string(out, cluster_task_address(&cluster->tasks[i], address));
    }
}

enum error tf_config_print(const struct cluster *cluster, enum cluster_role role, int64_t index,
                           struct buffer *out)
{
    const char *comma = "";
    buffer_add_text(out, "{\"cluster\":{");
    for (int job = 0; job < CLUSTER_ROLES; job++) {
        if (cluster_count(cluster, (enum cluster_role)job) == 0)
            continue;
        buffer_print(out, "%s\"%s\":[", comma, cluster_role_name(cluster, (enum cluster_role)job));
        print_job(cluster, (enum cluster_role)job, out);
        buffer_add_text(out, "]");
        comma = ",";
    }
    return buffer_print(
        out, "},\"task\":{\"type\":\"%s\",\"index\":%" PRId64 "},\"environment\":\"cloud\"}",
        cluster_role_name(cluster, role), index);
}
