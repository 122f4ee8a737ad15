/* SPDX-License-Identifier: MIT */
/*
 * Watches whether the sampler still gives the order that is trained on: every few seconds on a
 * thread of somebody else, and when asked.
 */
#ifndef TRAINER_RUN_ORDER_WATCH_H
#define TRAINER_RUN_ORDER_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/error.h"
#include "loader/feed/stream_position.h"

struct order_watch {
    const char *url, *stream;        /* borrowed */
    struct stream_position position; /* where the training began */
    _Atomic bool changed;            /* the sampler has another order; see `report` */
    struct error_report report;
};

/* Looks once, for less than half a second; no answer is no verdict. `context` is a struct
 * order_watch. One thread at a time. */
void order_watch_look(void *context);
/* ERROR_CONFLICT when a look has found another order. Never blocks. */
enum error order_watch_heed(const struct order_watch *watch) MUST_CHECK;
/* Asks now, for up to a second. ERROR_CONFLICT: another order; OK also when nobody answers. */
enum error order_watch_ask(const struct order_watch *watch) MUST_CHECK;

#endif
