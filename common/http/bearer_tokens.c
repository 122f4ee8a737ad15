/* SPDX-License-Identifier: MIT */
#include "common/http/bearer_tokens.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
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

#define SHA256_BYTES 32
#define NAME_LIMIT (TOKEN_NAME_BYTES - 1)
#define NAMES_LIMIT 1000
#define SCOPES_TEXT_BYTES 128

struct bearer_token {
    char *name; /* owned */
    unsigned char sha256[SHA256_BYTES];
    int scopes;
    bool all_names;
    char **names; /* of what it is for: [name_count], owned */
    size_t name_count;
};

struct bearer_tokens {
    size_t count;
    struct bearer_token list[];
};

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

/* `"read", "draw" or "admin"`. */
static const char *list_scopes(const struct token_grammar *grammar, const char *word,
                               char out[SCOPES_TEXT_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < grammar->scope_count && used < SCOPES_TEXT_BYTES; i++) {
        const char *gap = i == 0 ? "" : i + 1 < grammar->scope_count ? ", " : word;
        used += (size_t)snprintf(out + used, SCOPES_TEXT_BYTES - used, "%s\"%s\"", gap,
                                 grammar->scopes[i].name);
    }
    return out;
}

static enum error add_scope(const struct token_grammar *grammar, struct bearer_token *token,
                            const cJSON *scope, const char *what)
{
    char quoted[TEXT_QUOTE_BYTES];
    char list[SCOPES_TEXT_BYTES];
    if (!cJSON_IsString(scope))
        return error_set(ERROR_INPUT, "%s: a scope is %s, must be %s", what, json_kind(scope),
                         list_scopes(grammar, " or ", list));
    for (size_t i = 0; i < grammar->scope_count; i++) {
        if (strcmp(scope->valuestring, grammar->scopes[i].name) == 0) {
            token->scopes |= grammar->scopes[i].scope;
            return OK;
        }
    }
    return error_set(
        ERROR_INPUT, "%s: there is no scope %s; %s exist", what,
        text_quote(quoted, sizeof(quoted), scope->valuestring, strlen(scope->valuestring)),
        list_scopes(grammar, " and ", list));
}

static enum error take_scopes(const struct token_grammar *grammar, struct bearer_token *token,
                              const cJSON *item, const char *what)
{
    const cJSON *scopes;
    enum error error = json_get_array(item, "scopes", what, &scopes);
    if (error)
        return error;
    if (!scopes->child)
        return error_set(ERROR_INPUT, "%s: scopes is empty: such a token may do nothing", what);
    for (const cJSON *scope = scopes->child; scope && !error; scope = scope->next)
        error = add_scope(grammar, token, scope, what);
    return error;
}

static bool is_name(const char *text)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(text);
    return length >= 1 && length <= NAME_LIMIT && strspn(text, allowed) == length;
}

static enum error add_name(const struct token_grammar *grammar, struct bearer_token *token,
                           const cJSON *item, const char *what)
{
    char quoted[TEXT_QUOTE_BYTES];
    if (!cJSON_IsString(item))
        return error_set(ERROR_INPUT, "%s: a %s is %s, must be a name or \"*\"", what,
                         grammar->noun, json_kind(item));
    const char *name = item->valuestring;
    if (strcmp(name, "*") == 0) {
        token->all_names = true;
        return OK;
    }
    if (!is_name(name))
        return error_set(
            ERROR_INPUT, "%s: %s %s: a name is 1 to 64 characters of [A-Za-z0-9._-], or \"*\"",
            what, grammar->noun, text_quote(quoted, sizeof(quoted), name, strlen(name)));
    char *copy = strdup(name);
    if (!copy)
        return error_set_memory(strlen(name), "a name in a token");
    token->names[token->name_count++] = copy;
    return OK;
}

static enum error take_names(const struct token_grammar *grammar, struct bearer_token *token,
                             const cJSON *item, const char *what)
{
    const cJSON *names;
    enum error error = json_get_array(item, grammar->nouns, what, &names);
    if (error)
        return error;
    int count = cJSON_GetArraySize(names);
    if (count < 1 || count > NAMES_LIMIT)
        return error_set(ERROR_INPUT, "%s: %s has %d names, must have 1 to %d; \"*\" is all", what,
                         grammar->nouns, count, NAMES_LIMIT);
    token->names = array_new((size_t)count, sizeof(*token->names), "a token's names");
    if (!token->names)
        return ERROR_MEMORY;
    for (const cJSON *name = names->child; name && !error; name = name->next)
        error = add_name(grammar, token, name, what);
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

static enum error take_token(const struct token_grammar *grammar, struct bearer_tokens *tokens,
                             const cJSON *item, const char *what)
{
    const char *const keys[] = {"name", "sha256", "scopes", grammar->nouns};
    size_t key_count = sizeof(keys) / sizeof(keys[0]) - !grammar->nouns;
    char place[ERROR_MESSAGE_BYTES / 2];
    struct bearer_token *token = &tokens->list[tokens->count++];
    snprintf(place, sizeof(place), "%s, token %zu", what, tokens->count);
    if (!cJSON_IsObject(item))
        return error_set(ERROR_INPUT, "%s is %s, must be an object", place, json_kind(item));
    enum error error = refuse_unknown_keys(item, keys, key_count, place);
    if (!error)
        error = take_name(token, item, place);
    if (!error)
        error = take_sha256(token, item, place);
    if (!error)
        error = take_scopes(grammar, token, item, place);
    bool may_lack_names =
        grammar->names_optional && !cJSON_GetObjectItemCaseSensitive(item, grammar->nouns);
    if (!error && grammar->nouns && !may_lack_names)
        error = take_names(grammar, token, item, place);
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

static enum error take_all(const struct token_grammar *grammar, const cJSON *list, const char *what,
                           struct bearer_tokens *tokens)
{
    enum error error = OK;
    for (const cJSON *item = list->child; item && !error; item = item->next)
        error = take_token(grammar, tokens, item, what);
    return error ? error : refuse_twins(tokens, what);
}

static enum error read_root(const struct token_grammar *grammar, const cJSON *json,
                            const char *what, struct bearer_tokens **ret_tokens)
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
    error = take_all(grammar, list, what, tokens);
    if (error) {
        bearer_tokens_free(tokens);
        return error;
    }
    *ret_tokens = tokens;
    return OK;
}

/* A message of json_parse(), without the piece of the text that it quotes: somebody may have
 * written a token itself there, or have given a file that holds nothing else. */
static enum error hide_text(enum error error, const char *what)
{
    char message[ERROR_MESSAGE_BYTES];
    snprintf(message, sizeof(message), "%s", error_message());
    size_t named = strlen(what);
    char *found = strlen(message) > named ? strstr(message + named, ", found ") : NULL;
    if (found)
        *found = '\0';
    return error_set(error, "%s", message);
}

enum error bearer_tokens_parse(const struct token_grammar *grammar, const char *text, size_t length,
                               const char *what, struct bearer_tokens **ret_tokens)
{
    cJSON *json = NULL;
    enum error error = json_parse(text, length, what, &json);
    if (error)
        error = hide_text(error, what);
    if (!error)
        error = read_root(grammar, json, what, ret_tokens);
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

enum error bearer_tokens_read(const struct token_grammar *grammar, const char *path,
                              struct bearer_tokens **ret_tokens)
{
    struct buffer text = BUFFER_INIT(TOKENS_FILE_LIMIT_BYTES);
    char what[ERROR_MESSAGE_BYTES / 4];
    snprintf(what, sizeof(what), "--token-file %s", path);
    enum error error = file_as_input(file_read_whole(path, &text), path);
    if (error)
        error = error_prefix(error, "--token-file: ");
    if (!error)
        error =
            bearer_tokens_parse(grammar, text.data ? text.data : "", text.length, what, ret_tokens);
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
        for (size_t k = 0; k < token->name_count; k++)
            free(token->names[k]);
        free(token->names);
        free(token->name);
    }
    free(tokens);
}

size_t bearer_tokens_count(const struct bearer_tokens *tokens)
{
    return tokens->count;
}

/* ---- asking ------------------------------------------------------------- */

/* The text after "Bearer ", trimmed; NULL: another scheme. */
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

bool bearer_token_may(const struct bearer_token *token, int scopes, const char *name)
{
    int met = token->scopes & scopes;
    if (!met)
        return false;
    if ((met & SCOPE_READ) || !name || token->all_names)
        return true;
    for (size_t i = 0; i < token->name_count; i++) {
        if (strcmp(token->names[i], name) == 0)
            return true;
    }
    return false;
}

const char *token_scope_name(const struct token_grammar *grammar, int scopes)
{
    for (size_t i = 0; i < grammar->scope_count; i++) {
        if (grammar->scopes[i].scope & scopes)
            return grammar->scopes[i].name;
    }
    return "";
}
