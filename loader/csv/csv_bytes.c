/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_bytes.h"

#include <pthread.h>
#include <string.h>

#define MANY 4 /* fields: a vector costs as much for one as for thirty */

/* Parses one field with its delimiter; returns what follows, or NULL. */
static const char *decode_field(const char *at, char delimiter, uint8_t *out)
{
    unsigned value = (uint8_t)at[0] - (unsigned)'0';
    if (value > 9)
        return NULL;
    for (at++; *at != delimiter; at++) {
        unsigned digit = (uint8_t)*at - (unsigned)'0';
        value = value * 10 + digit;
        if (digit > 9 || value > 255)
            return NULL;
    }
    *out = (uint8_t)value;
    return at + 1;
}

size_t csv_bytes_plain(const char **at, size_t count, char delimiter, uint8_t *out)
{
    const char zeros[8] = {'0', delimiter, '0', delimiter, '0', delimiter, '0', delimiter};
    uint64_t four_zeros;
    size_t done = 0;
    memcpy(&four_zeros, zeros, sizeof(zeros));
    while (done < count) {
        uint64_t next; /* may reach into the padding */
        memcpy(&next, *at, sizeof(next));
        if (next == four_zeros && count - done >= 4) {
            memset(out + done, 0, 4);
            done += 4;
            *at += 8;
            continue;
        }
        const char *behind = decode_field(*at, delimiter, out + done);
        if (!behind)
            break;
        *at = behind;
        done++;
    }
    return done;
}

size_t csv_bytes_decode_by(const struct csv_bytes_way *way, const char **at, size_t count,
                           char delimiter, uint8_t *out)
{
    size_t done = way->decode(at, count, delimiter, out);
    return done + csv_bytes_plain(at, count - done, delimiter, out + done);
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

size_t csv_bytes_decode(const char **at, size_t count, char delimiter, uint8_t *out)
{
    pthread_once(&best_way_once, choose_way);
    return best_way && count >= MANY ? csv_bytes_decode_by(best_way, at, count, delimiter, out)
                                     : csv_bytes_plain(at, count, delimiter, out);
}
