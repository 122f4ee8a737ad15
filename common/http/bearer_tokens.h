/* SPDX-License-Identifier: MIT */
/*
 * Permissions: the tokens of --token-file, a JSON file that names the SHA-256 of each token, so
 * that the file reveals none of them:
 *
 *   {"tokens":[{"name":"ops","sha256":"64 hex digits","scopes":["read","admin"],"NOUNS":["*"]}]}
 *
 * The application defines the scopes, and what NOUNS restrict all of them but read to.
 *
 * Immutable once read. Comparison takes the same time for every token: all of them are always
 * compared, in constant time.
 */
#ifndef COMMON_HTTP_BEARER_TOKENS_H
#define COMMON_HTTP_BEARER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define TOKENS_LIMIT 1000
#define TOKEN_NAME_BYTES 65 /* 1 to 64, and a NUL */
#define TOKENS_FILE_LIMIT_BYTES (1 << 20)

/* Every GET and HEAD except those of scoped routes; the application's scopes are other bits. */
#define SCOPE_READ 1
#define SCOPE_ALL (~0)

struct token_scope {
    const char *name;
    int scope; /* a bit */
};

struct token_grammar {
    const struct token_scope *scopes; /* [scope_count] */
    size_t scope_count;
    const char *noun, *nouns; /* what a token is restricted to: "stream", "streams"; NULL:
                               * nothing */
    bool names_optional;      /* a token may lack `nouns`: it then may read, but do nothing that
                               * concerns a name */
};

struct bearer_tokens;
struct bearer_token;

/* Reads the file. ERROR_INPUT, ERROR_NOT_FOUND, ERROR_IO: naming file, token and what is wrong.
 * Warns if others than the owner's group may read the file. */
enum error bearer_tokens_read(const struct token_grammar *grammar, const char *path,
                              struct bearer_tokens **ret_tokens) MUST_CHECK;
/* Parses a text, for tests; `what` names it in messages. */
enum error bearer_tokens_parse(const struct token_grammar *grammar, const char *text, size_t length,
                               const char *what, struct bearer_tokens **ret_tokens) MUST_CHECK;
/* NULL is legal. */
void bearer_tokens_free(struct bearer_tokens *tokens);
size_t bearer_tokens_count(const struct bearer_tokens *tokens);

/* The token in an Authorization header ("Bearer TOKEN"; NULL: none was sent), or NULL if it is not
 * one of ours. Borrowed from `tokens`. */
const struct bearer_token *bearer_tokens_find(const struct bearer_tokens *tokens,
                                              const char *authorization);

const char *bearer_token_name(const struct bearer_token *token);
/* Does it have one of these scopes, for `name`? NULL: for any name. */
bool bearer_token_may(const struct bearer_token *token, int scopes, const char *name);
/* The first one of these scopes, for messages. */
const char *token_scope_name(const struct token_grammar *grammar, int scopes);

#endif
