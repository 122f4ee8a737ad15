/*
 * The thread that looks after a server: SIGHUP reads tokens and certificates again, slow
 * connections are closed once a second, sums of what the log held back are written, systemd's
 * watchdog hears that the process works.
 */
#ifndef SAMPLER_HTTP_HOUSEKEEPER_H
#define SAMPLER_HTTP_HOUSEKEEPER_H

#include "common/error.h"
#include "sampler/http/connection.h"
#include "sampler/http/guard.h"

struct housekeeper;

/* SIGHUP waits for the attendant from here on. In main, before any thread is started: threads
 * inherit it. */
void housekeeper_block_signals(void);

/* Both are borrowed until housekeeper_free(). */
enum error housekeeper_new(struct guard *guard, struct connections *connections,
                           struct housekeeper **ret_attendant) MUST_CHECK;
/* NULL is legal. */
void housekeeper_free(struct housekeeper *attendant);

#endif
