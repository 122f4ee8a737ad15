/* SPDX-License-Identifier: MIT */
#include "trainer/wire/shard.h"

#include <string.h>

/* floor(parameters * index / servers) without overflow. */
static size_t boundary(size_t parameters, size_t servers, size_t index)
{
    return parameters / servers * index + parameters % servers * index / servers;
}

static void add(struct shard *shard, size_t offset, size_t count)
{
    if (count == 0)
        return;
    shard->pieces[shard->piece_count++] = (struct shard_piece){offset, count};
    shard->parameters += count;
}

void shard_init(struct shard *shard, const struct model_layout *layout, size_t servers,
                size_t index, bool round_robin)
{
    *shard = (struct shard){.piece_count = 0};
    if (!round_robin) {
        size_t begin = boundary(layout->parameters, servers, index);
        add(shard, begin, boundary(layout->parameters, servers, index + 1) - begin);
        return;
    }
    for (size_t i = index; i < 2 * layout->layer_count; i += servers)
        add(shard, layout->tensors[i].offset, layout->tensors[i].count);
}

size_t shard_state_count(const struct shard *shard, const struct model_layout *layout)
{
    return shard->parameters * (layout->state / layout->parameters);
}

void shard_pack(const struct shard *shard, const float *all, float *ret_part)
{
    for (size_t i = 0; i < shard->piece_count; i++) {
        const struct shard_piece *piece = &shard->pieces[i];
        memcpy(ret_part, all + piece->offset, piece->count * sizeof(*all));
        ret_part += piece->count;
    }
}

void shard_unpack(const struct shard *shard, const float *part, float *all)
{
    for (size_t i = 0; i < shard->piece_count; i++) {
        const struct shard_piece *piece = &shard->pieces[i];
        memcpy(all + piece->offset, part, piece->count * sizeof(*all));
        part += piece->count;
    }
}

void shard_gather(const struct shard *shard, const struct model_layout *layout, const float *state,
                  float *ret_part)
{
    for (size_t from = 0; from < layout->state; from += layout->parameters) {
        shard_pack(shard, state + from, ret_part);
        ret_part += shard->parameters;
    }
}

void shard_scatter(const struct shard *shard, const struct model_layout *layout, const float *part,
                   float *state)
{
    for (size_t to = 0; to < layout->state; to += layout->parameters) {
        shard_unpack(shard, part, state + to);
        part += shard->parameters;
    }
}
