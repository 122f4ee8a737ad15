/* SPDX-License-Identifier: MIT */
/* Shared by exchange*.c and rank*.c. */
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
#define EXCHANGE_SAY_MS 5000   /* without an answer, until the log says so */
#define EXCHANGE_NAME_BYTES (CLUSTER_ADDRESS_BYTES + 40)

/* One parameter server, as this worker sees it. */
struct remote {
    char name[EXCHANGE_NAME_BYTES];
    struct link link;
    struct shard shard;
    struct runs runs;            /* of the last gradient sent */
    struct shared_memory shared; /* of this connection */
    bool offered;                /* shared memory was offered on this connection */
    bool answered;               /* it has answered the current request */
    bool is_empty;               /* it had no shard at its greeting, and sent no values since */
    int64_t greeted_ns;          /* when it did, if it has answered no request since; else 0 */
    bool in_vain;                /* so did the connection before, which was lost at once */
    int64_t step;                /* of this worker's copy of its values */
};

struct exchange {
    struct exchange_options options;
    size_t servers;
    struct remote *remotes; /* [servers] */
    struct buffer facts;    /* as received from server 0 */
    bool proposes;
    bool was_saved; /* server 0 has had a checkpoint */
    int64_t epochs; /* after which this worker's stream ends; 0: not known yet */
    int64_t told;   /* `epochs`, once server 0 knows them; else 0 */

    const struct engine *engine;
    struct model *model;
    float *values, *gradient; /* [P], host: the model's own on the CPU */
    float *own_memory;        /* of both on a GPU; NULL: the model's */

    uint64_t generation;
    int64_t step;
    struct index_set held; /* granted and not pushed */
    struct index_set
        granted; /* and not passed on to the feed yet; a repeated push can bring several */
    struct index_set asked; /* synchronous: requested from the feed and not delivered yet */
    int64_t done; /* a batch that all servers have; to be reported to server 0; WIRE_NONE */
    bool over;
    bool again; /* a server wants the current gradient computed with newer values */

    const struct remote *behind; /* the latest that answered STALE */
    const char *waits_for;       /* the remote that the log has named; NULL: none */
    int64_t away_ns;             /* since when a server is tried in vain; 0: all are there */
    uint64_t seen;               /* state of logdir_is_trained() */

    struct rank *rank; /* in a group of GPUs; NULL: gradients go to servers */
};

/* ---- exchange_connection.c ---------------------------------------------- */

/* Connects and sends HELLO, retrying for patience_ms. ERROR_END: the training is over. */
enum error exchange_connect(struct exchange *exchange, struct remote *remote) MUST_CHECK;
/* Is it an error of a connection, after which to reconnect? */
bool exchange_may_come_back(enum error error);
/* Describes the training to server 0, and receives the description in force. */
enum error exchange_send_proposal(struct exchange *exchange, const struct buffer *facts) MUST_CHECK;
/* Tells server 0 `epochs`. ERROR_CONFLICT: other workers have a stream of more epochs. */
enum error exchange_send_stream(struct exchange *exchange) MUST_CHECK;
/* The answer's header. No time limit: a connected server that does not answer is itself waiting for
 * another process. */
enum error exchange_receive(struct exchange *exchange, struct remote *remote, uint64_t most_bytes,
                            struct wire_header *ret_header) MUST_CHECK;
/* Logs it, once per wait. */
void exchange_say_waiting(struct exchange *exchange, const struct remote *remote, const char *why);
/* It has answered a request, which is more than a greeting: the wait for it is over. */
void exchange_was_answered(struct exchange *exchange, struct remote *remote);
/* Moves the model into the memory that a single server shares; out of it, and gives it up. */
void exchange_use_memory(struct exchange *exchange, const struct remote *remote);
void exchange_release_memory(struct exchange *exchange, struct remote *remote);
/* Forgets the batches of a lost connection, which server 0 has taken back. */
void exchange_lose_grants(struct exchange *exchange);

/* ---- exchange_request.c ------------------------------------------------- */

/* Sends `request` to servers [begin, end) and takes their answers; a server lost meanwhile is asked
 * again. *ret_stale: all have answered, and one of them has another generation. */
enum error exchange_ask(struct exchange *exchange, const struct wire_header *request, size_t begin,
                        size_t end, bool *ret_stale) MUST_CHECK;

#endif
