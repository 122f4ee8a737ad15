/* SPDX-License-Identifier: MIT */
#include "trainer/cluster/cluster_nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "trainer/cluster/cluster_builder.h"

#define SOURCE "--nodes"

/* Removes the brackets of an IPv6 address from *host. */
static enum error read_host(struct text *host)
{
    char shown[TEXT_QUOTE_BYTES];
    struct text given = *host;
    if (given.length > 2 && given.data[0] == '[' && given.data[given.length - 1] == ']')
        *host = (struct text){.data = given.data + 1, .length = given.length - 2};
    if (cluster_builder_is_host(host->data, host->length))
        return OK;
    return error_set(ERROR_USAGE,
                     "--nodes has %s, must be a host's name or address without a port: --ps-port "
                     "and --worker-port are those of all nodes",
                     text_quote(shown, sizeof(shown), given.data, given.length));
}

static enum error add_task(struct cluster_builder *builder, const struct text *host, int64_t port,
                           enum cluster_role role, int64_t index)
{
    char address[CLUSTER_ADDRESS_BYTES];
    bool brackets = memchr(host->data, ':', host->length) != NULL;
    snprintf(address, sizeof(address), "%s%.*s%s:%" PRId64, brackets ? "[" : "", (int)host->length,
             host->data, brackets ? "]" : "", port);
    return cluster_builder_add(builder, SOURCE, role, index, address);
}

static enum error add_node(struct cluster_builder *builder, struct text host, int64_t ps_port,
                           int64_t worker_port, int64_t number)
{
    enum cluster_role role = number == 0 ? CLUSTER_CHIEF : CLUSTER_WORKER;
    enum error error = read_host(&host);
    if (!error)
        error = add_task(builder, &host, ps_port, CLUSTER_PS, number);
    if (!error)
        error = add_task(builder, &host, worker_port, role, number == 0 ? 0 : number - 1);
    return error;
}

enum error cluster_nodes_parse(const char *nodes, int64_t ps_port, int64_t worker_port,
                               struct cluster *ret_cluster)
{
    struct cluster_builder builder = {.capacity = 0};
    enum error error = OK;
    int64_t number = 0;
    cluster_init(&builder.cluster);
    builder.cluster.source = SOURCE;
    builder.cluster.chief_is_master = true;
    builder.cluster.role = CLUSTER_CHIEF; /* as the first node sees it */
    do {
        struct text node = {.data = nodes, .length = strcspn(nodes, ",")};
        error = add_node(&builder, node, ps_port, worker_port, number++);
        nodes += node.length;
    } while (!error && *nodes++ == ',');
    if (!error)
        error = cluster_builder_finish(&builder);
    if (!error)
        *ret_cluster = builder.cluster;
    else
        cluster_release(&builder.cluster);
    return error;
}

const struct cluster_task *cluster_nodes_trainer(const struct cluster *cluster, size_t node)
{
    return node == 0 ? cluster_task(cluster, CLUSTER_CHIEF, 0)
                     : cluster_task(cluster, CLUSTER_WORKER, (int64_t)node - 1);
}
