/* SPDX-License-Identifier: MIT */
#include "trainer/cluster/cluster_flags.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "trainer/cluster/cluster_builder.h"

#define SOURCE "--ps-hosts and --worker-hosts"

static bool is_given(const char *text)
{
    return text && text[0];
}

static enum error add_hosts(struct cluster_builder *builder, const char *option,
                            enum cluster_role role, const char *hosts)
{
    enum error error = OK;
    int64_t index = 0;
    if (!is_given(hosts))
        return OK;
    do {
        size_t length = strcspn(hosts, ",");
        char *address = strndup(hosts, length);
        error = address ? cluster_builder_add(builder, option, role, index++, address)
                        : error_set_memory(length, "an address");
        free(address);
        hosts += length;
    } while (!error && *hosts++ == ',');
    return error;
}

static enum error check_no_job(const struct cluster_flags *flags)
{
    if (is_given(flags->ps_hosts) || is_given(flags->worker_hosts))
        return error_set(ERROR_USAGE,
                         "Must specify an explicit `job_name`: %s lists a cluster, and --job-name "
                         "ps, worker or evaluator says what this process does in it",
                         is_given(flags->ps_hosts) ? "--ps-hosts" : "--worker-hosts");
    if (flags->task_index_given && flags->task_index != 0)
        return error_set(ERROR_USAGE,
                         "--task-index is %" PRId64 ", but there is no cluster: --ps-hosts, "
                         "--worker-hosts and --job-name say of which; TF_CONFIG names its own "
                         "task: leave --task-index out beside it",
                         flags->task_index);
    return OK;
}

static enum error choose_role(const struct cluster_flags *flags, enum cluster_role *ret_role)
{
    char shown[TEXT_QUOTE_BYTES];
    const char *name = flags->job_name;
    if (strcmp(name, "worker") == 0)
        *ret_role = CLUSTER_WORKER;
    else if (strcmp(name, "ps") == 0)
        *ret_role = CLUSTER_PS;
    else if (strcmp(name, "evaluator") == 0)
        *ret_role = CLUSTER_EVALUATOR;
    else
        return error_set(
            ERROR_USAGE,
            "--job-name is %s, must be ps, worker or evaluator (worker 0 is the chief)",
            text_quote(shown, sizeof(shown), name, strlen(name)));
    return OK;
}

static enum error choose_index(const struct cluster_flags *flags, struct cluster_builder *builder)
{
    struct cluster *cluster = &builder->cluster;
    size_t count = cluster_builder_count(builder, cluster->role);
    cluster->index = flags->task_index_given ? flags->task_index : 0;
    if (flags->task_index_given || count == 1 || cluster->role == CLUSTER_EVALUATOR)
        return OK;
    return error_set(ERROR_USAGE,
                     "Must specify an explicit `task_index`: --task-index N says "
                     "which %s of the cluster this process is",
                     flags->job_name);
}

static enum error check_hosts(const struct cluster *cluster)
{
    if (cluster->task_count > 0 || cluster->role == CLUSTER_EVALUATOR)
        return OK;
    return error_set(ERROR_USAGE,
                     "--job-name is %s, but there is no cluster: --ps-hosts and "
                     "--worker-hosts list its tasks, HOST:PORT,HOST:PORT",
                     cluster_role_name(cluster, cluster->role));
}

static enum error read_all(struct cluster_builder *builder, const struct cluster_flags *flags)
{
    struct cluster *cluster = &builder->cluster;
    if (!is_given(flags->job_name))
        return check_no_job(flags);
    cluster->source = SOURCE;
    cluster->workers_known = is_given(flags->worker_hosts);
    enum error error = choose_role(flags, &cluster->role);
    if (!error)
        error = add_hosts(builder, "--ps-hosts", CLUSTER_PS, flags->ps_hosts);
    if (!error)
        error = add_hosts(builder, "--worker-hosts", CLUSTER_WORKER, flags->worker_hosts);
    if (!error)
        error = check_hosts(cluster);
    if (!error)
        error = choose_index(flags, builder);
    return error ? error : cluster_builder_finish(builder);
}

enum error cluster_flags_parse(const struct cluster_flags *flags, struct cluster *ret_cluster)
{
    struct cluster_builder builder = {.capacity = 0};
    cluster_init(&builder.cluster);
    enum error error = read_all(&builder, flags);
    if (!error)
        *ret_cluster = builder.cluster;
    else
        cluster_release(&builder.cluster);
    return error;
}
