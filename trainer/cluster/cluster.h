/* SPDX-License-Identifier: MIT */
/*
 * A cluster: the processes of one training by job and index, and which of them this one is. Plain
 * data, parsed by cluster_parse() from TF_CONFIG or flags; nothing here opens a connection or
 * resolves a name.
 *
 * Jobs: one chief (or master) and workers train, parameter servers (ps) hold the parameters, the
 * evaluator only reads checkpoints and takes no part in an exchange. Without a chief, worker 0 is
 * the chief. Without a ps, the chief's process also runs one server, at its own address.
 *
 * A worker's index is its name in logs, not its identity: more workers than listed may join, and
 * two processes may share an index (README, "Two workers 0").
 *
 * Threads: any number of readers.
 */
#ifndef TRAINER_CLUSTER_CLUSTER_H
#define TRAINER_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define CLUSTER_TASKS_LIMIT 65536     /* of all jobs */
#define CLUSTER_INDEX_LIMIT INT32_MAX /* the greatest index of a task */
#define CLUSTER_HOST_LIMIT 253        /* characters of a host name */

/* In the order of the list of tasks. */
enum cluster_role { CLUSTER_CHIEF, CLUSTER_WORKER, CLUSTER_PS, CLUSTER_EVALUATOR };
#define CLUSTER_ROLES 4

struct cluster_task {
    enum cluster_role role;
    uint16_t port; /* never 0 */
    int64_t index; /* in its job; at most CLUSTER_INDEX_LIMIT */
    char *host;    /* owned; a name or an address, IPv6 without brackets */
};

struct cluster {
    const char *source;     /* where it is described, for messages; NULL: nowhere, one process */
    enum cluster_role role; /* of this process */
    int64_t index;          /* of this process in its job */
    bool is_chief;          /* this process is the chief, or worker 0 if there is none */
    bool is_alone;          /* this process is the whole training: no server, no exchange */
    bool chief_is_master;   /* the chief's job is called "master" */
    /* False: the list omits workers (a sparse cluster, or flags without --worker-hosts). */
    bool workers_known;
    /* False: a ps that may see only itself (a sparse cluster). Processes that train see every ps,
     * numbered 0, 1, ... without a hole. */
    bool servers_known;

    struct cluster_task *tasks; /* owned; [task_count], by role, then index */
    size_t task_count;
    size_t begin[CLUSTER_ROLES + 1]; /* tasks of role r: begin[r] to begin[r + 1], excluded */
};

/* A single process that does everything: worker 0, chief, alone. */
void cluster_init(struct cluster *cluster);
/* Resets to the state after cluster_init(). */
void cluster_release(struct cluster *cluster);

/* How many tasks of a role are listed. */
size_t cluster_count(const struct cluster *cluster, enum cluster_role role);
/* NULL: not listed. Borrowed. */
const struct cluster_task *cluster_task(const struct cluster *cluster, enum cluster_role role,
                                        int64_t index);

/* Listed processes that train: chief and workers; 1 when alone. */
size_t cluster_trainer_count(const struct cluster *cluster);
/* Parameter servers: each ps, or the chief's own if there is none; 0 when alone. */
size_t cluster_server_count(const struct cluster *cluster);
/* The address at which server `number` (0 <= number < cluster_server_count()) listens. Borrowed. */
const struct cluster_task *cluster_server(const struct cluster *cluster, size_t number);
/* Does this process hold parameters for others: a ps, or a chief if there is none? */
bool cluster_runs_server(const struct cluster *cluster);

/* "chief" or "master", "worker", "ps", "evaluator": the job's name in this cluster. */
const char *cluster_role_name(const struct cluster *cluster, enum cluster_role role);
/* "HOST:PORT", an IPv6 address in brackets; returns `out`. */
#define CLUSTER_ADDRESS_BYTES (CLUSTER_HOST_LIMIT + sizeof("[]:65535"))
const char *cluster_task_address(const struct cluster_task *task, char out[CLUSTER_ADDRESS_BYTES]);

#endif
