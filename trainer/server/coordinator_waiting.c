/* SPDX-License-Identifier: MIT */
/* Finds and logs what a stalled training waits for. A short absence of a server is not logged. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/server/coordinator_private.h"

#define SAY_MS 3000

static bool has_worker(struct peer *const peers[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (peers[i]->kind == PEER_WORKER)
            return true;
    }
    return false;
}

/* Writes what is missing to `out`; "": nothing is. */
static void find_missing(const struct coordinator *coordinator, struct peer *const peers[],
                         size_t count, char *out, size_t bytes)
{
    size_t away = 0, first = 0;
    out[0] = '\0';
    for (size_t i = coordinator->options.servers; i-- > 1;) {
        if (coordinator->remotes[i].peer)
            continue;
        first = i;
        away++;
    }
    if (away == 0 && coordinator->load_ns != 0)
        snprintf(out, bytes, "a checkpoint in %s", coordinator->options.logdir);
    if (away > 0)
        snprintf(out, bytes, "parameter server %zu", first);
    if (away > 1)
        snprintf(out + strlen(out), bytes - strlen(out), " and %zu %s", away - 1,
                 text_plural((int64_t)away - 1, "other", "others"));
    bool ends = coordinator->phase == COORDINATOR_RUNNING && coordinator_is_finished(coordinator);
    if (out[0] == '\0' && !ends && !has_worker(peers, count))
        snprintf(out, bytes, "a worker");
    else if (out[0] == '\0' && coordinator->proposer)
        snprintf(out, bytes, "%s to open what it trains from", coordinator->proposer->name);
}

const char *coordinator_waits_for(const struct coordinator *coordinator)
{
    return coordinator->waits_for;
}

bool coordinator_say_waiting(struct coordinator *coordinator, struct peer *const peers[],
                             size_t count)
{
    char missing[sizeof(coordinator->waits_for)] = "";
    if (coordinator->phase != COORDINATOR_OVER)
        find_missing(coordinator, peers, count, missing, sizeof(missing));
    if (strcmp(missing, coordinator->waits_for) != 0) {
        memcpy(coordinator->waits_for, missing, sizeof(missing));
        coordinator->wait_ns = clock_deadline_ns(SAY_MS);
    }
    if (missing[0] == '\0' || clock_now_ns() < coordinator->wait_ns)
        return false;
    coordinator->wait_ns = clock_deadline_ns(SAY_AGAIN_MS);
    log_warning("waiting for %s%s%s", missing, coordinator->refused[0] ? "; " : "",
                coordinator->refused);
    return true;
}

/* All others leave once the logdir has the end. A server 0 that was killed just then, and is
 * started again, would wait for them for ever; but they may also come with more epochs. */
bool coordinator_has_nothing_left(const struct coordinator *coordinator)
{
    const struct coordinator_options *options = &coordinator->options;
    const struct stream_position *position = &coordinator->facts.position;
    struct stream_position now = *position;
    if (!position->ended || position->stopped || saver_is_busy(coordinator->saver) ||
        !options->sampler_url ||
        sampler_order_peek(options->sampler_url, options->stream, &now.stream))
        return false;
    return now.stream.epochs > 0 && now.stream.epochs == position->stream.epochs &&
           sampler_order_compare(position, options->logdir, &now) == OK;
}

void coordinator_note_refusal(struct coordinator *coordinator, const struct peer *peer,
                              const char *why)
{
    snprintf(coordinator->refused, sizeof(coordinator->refused), "%s takes no part: %s", peer->name,
             why);
}
