/* SPDX-License-Identifier: MIT */
#include "sampler/stream/checkpoint_token.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "sampler/journal/varint.h"
#include "sampler/ledger/conflicts.h"
#include "sampler/stream/base64url.h"

#define MAGIC "TMBLTOK"
#define MAGIC_BYTES 7
#define HEAD_BYTES 8 /* and the order's version, a digit */
#define CHECKSUM_BYTES 8
#define NUMBERS 8

/* ---- writing ------------------------------------------------------------ */

static uint8_t *write_text(uint8_t *at, const char *text)
{
    size_t length = strlen(text);
    at = varint_write(at, length);
    memcpy(at, text, length);
    return at + length;
}

static uint8_t *write_open(uint8_t *at, const struct intervals *open)
{
    int64_t before = 0;
    at = varint_write(at, open->count);
    for (size_t i = 0; i < open->count; i++) {
        const struct interval *interval = intervals_at(open, i);
        at = varint_write(at, (uint64_t)(interval->begin - before));
        at = varint_write(at, (uint64_t)(interval->end - interval->begin));
        before = interval->end;
    }
    return at;
}

static size_t write_token(const struct checkpoint_token *token, uint8_t *bytes)
{
    const struct stream_definition *definition = &token->definition;
    const int64_t numbers[NUMBERS] = {
        token->binding.units,      token->binding.epoch_positions,
        (int64_t)definition->seed, definition->replacement,
        definition->rows_begin,    definition->rows_end,
        definition->split,         token->position,
    };
    memcpy(bytes, MAGIC, MAGIC_BYTES);
    bytes[MAGIC_BYTES] = (uint8_t)('0' + token->binding.order_version);
    uint8_t *at = bytes + HEAD_BYTES;
    for (int i = 0; i < NUMBERS; i++)
        at = varint_write_signed(at, numbers[i]);
    at = write_text(at, token->binding.digest);
    at = write_text(at, definition->design);
    at = write_text(at, definition->fields ? definition->fields : "");
    at = write_open(at, &token->open);
    uint64_t checksum = XXH3_64bits(bytes, (size_t)(at - bytes));
    memcpy(at, &checksum, CHECKSUM_BYTES); /* configure refuses big-endian machines */
    return (size_t)(at - bytes) + CHECKSUM_BYTES;
}

enum error checkpoint_token_write(const struct checkpoint_token *token, char **ret_text)
{
    const char *fields = token->definition.fields ? token->definition.fields : "";
    size_t bound = HEAD_BYTES + CHECKSUM_BYTES + sizeof(token->binding) +
                   sizeof(token->definition) + strlen(fields) +
                   VARINT_BYTES * (NUMBERS + 4 + 2 * token->open.count);
    uint8_t *bytes = array_new(bound, 1, "a checkpoint token");
    char *text = array_new(bound / 3 + 1, 4, "a checkpoint token");
    if (!bytes || !text) {
        free(bytes);
        free(text);
        return ERROR_MEMORY;
    }
    base64url_encode(bytes, write_token(token, bytes), text);
    free(bytes);
    *ret_text = text;
    return OK;
}

/* ---- reading ------------------------------------------------------------ */

void checkpoint_token_release(struct checkpoint_token *token)
{
    stream_definition_release(&token->definition);
    intervals_release(&token->open);
}

static enum error refuse(const char *why)
{
    return error_set(ERROR_INPUT,
                     "the token %s; give the text that /checkpoint answered, as it was", why);
}

/* A text of less than `bytes` bytes without a NUL. */
static bool read_text(struct varint_reader *reader, char *out, size_t bytes)
{
    uint64_t length = varint_read(reader);
    if (reader->failed || length >= bytes || length > (size_t)(reader->end - reader->at) ||
        memchr(reader->at, '\0', length))
        return false;
    memcpy(out, reader->at, length);
    out[length] = '\0';
    reader->at += length;
    return true;
}

static bool take_numbers(const int64_t numbers[NUMBERS], struct checkpoint_token *token)
{
    for (int i = 0; i < NUMBERS; i++) {
        if (numbers[i] < 0)
            return false;
    }
    token->binding.units = numbers[0];
    token->binding.epoch_positions = numbers[1];
    token->definition.seed = (uint64_t)numbers[2];
    token->definition.replacement = numbers[3] == 1;
    token->definition.rows_begin = numbers[4];
    token->definition.rows_end = numbers[5];
    token->definition.split = (enum split)numbers[6];
    token->position = numbers[7];
    return numbers[3] <= 1 && numbers[6] <= SPLIT_TEST && token->position <= POSITION_LIMIT;
}

static enum error read_open(struct varint_reader *reader, struct checkpoint_token *token)
{
    uint64_t count = varint_read(reader);
    if (reader->failed || count > (size_t)(reader->end - reader->at) / 2)
        return refuse("is damaged");
    enum error error = intervals_reserve(&token->open, count);
    uint64_t end = 0;
    uint64_t limit = (uint64_t)token->position;
    for (uint64_t i = 0; i < count && !error; i++) {
        uint64_t skipped = varint_read(reader);
        uint64_t length = varint_read(reader);
        if (reader->failed || length == 0 || (i > 0 && skipped == 0) || skipped > limit - end ||
            length > limit - end - skipped)
            return refuse("is damaged");
        intervals_add(&token->open, (int64_t)(end + skipped), (int64_t)(end + skipped + length));
        end += skipped + length;
    }
    return error;
}

static enum error read_bytes(const uint8_t *bytes, size_t length, struct checkpoint_token *token)
{
    uint64_t checksum;
    int64_t numbers[NUMBERS];
    if (length < HEAD_BYTES + CHECKSUM_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0 ||
        bytes[MAGIC_BYTES] < '1' || bytes[MAGIC_BYTES] > '9')
        return refuse("is not one that a sampler made");
    length -= CHECKSUM_BYTES;
    memcpy(&checksum, bytes + length, sizeof(checksum));
    if (checksum != XXH3_64bits(bytes, length))
        return refuse("is damaged");
    token->binding.order_version = bytes[MAGIC_BYTES] - '0';
    struct varint_reader reader = {.at = bytes + HEAD_BYTES, .end = bytes + length};
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = varint_read_signed(&reader);
    char *fields = array_new(length, 1, "a checkpoint token");
    if (!fields)
        return ERROR_MEMORY;
    token->definition.fields = fields;
    if (reader.failed || !take_numbers(numbers, token) ||
        !read_text(&reader, token->binding.digest, sizeof(token->binding.digest)) ||
        !read_text(&reader, token->definition.design, sizeof(token->definition.design)) ||
        !read_text(&reader, fields, length))
        return refuse("is damaged");
    enum error error = read_open(&reader, token);
    return !error && reader.at != reader.end ? refuse("is damaged") : error;
}

enum error checkpoint_token_read(const char *text, struct checkpoint_token *ret_token)
{
    struct checkpoint_token token = {.position = 0};
    size_t length = strlen(text);
    uint8_t *bytes = array_new(length + 1, 1, "a checkpoint token");
    if (!bytes)
        return ERROR_MEMORY;
    enum error error = base64url_decode(text, length, bytes, &length)
                           ? read_bytes(bytes, length, &token)
                           : refuse("is not base64url");
    free(bytes);
    if (error) {
        checkpoint_token_release(&token);
        return error;
    }
    *ret_token = token;
    return OK;
}

static enum error compare_views(const struct stream_definition *there,
                                const struct stream_definition *here, struct buffer *out)
{
    if (there->rows_begin != here->rows_begin || there->rows_end != here->rows_end)
        buffer_print(
            out, "; rows %" PRId64 ":%" PRId64 " there, %" PRId64 ":%" PRId64 " here (0:0 are all)",
            there->rows_begin, there->rows_end, here->rows_begin, here->rows_end);
    if (there->split != here->split)
        buffer_print(out, "; split %s there, %s here",
                     there->split ? split_name(there->split) : "none",
                     here->split ? split_name(here->split) : "none");
    return out->error;
}

enum error checkpoint_token_check(const struct checkpoint_token *token,
                                  const struct stream_definition *definition,
                                  const struct stream_binding *binding)
{
    struct buffer differences = BUFFER_INIT(1 << 20);
    enum error error = stream_definition_compare(&token->definition, &token->binding, definition,
                                                 binding, &differences);
    if (!error && differences.length == 0)
        error = compare_views(&token->definition, definition, &differences);
    if (!error && differences.length > 0)
        error = error_set_kind(error_set(ERROR_CONFLICT,
                                         "the token belongs to another order: %s (there: the "
                                         "token, here: the stream)",
                                         differences.data + 2),
                               PROBLEM_OTHER_ORDER);
    buffer_release(&differences);
    return error;
}
