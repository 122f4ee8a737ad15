#include "sampler/http/bearer_tokens.h"

#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "sampler/batch/batch_request.h"

#define SHA256_BYTES 32
#define NAME_LIMIT (TOKEN_NAME_BYTES - 1)
#define STREAMS_LIMIT 1000

struct bearer_token {
    char *name; /* owned */
    unsigned char sha256[SHA256_BYTES];
    int scopes;
    bool all_streams;
    char **streams; /* [stream_count], owned */
    size_t stream_count;
};

struct bearer_tokens {
    size_t count;
    struct bearer_token list[];
};

static const struct {
    const char *name;
    enum scope scope;
} scope_names[] = {{"read", SCOPE_READ}, {"draw", SCOPE_DRAW}, {"admin", SCOPE_ADMIN}};

/* ---- one entry of the file ---------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum error take_name(struct bearer_token *token, const cJSON *item, const char *what)
{
    const char *name;
    char quoted[TEXT_QUOTE_BYTES];
    enum error error = json_get_text(item, "name", what, &name);
    if (error)
        return error;
    if (!*name || strlen(name) > NAME_LIMIT)
        return error_set(ERROR_INPUT, "%s: name %s must be 1 to %d bytes", what,
                         text_quote(quoted, sizeof(quoted), name, strlen(name)), NAME_LIMIT);
    token->name = strdup(name);
    return token->name ? OK : error_set_memory(strlen(name), "a token's name");
}

static enum error take_sha256(struct bearer_token *token, const cJSON *item, const char *what)
{
    const char *hex;
    enum error error = json_get_text(item, "sha256", what, &hex);
    if (error)
        return error;
    bool right = strlen(hex) == 2 * (size_t)SHA256_BYTES;
    for (size_t i = 0; right && i < SHA256_BYTES; i++) {
        int high = hex_value(hex[2 * i]);
        int low = hex_value(hex[2 * i + 1]);
        right = high >= 0 && low >= 0;
        if (right)
            token->sha256[i] = (unsigned char)(high * 16 + low);
    }
    if (right)
        return OK;
    /* Not quoted: somebody may have written the token itself there. */
    return error_set(ERROR_INPUT, "%s: sha256 must be 64 hex digits (printf %%s TOKEN | sha256sum)",
                     what);
}

static enum error add_scope(struct bearer_token *token, const cJSON *scope, const char *what)
{
    char quoted[TEXT_QUOTE_BYTES];
    if (!cJSON_IsString(scope))
        return error_set(ERROR_INPUT, "%s: a scope is %s, must be \"read\", \"draw\" or \"admin\"",
                         what, json_kind(scope));
    for (size_t i = 0; i < sizeof(scope_names) / sizeof(scope_names[0]); i++) {
        if (strcmp(scope->valuestring, scope_names[i].name) == 0) {
            token->scopes |= (int)scope_names[i].scope;
            return OK;
        }
    }
    return error_set(
        ERROR_INPUT, "%s: there is no scope %s; \"read\", \"draw\" and \"admin\" exist", what,
        text_quote(quoted, sizeof(quoted), scope->valuestring, strlen(scope->valuestring)));
}

static enum error take_scopes(struct bearer_token *token, const cJSON *item, const char *what)
{
    const cJSON *scopes;
    enum error error = json_get_array(item, "scopes", what, &scopes);
    if (error)
        return error;
    if (!scopes->child)
        return error_set(ERROR_INPUT, "%s: scopes is empty: such a token may do nothing", what);
    for (const cJSON *scope = scopes->child; scope && !error; scope = scope->next)
        error = add_scope(token, scope, what);
    return error;
}

static enum error add_stream(struct bearer_token *token, const cJSON *stream, const char *what)
{
    char quoted[TEXT_QUOTE_BYTES];
    if (!cJSON_IsString(stream))
        return error_set(ERROR_INPUT, "%s: a stream is %s, must be a name or \"*\"", what,
                         json_kind(stream));
    const char *name = stream->valuestring;
    if (strcmp(name, "*") == 0) {
        token->all_streams = true;
        return OK;
    }
    if (!stream_name_is_valid(name))
        return error_set(ERROR_INPUT,
                         "%s: stream %s: a name is 1 to 64 characters of [A-Za-z0-9._-], or \"*\"",
                         what, text_quote(quoted, sizeof(quoted), name, strlen(name)));
    char *copy = strdup(name);
    if (!copy)
        return error_set_memory(strlen(name), "a stream's name");
    token->streams[token->stream_count++] = copy;
    return OK;
}

static enum error take_streams(struct bearer_token *token, const cJSON *item, const char *what)
{
    const cJSON *streams;
    enum error error = json_get_array(item, "streams", what, &streams);
    if (error)
        return error;
    int count = cJSON_GetArraySize(streams);
    if (count < 1 || count > STREAMS_LIMIT)
        return error_set(ERROR_INPUT, "%s: streams has %d names, must have 1 to %d; \"*\" is all",
                         what, count, STREAMS_LIMIT);
    token->streams = array_new((size_t)count, sizeof(*token->streams), "a token's streams");
    if (!token->streams)
        return ERROR_MEMORY;
    for (const cJSON *stream = streams->child; stream && !error; stream = stream->next)
        error = add_stream(token, stream, what);
    return error;
}

static enum error refuse_unknown_keys(const cJSON *item, const char *const keys[], size_t count,
                                      const char *what)
{
    char quoted[TEXT_QUOTE_BYTES];
    for (const cJSON *member = item->child; member; member = member->next) {
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known = known || strcmp(member->string, keys[i]) == 0;
        if (!known)
            return error_set(
                ERROR_INPUT, "%s has an unknown key %s", what,
                text_quote(quoted, sizeof(quoted), member->string, strlen(member->string)));
    }
    return OK;
}

static enum error take_token(struct bearer_tokens *tokens, const cJSON *item, const char *what)
{
    static const char *const keys[] = {"name", "sha256", "scopes", "streams"};
    char place[ERROR_MESSAGE_BYTES / 2];
    struct bearer_token *token = &tokens->list[tokens->count++];
    snprintf(place, sizeof(place), "%s, token %zu", what, tokens->count);
    if (!cJSON_IsObject(item))
        return error_set(ERROR_INPUT, "%s is %s, must be an object", place, json_kind(item));
    enum error error = refuse_unknown_keys(item, keys, sizeof(keys) / sizeof(keys[0]), place);
    if (!error)
        error = take_name(token, item, place);
    if (!error)
        error = take_sha256(token, item, place);
    if (!error)
        error = take_scopes(token, item, place);
    if (!error)
        error = take_streams(token, item, place);
    return error;
}

/* ---- the file ----------------------------------------------------------- */

static enum error refuse_twins(const struct bearer_tokens *tokens, const char *what)
{
    char quoted[TEXT_QUOTE_BYTES];
    for (size_t i = 0; i < tokens->count; i++) {
        const struct bearer_token *a = &tokens->list[i];
        for (size_t k = 0; k < i; k++) {
            const struct bearer_token *b = &tokens->list[k];
            if (strcmp(a->name, b->name) == 0)
                return error_set(ERROR_INPUT, "%s has two tokens of the name %s", what,
                                 text_quote(quoted, sizeof(quoted), a->name, strlen(a->name)));
            if (memcmp(a->sha256, b->sha256, SHA256_BYTES) == 0)
                return error_set(ERROR_INPUT, "%s: the tokens %zu and %zu have the same sha256",
                                 what, k + 1, i + 1);
        }
    }
    return OK;
}

static enum error take_all(const cJSON *list, const char *what, struct bearer_tokens *tokens)
{
    enum error error = OK;
    for (const cJSON *item = list->child; item && !error; item = item->next)
        error = take_token(tokens, item, what);
    return error ? error : refuse_twins(tokens, what);
}

static enum error read_root(const cJSON *json, const char *what, struct bearer_tokens **ret_tokens)
{
    static const char *const keys[] = {"tokens"};
    const cJSON *list;
    if (!cJSON_IsObject(json))
        return error_set(ERROR_INPUT, "%s is %s, must be an object {\"tokens\":[...]}", what,
                         json_kind(json));
    enum error error = refuse_unknown_keys(json, keys, 1, what);
    if (!error)
        error = json_get_array(json, "tokens", what, &list);
    if (error)
        return error;
    int count = cJSON_GetArraySize(list);
    if (count < 1 || count > TOKENS_LIMIT)
        return error_set(ERROR_INPUT, "%s has %d tokens, must have 1 to %d", what, count,
                         TOKENS_LIMIT);
    struct bearer_tokens *tokens = array_new(
        1, sizeof(*tokens) + (size_t)count * sizeof(tokens->list[0]), "the list of tokens");
    if (!tokens)
        return ERROR_MEMORY;
    error = take_all(list, what, tokens);
    if (error) {
        bearer_tokens_free(tokens);
        return error;
    }
    *ret_tokens = tokens;
    return OK;
}

enum error bearer_tokens_parse(const char *text, size_t length, const char *what,
                               struct bearer_tokens **ret_tokens)
{
    cJSON *json = NULL;
    enum error error = json_parse(text, length, what, &json);
    if (!error)
        error = read_root(json, what, ret_tokens);
    cJSON_Delete(json);
    return error;
}

static void warn_of_readers(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0 && (facts.st_mode & (S_IROTH | S_IWOTH)) != 0)
        log_warning("--token-file %s: everybody may %s it; chmod o-rwx is safer", path,
                    facts.st_mode & S_IWOTH ? "write" : "read");
}

enum error bearer_tokens_read(const char *path, struct bearer_tokens **ret_tokens)
{
    struct buffer text = BUFFER_INIT(TOKENS_FILE_LIMIT_BYTES);
    char what[ERROR_MESSAGE_BYTES / 4];
    snprintf(what, sizeof(what), "--token-file %s", path);
    enum error error = file_read_whole(path, &text);
    if (error)
        error = error_prefix(error, "--token-file: ");
    if (!error)
        error = bearer_tokens_parse(text.data ? text.data : "", text.length, what, ret_tokens);
    if (!error)
        warn_of_readers(path);
    buffer_release(&text);
    return error;
}

void bearer_tokens_free(struct bearer_tokens *tokens)
{
    if (!tokens)
        return;
    for (size_t i = 0; i < tokens->count; i++) {
        struct bearer_token *token = &tokens->list[i];
        for (size_t k = 0; k < token->stream_count; k++)
            free(token->streams[k]);
        free(token->streams);
        free(token->name);
    }
    free(tokens);
}

size_t bearer_tokens_count(const struct bearer_tokens *tokens)
{
    return tokens->count;
}

/* ---- asking ------------------------------------------------------------- */

/* What stands behind "Bearer ", without space around it; NULL: it is another scheme. */
static const char *bearer_of(const char *authorization, size_t *ret_length)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    const char *token = authorization + 7;
    token += strspn(token, " \t");
    size_t length = strlen(token);
    while (length > 0 && (token[length - 1] == ' ' || token[length - 1] == '\t'))
        length--;
    *ret_length = length;
    return length > 0 ? token : NULL;
}

const struct bearer_token *bearer_tokens_find(const struct bearer_tokens *tokens,
                                              const char *authorization)
{
    unsigned char sha256[SHA256_BYTES];
    const struct bearer_token *found = NULL;
    size_t length;
    const char *given = bearer_of(authorization, &length);
    if (!given || gnutls_hash_fast(GNUTLS_DIG_SHA256, given, length, sha256) != 0)
        return NULL;
    for (size_t i = 0; i < tokens->count; i++) {
        const struct bearer_token *token = &tokens->list[i];
        if (gnutls_memcmp(token->sha256, sha256, SHA256_BYTES) == 0)
            found = token;
    }
    return found;
}

const char *bearer_token_name(const struct bearer_token *token)
{
    return token->name;
}

bool bearer_token_may(const struct bearer_token *token, int scopes, const char *stream)
{
    int met = token->scopes & scopes;
    if (!met)
        return false;
    if ((met & SCOPE_READ) || !stream || token->all_streams)
        return true;
    for (size_t i = 0; i < token->stream_count; i++) {
        if (strcmp(token->streams[i], stream) == 0)
            return true;
    }
    return false;
}
