/* SPDX-License-Identifier: MIT */
#include "loader/feed/sampler_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/http_client.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/feed/worker_name.h"

#define DESCRIPTION_BYTES_LIMIT (64 << 10)
#define LISTED_BYTES (sizeof(struct sampler_lease) + sizeof(int64_t)) /* beside header and units */
#define BATCH_BYTES_LIMIT                                                   \
    (SAMPLER_LEASES_AT_ONCE * (SAMPLER_BATCH_HEADER_BYTES + LISTED_BYTES) + \
     SAMPLER_BATCH_ROWS_LIMIT * SAMPLER_BATCH_UNIT_BYTES)
#define TARGET_BYTES 256
#define HEADER_BYTES 2048
#define REASON_BYTES 400

struct sampler_client {
    struct http_client *http;
    char *url; /* owned, for messages */
    char stream[SAMPLER_NAME_BYTES];
    /* HOST-PID, sent with index=; "": the sampler refuses it. */
    char reader[WORKER_HOST_BYTES + 12];
    int64_t patience_ms;
    bool one_lease;                 /* one lease per request: the sampler refuses several */
    struct http_response response;  /* of the last batch */
    bool reconnected;               /* by the last request */
    bool disturbed;                 /* reconnected, or repeated, since the last description */
    char order[SAMPLER_NAME_BYTES]; /* of the last response with batches; "": not sent */
};

/* ---- opening ------------------------------------------------------------ */

static enum error check_stream_name(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    char shown[TEXT_QUOTE_BYTES];
    size_t length = strlen(name);
    if (length > 0 && length < SAMPLER_NAME_BYTES && strspn(name, allowed) == length)
        return OK;
    return error_set(ERROR_USAGE, "%s is not the name of a stream: 1 to %d of [A-Za-z0-9._-]",
                     text_quote(shown, sizeof(shown), name, length), SAMPLER_NAME_BYTES - 1);
}

static void name_reader(struct sampler_client *client)
{
    char host[WORKER_HOST_BYTES];
    worker_name_host(host);
    snprintf(client->reader, sizeof(client->reader), "%s-%d", host, (int)getpid());
}

enum error sampler_client_open(const char *url, const struct http_credentials *credentials,
                               const char *stream, int64_t patience_ms,
                               struct sampler_client **ret_client)
{
    const char *name = stream ? stream : "default";
    enum error error = check_stream_name(name);
    if (error)
        return error;
    struct sampler_client *client = array_new(1, sizeof(*client), "a client of the sampler");
    if (!client)
        return ERROR_MEMORY;
    memcpy(client->stream, name, strlen(name) + 1);
    name_reader(client);
    client->patience_ms = patience_ms;
    client->response = (struct http_response)HTTP_RESPONSE_INIT(BATCH_BYTES_LIMIT);
    client->url = strdup(url);
    if (!client->url)
        error = error_set_memory(strlen(url), "a URL");
    if (!error)
        error = http_client_open(url, credentials, &client->http);
    if (error) {
        sampler_client_close(client);
        return error;
    }
    *ret_client = client;
    return OK;
}

void sampler_client_close(struct sampler_client *client)
{
    if (!client)
        return;
    http_client_close(client->http);
    http_response_release(&client->response);
    free(client->url);
    free(client);
}

enum error sampler_client_reserve(struct sampler_client *client, size_t rows)
{
    enum error error = buffer_reserve(&client->response.headers, HEADER_BYTES);
    if (error)
        return error;
    return buffer_reserve(&client->response.body,
                          SAMPLER_BATCH_HEADER_BYTES + rows * SAMPLER_BATCH_UNIT_BYTES);
}

void sampler_client_set_patience(struct sampler_client *client, int64_t patience_ms)
{
    client->patience_ms = patience_ms;
}

void sampler_client_mute(struct sampler_client *client)
{
    http_client_mute(client->http);
}

void sampler_client_set_grace(struct sampler_client *client, int64_t grace_ms)
{
    http_client_set_grace(client->http, grace_ms);
}

const char *sampler_client_url(const struct sampler_client *client)
{
    return client->url;
}

const char *sampler_client_stream(const struct sampler_client *client)
{
    return client->stream;
}

void sampler_client_cancel(struct sampler_client *client)
{
    http_client_cancel(client->http);
}

bool sampler_client_reconnected(const struct sampler_client *client)
{
    return client->reconnected;
}

bool sampler_client_disturbed(const struct sampler_client *client)
{
    return client->disturbed;
}

static enum error get(struct sampler_client *client, const char *target,
                      struct http_response *response)
{
    enum error error = http_client_get(client->http, target, client->patience_ms, true, response);
    client->reconnected = response->reconnected;
    client->disturbed |= response->reconnected || response->repeated;
    return error;
}

/* ---- answers ------------------------------------------------------------ */

static enum error code_of_status(int status)
{
    switch (status) {
    case 400:
    case 401:
    case 403:
    case 414:
        return ERROR_USAGE;
    case 404:
        return ERROR_NOT_FOUND;
    case 409:
        return ERROR_CONFLICT;
    default: /* passing statuses were retried until patience ran out */
        return http_status_is_passing(status) ? ERROR_TIMEOUT : ERROR_NETWORK;
    }
}

/* The kinds of problems that the sampler publishes: sampler/ledger/conflicts.h. */
static bool has_problem(const struct http_response *response, const char *kind)
{
    char type[64];
    snprintf(type, sizeof(type), "\"/problems/%s\"", kind);
    return response->body.data && strstr(response->body.data, type);
}

static enum error refuse_status(const struct sampler_client *client, const char *method,
                                const char *target, const struct http_response *response)
{
    char reason[REASON_BYTES], place[REASON_BYTES];
    http_response_problem(response, reason, sizeof(reason));
    enum error code = code_of_status(response->status);
    const char *advice = "";
    if (response->status / 100 == 3 &&
        http_response_header(response, "Location", place, sizeof(place)))
        return error_set(code,
                         "the sampler at %s answered %d to %s %s: it leads to %s; redirects are "
                         "not followed, so give the URL of the server there",
                         client->url, response->status, method, target, place);
    if (response->status == 401 || response->status == 403)
        advice = " (TOMBOLA_TOKEN holds the token)";
    else if (code == ERROR_TIMEOUT)
        advice = " (it was asked again until the patience given was over)";
    return error_set(code, "the sampler at %s answered %d to %s %s: %s%s", client->url,
                     response->status, method, target, reason[0] ? reason : "no reason given",
                     advice);
}

/* ---- a stream's description --------------------------------------------- */

static enum error read_description(const struct sampler_client *client, const struct buffer *body,
                                   const char *what, struct sampler_stream *ret_stream)
{
    enum error error =
        sampler_stream_parse(body->data ? body->data : "", body->length, what, ret_stream);
    if (error == ERROR_INPUT)
        error = error_prefix(ERROR_NETWORK, "%s is not a Tombola sampler: ", client->url);
    return error;
}

enum error sampler_client_describe(struct sampler_client *client, struct sampler_stream *ret_stream)
{
    struct http_response response = HTTP_RESPONSE_INIT(DESCRIPTION_BYTES_LIMIT);
    char target[TARGET_BYTES];
    char what[TARGET_BYTES + 32];
    snprintf(target, sizeof(target), "/streams/%s", client->stream);
    snprintf(what, sizeof(what), "the answer to GET %s", target);
    enum error error = get(client, target, &response);
    if (!error && response.status != 200)
        error = refuse_status(client, "GET", target, &response);
    else if (!error)
        error = read_description(client, &response.body, what, ret_stream);
    client->disturbed &= error != OK && error != ERROR_USAGE;
    http_response_release(&response);
    return error;
}

enum error sampler_client_labels(struct sampler_client *client, struct buffer *body,
                                 bool *ret_given)
{
    struct http_response response = HTTP_RESPONSE_INIT(SAMPLER_LABELS_BYTES_LIMIT);
    char target[TARGET_BYTES];
    snprintf(target, sizeof(target), "/labels?stream=%s", client->stream);
    enum error error = get(client, target, &response);
    bool given = !error && response.status == 200;
    bool kept = response.status == 401 || response.status == 403 || response.status == 404;
    if (error == ERROR_NETWORK && response.body.error) /* over the limit */
        error = OK;
    else if (!error && !given)
        error = refuse_status(client, "GET", target, &response);
    if (error && kept)
        error = OK;
    if (!error) {
        struct buffer empty = *body;
        *body = response.body;
        response.body = empty;
        *ret_given = given;
    }
    http_response_release(&response);
    return error;
}

enum error sampler_client_check_order(const struct sampler_client *client,
                                      const struct sampler_stream *stream)
{
    if (!client->order[0] || !stream->order[0] || strcmp(client->order, stream->order) == 0)
        return OK;
    return sampler_stream_differs("order", stream->order, client->order);
}

/* ---- batches ------------------------------------------------------------ */

/* Does a header name what the request did? Absent: a list has one for all its leases, or none. */
static enum error check_name(const struct sampler_client *client, const char *header,
                             const char *wanted)
{
    char given[SAMPLER_WORKER_BYTES];
    if (!http_response_header(&client->response, header, given, sizeof(given)) ||
        strcmp(given, wanted) == 0)
        return OK;
    return error_set(ERROR_NETWORK,
                     "a batch of %s %s, asked for was that of %s: something between mixes "
                     "responses up",
                     header, given, wanted);
}

static enum error get_batches(struct sampler_client *client, const char *target)
{
    struct http_response *response = &client->response;
    enum error error = get(client, target, response);
    if (error ||
        !http_response_header(response, "Tombola-Order", client->order, sizeof(client->order)))
        client->order[0] = '\0';
    if (!error && response->status == 204)
        return error_set(ERROR_END, "the stream %s has ended", client->stream);
    if (!error && response->status != 200)
        return refuse_status(client, "GET", target, response);
    if (!error && check_name(client, "Tombola-Stream", client->stream))
        error = error_prefix(ERROR_NETWORK, "%s%s: ", client->url, target);
    return error;
}

/* Only batches that others had before are lent whole, whatever size a request is for. */
static enum error check_size(const struct sampler_batch *batch, size_t size)
{
    if (batch->rows <= size || batch->lease.attempt > 1)
        return OK;
    return error_set(ERROR_NETWORK, "a new batch of %zu units, more than the %zu asked for",
                     batch->rows, size);
}

static enum error get_batch(struct sampler_client *client, const char *target,
                            struct sampler_batch *ret_batch)
{
    const struct buffer *body = &client->response.body;
    enum error error = get_batches(client, target);
    if (!error && sampler_batch_parse(body->data ? body->data : "", body->length, ret_batch))
        return error_prefix(ERROR_NETWORK, "%s%s: ", client->url, target);
    return error;
}

static void batch_target(const struct sampler_client *client, size_t size, const char *index,
                         char out[TARGET_BYTES])
{
    snprintf(out, TARGET_BYTES, "/batch?size=%zu%s&stream=%s&format=binary", size, index,
             client->stream);
}

/* Nobody can tell a batch whose response was lost from one that another program drew. */
static void warn_of_lost(const struct sampler_client *client)
{
    int lost = client->response.unanswered;
    if (lost > 0)
        log_warning("stream %s: %d %s got no response from the sampler at %s; if it served them, "
                    "their rows are lost for this epoch (leased batches come again)",
                    client->stream, lost, text_plural(lost, "draw", "draws"), client->url);
}

enum error sampler_client_draw(struct sampler_client *client, size_t size,
                               struct sampler_batch *ret_batch)
{
    char target[TARGET_BYTES], attempt[32];
    struct sampler_batch batch;
    batch_target(client, size, "", target);
    enum error error = get_batch(client, target, &batch);
    if (!error || error == ERROR_END)
        warn_of_lost(client);
    if (error)
        return error;
    if (http_response_header(&client->response, "Tombola-Attempt", attempt, sizeof(attempt)))
        (void)text_parse_integer(attempt, strlen(attempt), 1, INT64_MAX, &batch.lease.attempt);
    if (check_size(&batch, size))
        return error_prefix(ERROR_NETWORK, "%s%s: ", client->url, target);
    *ret_batch = batch;
    return OK;
}

static bool is_all_lent(const struct http_response *response)
{
    return response->status == 503 && has_problem(response, "all-lent");
}

static enum error read_lease(const struct http_response *response, struct sampler_lease *lease)
{
    char attempt[32], expires[32];
    if (http_response_header(response, "Tombola-Attempt", attempt, sizeof(attempt)) &&
        http_response_header(response, "Tombola-Expires-Ms", expires, sizeof(expires)) &&
        text_parse_integer(attempt, strlen(attempt), 1, INT64_MAX, &lease->attempt) &&
        text_parse_integer(expires, strlen(expires), 0, INT64_MAX, &lease->expires_ms))
        return OK;
    return error_set(ERROR_NETWORK, "a batch without the headers of a lease, Tombola-Attempt and "
                                    "Tombola-Expires-Ms");
}

static enum error lease_one(struct sampler_client *client, const char *target, size_t size,
                            const char *worker, int64_t seq, struct sampler_batch *ret_batch)
{
    struct sampler_batch batch;
    char number[TEXT_INTEGER_BYTES + 1];
    enum error error = get_batch(client, target, &batch);
    if (error)
        return error;
    batch.lease.seq = seq;
    *text_write_integer(number, seq) = '\0';
    if (read_lease(&client->response, &batch.lease) || check_size(&batch, size) ||
        check_name(client, "Tombola-Worker", worker) || check_name(client, "Tombola-Seq", number))
        return error_prefix(ERROR_NETWORK, "%s%s: ", client->url, target);
    *ret_batch = batch;
    return OK;
}

static enum error parse_leases(const struct buffer *body, size_t size, size_t most, int64_t seq,
                               struct sampler_batch ret_batches[], size_t *ret_count)
{
    size_t count = 0, at = 0, used;
    enum error error;
    do {
        if (count == most)
            return error_set(ERROR_INPUT, "more than the %zu batches that were asked for", most);
        error = sampler_batch_parse_listed(body->data ? body->data + at : "", body->length - at,
                                           &ret_batches[count], &used);
        if (!error)
            error = check_size(&ret_batches[count], size);
        if (error)
            return error;
        if (ret_batches[count].lease.seq != seq + (int64_t)count)
            return error_set(ERROR_INPUT, "a batch with seq %" PRId64 " where %" PRId64 " is next",
                             ret_batches[count].lease.seq, seq + (int64_t)count);
        at += used;
        count++;
    } while (at < body->length);
    *ret_count = count;
    return OK;
}

static enum error lease_several(struct sampler_client *client, const char *target, size_t size,
                                size_t most, int64_t seq, struct sampler_batch ret_batches[],
                                size_t *ret_count)
{
    enum error error = get_batches(client, target);
    if (!error && parse_leases(&client->response.body, size, most, seq, ret_batches, ret_count))
        return error_prefix(ERROR_NETWORK, "%s%s: ", client->url, target);
    return error;
}

/* Old samplers do not support batches=, and others may refuse so large a response. */
static bool refuses_several(const struct sampler_client *client)
{
    char reason[REASON_BYTES];
    if (client->response.status != 400)
        return false;
    http_response_problem(&client->response, reason, sizeof(reason));
    return strstr(reason, "batches") != NULL;
}

static enum error refuse_lent(const struct sampler_client *client)
{
    char reason[REASON_BYTES];
    http_response_problem(&client->response, reason, sizeof(reason));
    return error_set(ERROR_UNAVAILABLE, "stream %s: %s", client->stream, reason);
}

enum error sampler_client_lease(struct sampler_client *client, size_t size, size_t most,
                                const char *worker, int64_t seq, struct sampler_batch ret_batches[],
                                size_t *ret_count)
{
    char target[TARGET_BYTES + SAMPLER_WORKER_BYTES];
    int length = snprintf(target, sizeof(target),
                          "/batch?size=%zu&worker=%s&seq=%" PRId64 "&stream=%s&format=binary", size,
                          worker, seq, client->stream);
    bool several = most > 1 && !client->one_lease;
    http_client_judge(client->http, is_all_lent);
    if (several)
        snprintf(target + length, sizeof(target) - (size_t)length, "&batches=%zu", most);
    enum error error = several
                           ? lease_several(client, target, size, most, seq, ret_batches, ret_count)
                           : lease_one(client, target, size, worker, seq, ret_batches);
    if (several && error == ERROR_USAGE && refuses_several(client)) {
        log_debug("batches are leased one by one: %s", error_message());
        client->one_lease = true;
        return sampler_client_lease(client, size, 1, worker, seq, ret_batches, ret_count);
    }
    if (error && is_all_lent(&client->response))
        return refuse_lent(client);
    if (error == ERROR_CONFLICT && has_problem(&client->response, SAMPLER_PAIR_LOST))
        return error_set_kind(error, SAMPLER_PAIR_LOST);
    if (!error && !several)
        *ret_count = 1;
    return error;
}

static enum error print_settlement(const struct sampler_client *client, const char *worker,
                                   const int64_t seqs[], size_t count, struct buffer *body)
{
    buffer_print(body, "{\"stream\":\"%s\",\"worker\":\"%s\"", client->stream, worker);
    for (size_t i = 0; i < count; i++)
        buffer_print(body, "%s%" PRId64, i == 0 ? ",\"seqs\":[" : ",", seqs[i]);
    buffer_add_text(body, count > 0 ? "]}" : "}");
    return body->error;
}

/* The sampler repeats the seqs that it acked; a cache may have kept its answer to others. */
static enum error check_acked(const cJSON *acked, const int64_t seqs[], size_t count)
{
    const cJSON *seq;
    size_t found = 0;
    cJSON_ArrayForEach(seq, acked)
    {
        int64_t number;
        found += found < count && json_integer(seq, &number) && number == seqs[found];
    }
    if (found == count)
        return OK;
    return error_set(ERROR_NETWORK,
                     "/ack of %zu %s was answered with another list, without %" PRId64, count,
                     text_plural((int64_t)count, "batch", "batches"), seqs[found]);
}

/* Is it the sampler's answer? A gateway may say 200, too. */
static enum error read_settlement(const struct sampler_client *client,
                                  const struct http_response *response, const char *what,
                                  const int64_t seqs[], size_t count, int64_t *ret_expires_ms)
{
    cJSON *json = NULL;
    const cJSON *acked = NULL;
    int64_t number = 0;
    const struct buffer *body = &response->body;
    enum error error = json_parse(body->data ? body->data : "", body->length, what, &json);
    if (!error && strcmp(what, "/ack") == 0)
        error = json_get_array(json, "acked", what, &acked);
    else if (!error)
        error = json_get_integer(json, strcmp(what, "/extend") == 0 ? "expires_ms" : "released",
                                 what, &number);
    if (!error && acked)
        error = check_acked(acked, seqs, count);
    if (!error && number < 0)
        error = error_set(ERROR_NETWORK, "%s was answered with %" PRId64, what, number);
    cJSON_Delete(json);
    if (error)
        return error_prefix(ERROR_NETWORK, "%s is not a Tombola sampler: ", client->url);
    if (ret_expires_ms)
        *ret_expires_ms = number;
    return OK;
}

enum error sampler_client_settle(struct sampler_client *client, const char *what,
                                 const char *worker, const int64_t seqs[], size_t count,
                                 int64_t *ret_expires_ms)
{
    struct http_response response = HTTP_RESPONSE_INIT(DESCRIPTION_BYTES_LIMIT);
    struct buffer body = BUFFER_INIT(DESCRIPTION_BYTES_LIMIT);
    char target[16];
    snprintf(target, sizeof(target), "/%s", what);
    enum error error = print_settlement(client, worker, seqs, count, &body);
    if (!error)
        error = http_client_post(client->http, target, &body, client->patience_ms, true, &response);
    if (!error && response.status != 200) {
        error = refuse_status(client, "POST", target, &response);
        if (has_problem(&response, SAMPLER_NEVER_LENT))
            error = error_set_kind(error, SAMPLER_NEVER_LENT);
        else if (has_problem(&response, SAMPLER_PAIR_ACKED))
            error = error_set_kind(error, SAMPLER_PAIR_ACKED);
    }
    if (!error)
        error = read_settlement(client, &response, target, seqs, count, ret_expires_ms);
    buffer_release(&body);
    http_response_release(&response);
    return error;
}

static void index_target(const struct sampler_client *client, size_t size, int64_t index,
                         char out[TARGET_BYTES])
{
    char text[WORKER_HOST_BYTES + 64];
    snprintf(text, sizeof(text), "&index=%" PRId64 "%s%s", index,
             client->reader[0] ? "&worker=" : "", client->reader);
    batch_target(client, size, text, out);
}

/* Old samplers refuse worker= with index=. */
static bool refuses_reader(const struct sampler_client *client)
{
    char reason[REASON_BYTES];
    if (!client->reader[0] || client->response.status != 400)
        return false;
    http_response_problem(&client->response, reason, sizeof(reason));
    return strstr(reason, "worker") != NULL;
}

enum error sampler_client_index(struct sampler_client *client, size_t size, int64_t index,
                                struct sampler_batch *ret_batch)
{
    char target[TARGET_BYTES];
    index_target(client, size, index, target);
    struct sampler_batch batch;
    enum error error = get_batch(client, target, &batch);
    if (error == ERROR_USAGE && refuses_reader(client)) {
        client->reader[0] = '\0';
        index_target(client, size, index, target);
        error = get_batch(client, target, &batch);
    }
    if (error)
        return error;
    if (batch.rows > size)
        return error_set(ERROR_NETWORK, "%s%s: an answer of %zu units, more than were asked for",
                         client->url, target, batch.rows);
    *ret_batch = batch;
    return OK;
}
