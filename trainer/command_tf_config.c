/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "trainer/cluster/cluster_nodes.h"
#include "trainer/cluster/tf_config.h"
#include "trainer/commands.h"

#define VARIABLE "TF_CONFIG"
/* Linux limits NAME=VALUE to this length, its NUL included. */
#define ASSIGNMENT_BYTES_LIMIT 131072

static enum error run(const struct program *program, int argc, char **argv);

const struct command command_tf_config = {
    .name = "tf-config",
    .summary = "print the TF_CONFIG of each task of a cluster",
    .details =
        "  tombola-trainer tf-config --nodes 10.0.0.1,10.0.0.2 |\n"
        "    while read -r node variable; do\n"
        "      ssh -n \"$node\" \"$variable tombola-trainer train OPTIONS\" &\n"
        "    done; wait\n"
        "Each node runs two tasks: a parameter server and a worker (on the first node, the "
        "master).\n"
        "Prints two lines per node: the node, a space, and TF_CONFIG='...', quoted for a shell.\n"
        "Start every task with the same command and options.\n",
    .run = run,
};

static enum error print_task(const struct cluster *cluster, const struct cluster_task *task,
                             struct buffer *json)
{
    buffer_clear(json);
    enum error error = tf_config_print(cluster, task->role, task->index, json);
    size_t bytes = json->length + sizeof(VARIABLE "=");
    if (!error && bytes > ASSIGNMENT_BYTES_LIMIT)
        error = error_set(ERROR_USAGE,
                          "--nodes: a TF_CONFIG for %zu nodes takes %zu bytes; a program's "
                          "environment holds variables of %d at most",
                          cluster_server_count(cluster), bytes, ASSIGNMENT_BYTES_LIMIT);
    if (!error) /* no character of a host needs quotes */
        printf("%s " VARIABLE "='%s'\n", task->host, json->data);
    return error;
}

static enum error print_all(const struct cluster *cluster)
{
    struct buffer json = BUFFER_INIT((size_t)CLUSTER_TASKS_LIMIT * CLUSTER_ADDRESS_BYTES);
    enum error error = OK;
    for (size_t node = 0; node < cluster_server_count(cluster) && !error; node++) {
        error = print_task(cluster, cluster_server(cluster, node), &json);
        if (!error)
            error = print_task(cluster, cluster_nodes_trainer(cluster, node), &json);
    }
    buffer_release(&json);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    const char *nodes = NULL;
    int64_t ps_port = 2222;
    int64_t worker_port = 2223;
    struct cluster cluster;
    const struct option table[] = {
        {.name = "nodes",
         .type = OPTION_TEXT,
         .target = &nodes,
         .argument = "HOST,HOST,...",
         .help = "names or addresses of the nodes; the first is the chief",
         .required = true},
        {.name = "ps_port",
         .type = OPTION_INTEGER,
         .target = &ps_port,
         .argument = "PORT",
         .help = "port of the parameter server on each node",
         .minimum = 1,
         .maximum = UINT16_MAX},
        {.name = "worker_port",
         .type = OPTION_INTEGER,
         .target = &worker_port,
         .argument = "PORT",
         .help = "port of the master or worker on each node",
         .minimum = 1,
         .maximum = UINT16_MAX},
    };
    enum error error = options_parse(program, &command_tf_config, table,
                                     sizeof(table) / sizeof(table[0]), argc, argv, NULL);
    if (!error)
        error = cluster_nodes_parse(nodes, ps_port, worker_port, &cluster);
    if (error)
        return error;
    error = print_all(&cluster);
    cluster_release(&cluster);
    return error;
}
