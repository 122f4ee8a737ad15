/* SPDX-License-Identifier: MIT */
/*
 * The first byte chooses: 'f' and four lines are the flags, all else is TF_CONFIG. What was taken
 * holds together, and what is printed of it is read back as the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "trainer/cluster/cluster_parse.h"
#include "trainer/cluster/tf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static const struct cluster_flags no_flags;

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_list(const struct cluster *cluster)
{
    check(cluster->task_count <= CLUSTER_TASKS_LIMIT);
    check(cluster->begin[0] == 0 && cluster->begin[CLUSTER_ROLES] == cluster->task_count);
    for (size_t i = 0; i < cluster->task_count; i++) {
        const struct cluster_task *task = &cluster->tasks[i];
        char address[CLUSTER_ADDRESS_BYTES];
        check(i >= cluster->begin[task->role] && i < cluster->begin[task->role + 1]);
        check(task->port > 0 && task->index >= 0 && task->index <= CLUSTER_INDEX_LIMIT);
        check(task->host[0] && strlen(task->host) <= CLUSTER_HOST_LIMIT);
        check(!strpbrk(cluster_task_address(task, address), " '\"\\\n"));
        check(i == cluster->begin[task->role] || task[-1].index < task->index);
        check(cluster_task(cluster, task->role, task->index) == task);
    }
}

/* Whoever trains beside others reaches every server, and each of them is where it says. */
static void check_roles(const struct cluster *cluster)
{
    bool trains = cluster->role == CLUSTER_CHIEF || cluster->role == CLUSTER_WORKER;
    size_t servers = cluster_server_count(cluster);
    check(cluster_count(cluster, CLUSTER_CHIEF) <= 1);
    check(!cluster->is_chief || trains);
    check(!cluster->is_alone || (cluster->is_chief && servers == 0));
    check(cluster->is_alone || !trains || servers > 0);
    check(!cluster_runs_server(cluster) || servers > 0);
    for (size_t i = 0; i < servers; i++) {
        const struct cluster_task *server = cluster_server(cluster, i);
        check(server != NULL);
        check(!trains || server->role != CLUSTER_PS || server->index == (int64_t)i);
    }
    if (cluster->role != CLUSTER_EVALUATOR && cluster->workers_known && cluster->source)
        check(cluster_task(cluster, cluster->role, cluster->index) != NULL);
}

static void check_again(const struct cluster *cluster)
{
    struct cluster again;
    struct buffer json = BUFFER_INIT((size_t)64 << 20);
    check(!tf_config_print(cluster, cluster->role, cluster->index, &json));
    check(!cluster_parse(json.data, &no_flags, &again));
    check(again.task_count == cluster->task_count && again.index == cluster->index);
    check(again.role == cluster->role && again.is_chief == cluster->is_chief);
    check(again.is_alone == cluster->is_alone);
    for (size_t i = 0; i < again.task_count; i++)
        check(strcmp(again.tasks[i].host, cluster->tasks[i].host) == 0 &&
              again.tasks[i].port == cluster->tasks[i].port);
    cluster_release(&again);
    buffer_release(&json);
}

/* Cuts the next line off. */
static const char *take_line(char **text)
{
    char *line = *text;
    char *end = line + strcspn(line, "\n");
    *text = *end ? end + 1 : end;
    *end = '\0';
    return line;
}

static enum error parse(char *text, struct cluster *ret_cluster)
{
    struct cluster_flags flags = no_flags;
    if (text[0] != 'f')
        return cluster_parse(text, &no_flags, ret_cluster);
    text++;
    flags.ps_hosts = take_line(&text);
    flags.worker_hosts = take_line(&text);
    flags.job_name = take_line(&text);
    flags.task_index_given = text[0] != '\0';
    flags.task_index = strtol(text, NULL, 10) & CLUSTER_INDEX_LIMIT;
    return cluster_parse(NULL, &flags, ret_cluster);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct cluster cluster;
    char *text = malloc(length + 1);
    if (!text)
        return 0;
    log_set_level(LOG_ERROR);
    memcpy(text, data, length);
    text[length] = '\0';
    enum error error = parse(text, &cluster);
    check(error == OK || (error == ERROR_USAGE && error_message()[0]));
    if (!error) {
        check_list(&cluster);
        check_roles(&cluster);
        if (cluster.source && cluster.workers_known)
            check_again(&cluster);
        cluster_release(&cluster);
    }
    free(text);
    return 0;
}
