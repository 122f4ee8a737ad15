/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_bytes.h"

#include <pthread.h>
#include <string.h>

const char *csv_bytes_plain(const char *at, size_t count, char delimiter, uint8_t *out)
{
    const char zeros[8] = {'0', delimiter, '0', delimiter, '0', delimiter, '0', delimiter};
    uint64_t four_zeros;
    uint8_t *out_end = out + count;
    memcpy(&four_zeros, zeros, sizeof(zeros));
    while (out < out_end) {
        uint64_t next; /* may reach into the padding */
        memcpy(&next, at, sizeof(next));
        if (next == four_zeros && out_end - out >= 4) {
            memset(out, 0, 4);
            out += 4;
            at += 8;
            continue;
        }
        unsigned value = (uint8_t)at[0] - (unsigned)'0';
        if (value > 9)
            return NULL;
        for (at++; *at != delimiter; at++) {
            unsigned digit = (uint8_t)*at - (unsigned)'0';
            value = value * 10 + digit;
            if (digit > 9 || value > 255)
                return NULL;
        }
        at++;
        *out++ = (uint8_t)value;
    }
    return at;
}

const char *csv_bytes_decode_by(const struct csv_bytes_way *way, const char *at, size_t count,
                                char delimiter, uint8_t *out)
{
    size_t done = way->decode(&at, count, delimiter, out);
    return csv_bytes_plain(at, count - done, delimiter, out + done);
}

static const struct csv_bytes_way *best_way; /* NULL: field by field */
static pthread_once_t best_way_once = PTHREAD_ONCE_INIT;

static void choose_way(void)
{
    for (size_t i = 0; csv_bytes_ways[i] && !best_way; i++) {
        if (csv_bytes_ways[i]->is_supported())
            best_way = csv_bytes_ways[i];
    }
}

const char *csv_bytes_decode(const char *at, size_t count, char delimiter, uint8_t *out)
{
    pthread_once(&best_way_once, choose_way);
    return best_way ? csv_bytes_decode_by(best_way, at, count, delimiter, out)
                    : csv_bytes_plain(at, count, delimiter, out);
}
