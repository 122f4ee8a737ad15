/* SPDX-License-Identifier: MIT */
/* What the files of the exchange share. Private to them. */
#ifndef TRAINER_EXCHANGE_EXCHANGE_PRIVATE_H
#define TRAINER_EXCHANGE_EXCHANGE_PRIVATE_H

#include "common/buffer.h"
#include "common/index_set.h"
#include "trainer/exchange/exchange.h"
#include "trainer/exchange/rank.h"
#include "trainer/wire/link.h"
#include "trainer/wire/runs.h"
#include "trainer/wire/shard.h"
#include "trainer/wire/shared_memory.h"

#define EXCHANGE_SEND_MS 60000 /* for a peer that reads nothing */
#define EXCHANGE_NAME_BYTES (CLUSTER_ADDRESS_BYTES + 40)

/* One parameter server, as this worker sees it. */
struct remote {
    char name[EXCHANGE_NAME_BYTES];
    struct link link;
    struct shard shard;
    struct runs runs;            /* of the gradient that was sent last */
    struct shared_memory shared; /* of this connection */
    bool offered;                /* it was, on this connection */
    bool answered;               /* the request of now */
    int64_t step;                /* of its values that this worker has */
};

struct exchange {
    struct exchange_options options;
    size_t servers;
    struct remote *remotes; /* [servers] */
    struct buffer facts;    /* of server 0, as it sent them */
    bool proposes;

    const struct engine *engine;
    struct model *model;
    float *values, *gradient; /* [P], host: the model's own on the CPU */
    float *own_memory;        /* both, where they are not */

    uint64_t generation;
    int64_t step;
    struct index_set held;    /* granted and not pushed */
    struct index_set granted; /* not passed on to the feed yet: a batch that is pushed several times
                               * can bring several grants */
    struct index_set asked;   /* synchronous: of the feed, and not brought yet */
    int64_t done;             /* all servers have it, and server 0 was not told; WIRE_NONE */
    bool over;
    bool again; /* a server wants the gradient of now computed with newer values */

    const char *waits_for; /* a remote's name: the log has said so; NULL */
    int64_t away_ns;       /* since when a server cannot be reached; 0: all can */
    uint64_t seen;         /* of the logdir */

    struct rank *rank; /* in a group of GPUs; NULL: gradients go to servers */
};

/* ---- exchange_connection.c ---------------------------------------------- */

/* Connects and says HELLO, as long as patience lasts. ERROR_END: the training is over. */
enum error exchange_connect(struct exchange *exchange, struct remote *remote) MUST_CHECK;
/* Is it an error of a connection, which may be made again? */
bool exchange_may_come_back(enum error error);
/* Says what is trained, and hears what holds from now on. */
enum error exchange_send_proposal(struct exchange *exchange, const struct buffer *facts) MUST_CHECK;
/* The answer's header, however long it takes: a server that is there and does not answer waits for
 * somebody itself. */
enum error exchange_receive(struct exchange *exchange, struct remote *remote, uint64_t most_bytes,
                            struct wire_header *ret_header) MUST_CHECK;
/* In the log, once. */
void exchange_say_waiting(struct exchange *exchange, const struct remote *remote, const char *why);
/* Server 0 took back what a lost connection held. */
void exchange_lose_grants(struct exchange *exchange);

#endif
