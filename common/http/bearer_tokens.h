/* SPDX-License-Identifier: MIT */
/*
 * Who may do what: the tokens of --token-file, a JSON file that names the SHA-256 of each token, so
 * that the file gives none of them away:
 *
 *   {"tokens":[{"name":"ops","sha256":"64 hex digits","scopes":["read","admin"],"NOUNS":["*"]}]}
 *
 * Which scopes there are, and what NOUNS bind all of them but read to, is the application's.
 *
 * Immutable once read. Comparing takes the same time whatever the token is: all of them are always
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

/* Every GET and HEAD but those of scoped routes; other scopes are the application's other bits. */
#define SCOPE_READ 1
#define SCOPE_ALL (~0)

struct token_scope {
    const char *name;
    int scope; /* a bit */
};

struct token_grammar {
    const struct token_scope *scopes; /* [scope_count] */
    size_t scope_count;
    const char *noun, *nouns; /* what a token is for: "stream", "streams"; NULL: there is none */
    bool names_optional;      /* a token may lack `nouns`: it may read, and nothing of a name */
};

struct bearer_tokens;
struct bearer_token;

/* Reads the file. ERROR_INPUT, ERROR_NOT_FOUND, ERROR_IO: naming file, token and what is wrong.
 * Warns when others than the owner's group may read the file. */
enum error bearer_tokens_read(const struct token_grammar *grammar, const char *path,
                              struct bearer_tokens **ret_tokens) MUST_CHECK;
/* From text, for tests; `what` names it in messages. */
enum error bearer_tokens_parse(const struct token_grammar *grammar, const char *text, size_t length,
                               const char *what, struct bearer_tokens **ret_tokens) MUST_CHECK;
/* NULL is legal. */
void bearer_tokens_free(struct bearer_tokens *tokens);
size_t bearer_tokens_count(const struct bearer_tokens *tokens);

/* The token that an Authorization header ("Bearer TOKEN"; NULL: none was sent) holds, or NULL when
 * it is none of ours. Borrowed from `tokens`. */
const struct bearer_token *bearer_tokens_find(const struct bearer_tokens *tokens,
                                              const char *authorization);

const char *bearer_token_name(const struct bearer_token *token);
/* Has it one of these scopes? `name` NULL: whatever it is about. */
bool bearer_token_may(const struct bearer_token *token, int scopes, const char *name);
/* The first one of these scopes, for messages. */
const char *token_scope_name(const struct token_grammar *grammar, int scopes);

#endif
