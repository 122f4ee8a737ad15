/* SPDX-License-Identifier: MIT */
/* Shared by feed.c, feed_open.c and feed_close.c: a feed and its end. Private to them. */
#ifndef LOADER_FEED_FEED_PRIVATE_H
#define LOADER_FEED_FEED_PRIVATE_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/errand.h"
#include "common/index_set.h"
#include "loader/feed/copier.h"
#include "loader/feed/feed.h"
#include "loader/feed/feed_options.h"
#include "loader/feed/fetcher.h"
#include "loader/feed/label_check.h"
#include "loader/feed/lease_keeper.h"
#include "loader/feed/pull_queue.h"
#include "loader/feed/puller.h"
#include "loader/feed/resident_set.h"
#include "loader/feed/ring.h"
#include "loader/feed/sampler_stream.h"
#include "loader/store/row_attributes.h"

/* Shared by a feed and the thread that ends and frees it, which may be left behind. */
struct closing {
    struct feed *feed;
    _Atomic(const char *) place; /* where it may hang; NULL: nowhere */
    _Atomic size_t unacked;      /* leases whose batches were put back */
    sem_t ended;                 /* posted when no thread of the feed is left */
    sem_t may_free;              /* posted when no batch is out */
};

struct feed {
    struct closing *closing;                /* freed by `errand` */
    struct errand *errand;                  /* ends and frees all else; allocated at open */
    bool is_ending;                         /* the errand was started */
    struct feed_options options;            /* defaults filled in */
    char *url, *stream, *token, *authority; /* owned copies of the options' texts */
    struct http_credentials credentials;    /* `token` and `authority` */
    struct sampler_stream expected;         /* a copy of the options' */
    struct index_set done;                  /* a copy of the options' */
    struct store *cache; /* of options.store; NULL: rows are fetched from the store itself */
    struct resident_set *resident;     /* NULL: no rows stay on the device */
    struct row_attributes *attributes; /* NULL: none are wanted */
    struct ring *ring;
    struct pull_queue *queue;
    struct label_check *labels;  /* NULL: the labels are trusted */
    struct lease_keeper *leases; /* NULL: not FEED_LEASE */
    struct puller *puller;
    struct fetchers *fetchers;
    struct copier *copier;
    struct feed_batch *batches; /* [K]: what the caller sees of each slot */
    size_t row_bytes;           /* of a row as it is handed out */
    int64_t opened_ns;
    int64_t next; /* number of the next batch */
    _Atomic int64_t batch_count, row_count, byte_count, bad_row_count, wait_ns, first_ns;
};

/* Are bytes delivered as floats? */
bool feed_expands(const struct feed *feed);

/* Makes feed->errand and feed->closing: so that closing, later, allocates nothing. */
enum error feed_prepare_to_close(struct feed *feed) MUST_CHECK;

#endif
