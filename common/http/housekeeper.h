/* SPDX-License-Identifier: MIT */
/*
 * A server's maintenance thread: it reads tokens and certificates again on SIGHUP, and once a
 * second closes slow connections, logs the counts of suppressed lines and notifies systemd's
 * watchdog.
 */
#ifndef COMMON_HTTP_HOUSEKEEPER_H
#define COMMON_HTTP_HOUSEKEEPER_H

#include "common/error.h"
#include "common/http/connection.h"
#include "common/http/guard.h"

struct housekeeper;

/* Blocks SIGHUP until the housekeeper takes it; without this call SIGHUP is not its business. In
 * main, before any thread is started: threads inherit the mask. */
void housekeeper_block_signals(void);

/* Both are borrowed until housekeeper_free(). Calls `tick` once a second, and at the end with
 * INT64_MAX. */
enum error housekeeper_new(struct guard *guard, struct connections *connections,
                           void (*tick)(int64_t now_ms),
                           struct housekeeper **ret_housekeeper) MUST_CHECK;
/* NULL is legal. */
void housekeeper_free(struct housekeeper *housekeeper);

#endif
