/* SPDX-License-Identifier: MIT */
#include "trainer/cluster/cluster_builder.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

/* ---- one address -------------------------------------------------------- */

static bool is_name(const char *host, size_t length)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return length > 0 && length <= CLUSTER_HOST_LIMIT && strspn(host, allowed) >= length;
}

/* With or without the interface of a link-local address: fe80::1%eth0. */
static bool is_ipv6(const char *host, size_t length)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *zone = memchr(host, '%', length);
    size_t plain = zone ? (size_t)(zone - host) : length;
    if (length > CLUSTER_HOST_LIMIT || plain >= sizeof(address) ||
        (zone && !is_name(zone + 1, length - plain - 1)))
        return false;
    memcpy(address, host, plain);
    address[plain] = '\0';
    return inet_pton(AF_INET6, address, &parsed) == 1;
}

bool cluster_builder_is_host(const char *host, size_t length)
{
    return is_name(host, length) || is_ipv6(host, length);
}

/* False: there is no host before the last colon. */
static bool split(const char *address, const char **ret_host, size_t *ret_length,
                  const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    bool brackets = length > 2 && address[0] == '[' && address[length - 1] == ']';
    *ret_host = brackets ? address + 1 : address;
    *ret_length = brackets ? length - 2 : length;
    *ret_port = colon ? colon + 1 : NULL;
    return colon && (brackets ? is_ipv6(*ret_host, *ret_length) : is_name(*ret_host, *ret_length));
}

static enum error parse_address(const struct cluster *cluster, const char *place,
                                const char *address, struct cluster_task *task)
{
    char shown[TEXT_QUOTE_BYTES];
    const char *host, *port_text;
    size_t length;
    int64_t port;
    const char *job = cluster_role_name(cluster, task->role);
    if (!split(address, &host, &length, &port_text))
        return error_set(ERROR_USAGE,
                         "%s: %s %" PRId64 " is %s, must be HOST:PORT (ps0:2222, 10.0.0.7:2222, "
                         "[fd00::7]:2222)",
                         place, job, task->index,
                         text_quote(shown, sizeof(shown), address, strlen(address)));
    if (!text_parse_integer(port_text, strlen(port_text), 1, UINT16_MAX, &port))
        return error_set(ERROR_USAGE,
                         "%s: %s %" PRId64 " is %s, its port must be a number from 1 to %d", place,
                         job, task->index,
                         text_quote(shown, sizeof(shown), address, strlen(address)), UINT16_MAX);
    task->port = (uint16_t)port;
    task->host = strndup(host, length);
    return task->host ? OK : error_set_memory(length, "a host name");
}

enum error cluster_builder_add(struct cluster_builder *builder, const char *place,
                               enum cluster_role role, int64_t index, const char *address)
{
    struct cluster *cluster = &builder->cluster;
    struct cluster_task task = {.role = role, .index = index};
    void *tasks = cluster->tasks;
    if (cluster->task_count == CLUSTER_TASKS_LIMIT)
        return error_set(ERROR_USAGE, "more than %d tasks in %s", CLUSTER_TASKS_LIMIT, place);
    enum error error = array_grow(&tasks, &builder->capacity, cluster->task_count + 1, sizeof(task),
                                  "tasks of a cluster");
    cluster->tasks = tasks;
    if (!error)
        error = parse_address(cluster, place, address, &task);
    if (!error)
        cluster->tasks[cluster->task_count++] = task;
    return error;
}

size_t cluster_builder_count(const struct cluster_builder *builder, enum cluster_role role)
{
    size_t count = 0;
    for (size_t i = 0; i < builder->cluster.task_count; i++)
        count += builder->cluster.tasks[i].role == role;
    return count;
}

/* ---- the whole list ----------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const struct cluster_task *first = a, *second = b;
    if (first->role != second->role)
        return first->role < second->role ? -1 : 1;
    return (first->index > second->index) - (first->index < second->index);
}

static bool share_address(const struct cluster_task *a, const struct cluster_task *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Tasks with the same address are adjacent, in their order. */
static int compare_addresses(const void *a, const void *b)
{
    const struct cluster_task *first = a, *second = b;
    int order = strcmp(first->host, second->host);
    if (order == 0)
        order = (first->port > second->port) - (first->port < second->port);
    return order != 0 ? order : compare_places(first, second);
}

static enum error sort_tasks(struct cluster *cluster)
{
    if (cluster->task_count > 0)
        qsort(cluster->tasks, cluster->task_count, sizeof(*cluster->tasks), compare_places);
    for (size_t i = 1; i < cluster->task_count; i++) {
        if (compare_places(&cluster->tasks[i - 1], &cluster->tasks[i]) == 0)
            return error_set(ERROR_USAGE, "%s %" PRId64 " is twice in %s",
                             cluster_role_name(cluster, cluster->tasks[i].role),
                             cluster->tasks[i].index, cluster->source);
    }
    size_t at = 0;
    for (int role = 0; role <= CLUSTER_ROLES; role++) {
        while (at < cluster->task_count && (int)cluster->tasks[at].role < role)
            at++;
        cluster->begin[role] = at;
    }
    return OK;
}

static enum error refuse_shared(const struct cluster *cluster, const struct cluster_task *a,
                                const struct cluster_task *b)
{
    char address[CLUSTER_ADDRESS_BYTES];
    return error_set(ERROR_USAGE,
                     "%s %" PRId64 " and %s %" PRId64
                     " have the same address in %s, %s; a parameter server needs one of its own",
                     cluster_role_name(cluster, a->role), a->index,
                     cluster_role_name(cluster, b->role), b->index, cluster->source,
                     cluster_task_address(a, address));
}

/* Workers do not listen, so their addresses may be equal: that of a service in front of them. */
static enum error check_addresses(const struct cluster *cluster)
{
    enum error error = OK;
    const struct cluster_task *inside = cluster->is_alone ? NULL : cluster_server(cluster, 0);
    struct cluster_task *sorted =
        array_new(cluster->task_count, sizeof(*sorted), "addresses of a cluster");
    if (!sorted)
        return ERROR_MEMORY;
    for (size_t i = 0; i < cluster->task_count; i++)
        sorted[i] = cluster->tasks[i];
    qsort(sorted, cluster->task_count, sizeof(*sorted), compare_addresses);
    const struct cluster_task *server = NULL; /* with this address */
    for (size_t i = 0; i < cluster->task_count && !error; i++) {
        const struct cluster_task *task = &sorted[i];
        bool same = i > 0 && share_address(&sorted[i - 1], task);
        bool serves = task->role == CLUSTER_PS || (inside && compare_places(task, inside) == 0);
        if (same && (server || serves))
            error = refuse_shared(cluster, server ? server : &sorted[i - 1], task);
        server = serves ? task : same ? server : NULL;
    }
    free(sorted);
    return error;
}

static enum error check_own_task(const struct cluster *cluster)
{
    const char *job = cluster_role_name(cluster, cluster->role);
    bool may_miss = cluster->role == CLUSTER_WORKER && !cluster->workers_known &&
                    cluster_count(cluster, CLUSTER_WORKER) == 0;
    bool may_join = cluster->role == CLUSTER_WORKER && cluster_count(cluster, CLUSTER_PS) > 0;
    const char *advice =
        may_join ? " (one more worker than are listed leaves the list of them out)" : "";
    if (cluster->role == CLUSTER_EVALUATOR && cluster->index != 0)
        return error_set(ERROR_USAGE,
                         "For distributed training, there can only be one `evaluator` task (with "
                         "task id 0), not %" PRId64,
                         cluster->index);
    if (cluster->role == CLUSTER_EVALUATOR || may_miss ||
        cluster_task(cluster, cluster->role, cluster->index))
        return OK;
    if (cluster_count(cluster, cluster->role) == 0)
        return error_set(ERROR_USAGE,
                         "%s is not a valid task_type in the cluster_spec: there is no %s in %s",
                         job, job, cluster->source);
    return error_set(ERROR_USAGE,
                     "%" PRId64 " is not a valid task_id for task_type %s in the cluster_spec: "
                     "those in %s go from %" PRId64 " to %" PRId64 "%s",
                     cluster->index, job, cluster->source,
                     cluster->tasks[cluster->begin[cluster->role]].index,
                     cluster->tasks[cluster->begin[cluster->role + 1] - 1].index, advice);
}

/* A gradient has a part for each server: a server that a trainer does not see would miss its
 * part. */
static enum error check_servers(const struct cluster *cluster)
{
    bool trains = cluster->role == CLUSTER_CHIEF || cluster->role == CLUSTER_WORKER;
    size_t count = cluster_count(cluster, CLUSTER_PS);
    if (trains && cluster_server_count(cluster) == 0 && !cluster->is_alone)
        return error_set(
            ERROR_USAGE,
            "there is neither a ps nor worker 0, which would serve in its place, in %s: "
            "worker %" PRId64 " has nobody to train with",
            cluster->source, cluster->index);
    if (count == 0 || !trains)
        return OK;
    const struct cluster_task *servers = &cluster->tasks[cluster->begin[CLUSTER_PS]];
    if (servers[count - 1].index == (int64_t)count - 1)
        return OK;
    size_t hole = 0;
    while (servers[hole].index == (int64_t)hole)
        hole++;
    return error_set(ERROR_USAGE,
                     "there is a ps %" PRId64
                     " but no ps %zu in %s; parameters are spread over all of "
                     "them",
                     servers[count - 1].index, hole, cluster->source);
}

enum error cluster_builder_finish(struct cluster_builder *builder)
{
    struct cluster *cluster = &builder->cluster;
    enum error error = sort_tasks(cluster);
    if (error)
        return error;
    size_t chiefs = cluster_count(cluster, CLUSTER_CHIEF);
    cluster->is_chief = cluster->role == CLUSTER_CHIEF ||
                        (cluster->role == CLUSTER_WORKER && cluster->index == 0 && chiefs == 0);
    cluster->is_alone = cluster->is_chief && cluster_count(cluster, CLUSTER_PS) == 0 &&
                        chiefs + cluster_count(cluster, CLUSTER_WORKER) == 1;
    error = check_own_task(cluster);
    if (!error)
        error = check_addresses(cluster);
    return error ? error : check_servers(cluster);
}
