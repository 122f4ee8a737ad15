/* SPDX-License-Identifier: MIT */
/*
 * Watches whether the sampler still gives the order of the training: every few seconds on a
 * borrowed thread, and on request.
 */
#ifndef TRAINER_RUN_ORDER_WATCH_H
#define TRAINER_RUN_ORDER_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/error.h"
#include "loader/feed/stream_position.h"

struct order_watch {
    const char *url, *stream;        /* borrowed */
    struct stream_position position; /* where the training started */
    _Atomic bool changed;            /* the sampler has another order; see `report` */
    struct error_report report;
};

/* Checks once, for less than half a second; without an answer it decides nothing. `context` is a
 * struct order_watch. One thread at a time. */
void order_watch_look(void *context);
/* ERROR_CONFLICT if a check has found another order. Never blocks. */
enum error order_watch_heed(const struct order_watch *watch) MUST_CHECK;
/* Asks now, for up to a second. ERROR_CONFLICT: another order; OK also without an answer. */
enum error order_watch_ask(const struct order_watch *watch) MUST_CHECK;

#endif
