/* SPDX-License-Identifier: MIT */
/* Shared by the coordinator's other files: the training's facts, and messages to other servers. */
#include "common/log.h"
#include "trainer/server/coordinator_private.h"

enum error coordinator_set_facts(struct coordinator *coordinator, struct checkpoint *checkpoint)
{
    const struct coordinator_options *options = &coordinator->options;
    struct checkpoint_facts facts = *checkpoint_get_facts(checkpoint);
    enum error error = checkpoint_compare(checkpoint, options->model);
    if (!error)
        hyperparameters_log_changes(&facts.model, options->model);
    facts.model.optimizer = options->model->optimizer;
    facts.model.clip = options->model->clip;
    facts.model.dropout = options->model->dropout;
    facts.done = (struct index_set){.count = 0};
    if (!error)
        error = model_layout_init(&coordinator->layout, &facts.model.shape, &facts.model.optimizer);
    struct checkpoint_facts sent = facts;
    /* Workers compare these bytes: progress must not change them. */
    sent.position.ended = sent.position.stopped = false;
    sent.position.stream.epochs = 0;
    if (!error)
        error = checkpoint_print_facts(&sent, 0, &coordinator->bytes);
    if (error) {
        checkpoint_close(checkpoint);
        return error;
    }
    coordinator->checkpoint = checkpoint;
    coordinator->facts = facts;
    for (size_t i = 0; i < options->servers; i++)
        shard_init(&coordinator->remotes[i].shard, &coordinator->layout, options->servers, i,
                   options->round_robin);
    coordinator->phase = COORDINATOR_GATHERING;
    coordinator->anew = coordinator->changed = true;
    return held_shard_shape(coordinator->held, &coordinator->layout, &coordinator->remotes[0].shard,
                            &facts.model.optimizer);
}

enum error coordinator_send_facts(const struct coordinator *coordinator, struct peer *peer)
{
    struct wire_header header = {.type = WIRE_FACTS, .generation = coordinator->generation};
    struct iovec part = {.iov_base = coordinator->bytes.data, .iov_len = coordinator->bytes.length};
    return peer_send(peer, &header, &part, 1);
}

bool coordinator_has_all_servers(const struct coordinator *coordinator)
{
    for (size_t i = 1; i < coordinator->options.servers; i++) {
        if (!coordinator->remotes[i].peer)
            return false;
    }
    return true;
}

/* Synchronous, what is done may be stored for a step that is about to be made. */
bool coordinator_is_finished(const struct coordinator *coordinator)
{
    const struct held_shard *held = coordinator->held;
    return (coordinator_step(coordinator) >= coordinator->last ||
            batch_ledger_is_finished(&coordinator->ledger)) &&
           index_set_within(&held->applied, &coordinator->ledger.done) && held->stored_count == 0;
}

void coordinator_tell_servers(struct coordinator *coordinator, enum wire_type type,
                              const struct index_set *set)
{
    for (size_t i = 1; i < coordinator->options.servers; i++) {
        struct wire_header header = {.type = (uint16_t)type,
                                     .generation = coordinator->generation,
                                     .batch = coordinator->cut.number};
        if (coordinator->remotes[i].peer &&
            peer_send_set(coordinator->remotes[i].peer, &header, set, NULL))
            log_debug("%s", error_message());
    }
}
