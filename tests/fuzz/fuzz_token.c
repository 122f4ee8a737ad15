/* SPDX-License-Identifier: MIT */
/* A checkpoint token. The first byte chooses: the text as it is, or bytes whose checksum is made to
 * fit. What is read must be written as the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "sampler/stream/base64url.h"
#include "sampler/stream/checkpoint_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_text(const char *text)
{
    struct checkpoint_token token;
    struct checkpoint_token second;
    char *again;
    if (checkpoint_token_read(text, &token))
        return;
    check(token.position >= 0);
    for (size_t i = 0; i < token.open.count; i++) {
        check(intervals_at(&token.open, i)->begin >= 0);
        check(intervals_at(&token.open, i)->end <= token.position);
    }
    check(!checkpoint_token_write(&token, &again));
    check(!checkpoint_token_read(again, &second));
    check(second.position == token.position && second.open.count == token.open.count);
    checkpoint_token_release(&second);
    checkpoint_token_release(&token);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char *text = malloc(2 * length + 64);
    uint8_t *bytes = malloc(length + 16);
    check(text && bytes);
    if (length > 0 && data[0] % 2 == 0) {
        memcpy(text, data + 1, length - 1);
        text[length - 1] = '\0';
        read_text(text);
    } else if (length > 0) {
        memcpy(bytes, "TMBLTOK1", 8);
        memcpy(bytes + 8, data + 1, length - 1);
        uint64_t sum = XXH3_64bits(bytes, length + 7);
        memcpy(bytes + length + 7, &sum, sizeof(sum));
        base64url_encode(bytes, length + 15, text);
        read_text(text);
    }
    free(bytes);
    free(text);
    return 0;
}
