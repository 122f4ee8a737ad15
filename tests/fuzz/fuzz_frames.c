/* SPDX-License-Identifier: MIT */
/* What a connection sends to a parameter server: whatever comes, either an error with a message or
 * frames whose payload lies within what was allowed, and sets of batches that ascend. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trainer/server/peer.h"

#define LIMIT 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static volatile unsigned char sink; /* keeps the reads */

static uint64_t limit(void *context, const struct peer *peer, enum wire_type type)
{
    (void)context;
    (void)peer;
    return type == WIRE_PUSH || type == WIRE_FROZEN ? LIMIT : 0;
}

static void look(const struct peer *peer)
{
    struct index_set set = {.count = 0};
    assert(peer->payload_bytes == peer->header.bytes && peer->payload_bytes <= LIMIT);
    for (size_t i = 0; i < peer->payload_bytes; i++)
        sink ^= (unsigned char)peer->payload[i];
    size_t ranges = peer->payload_bytes / sizeof(struct index_range);
    if (wire_ranges_read(peer->payload, ranges, &set))
        assert(strlen(error_message()) > 10);
    for (size_t i = 0; i < set.count; i++)
        assert(set.ranges[i].first >= 0 && set.ranges[i].first < set.ranges[i].end);
    index_set_release(&set);
}

/* A header's check would stop nearly every input: it is made right for every second one. */
static void seal(uint8_t *bytes, size_t length)
{
    struct wire_header header;
    if (length < sizeof(header) || bytes[0] % 2 == 0)
        return;
    memcpy(&header, bytes, sizeof(header));
    header.bytes %= 2 * LIMIT;
    wire_header_seal(&header);
    memcpy(bytes, &header, sizeof(header));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    int ends[2];
    struct peer *peer = NULL;
    uint8_t *bytes = malloc(length + 1);
    if (!bytes || length > 65536 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) {
        free(bytes);
        return 0;
    }
    if (length > 0)
        memcpy(bytes, data, length);
    seal(bytes, length);
    ssize_t sent = write(ends[1], bytes, length);
    if (sent == (ssize_t)length && !peer_new(ends[0], "a fuzzer", &peer)) {
        enum error error;
        while (!(error = peer_read(peer, limit, NULL)) && peer->whole) {
            look(peer);
            peer_next(peer);
        }
        if (error)
            assert(strlen(error_message()) > 10);
    }
    if (peer)
        peer_free(peer);
    else
        close(ends[0]);
    close(ends[1]);
    free(bytes);
    return 0;
}
