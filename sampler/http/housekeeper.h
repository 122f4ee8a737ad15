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

struct attendant;

/* SIGHUP waits for the attendant from here on. In main, before any thread is started: threads
 * inherit it. */
void attendant_block_signals(void);

/* Both are borrowed until attendant_free(). */
enum error attendant_new(struct guard *guard, struct connections *connections,
                         struct attendant **ret_attendant) MUST_CHECK;
/* NULL is legal. */
void attendant_free(struct attendant *attendant);

#endif
