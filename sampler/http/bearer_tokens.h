/*
 * Who may do what: the tokens of --token-file, a JSON file that names the SHA-256 of each token, so
 * that the file gives none of them away:
 *
 *   {"tokens":[{"name":"ops","sha256":"64 hex digits","scopes":["read","draw","admin"],
 *               "streams":["*"]}]}
 *
 *   read   every GET and HEAD but draws; not bound to streams
 *   draw   /batch, /ack, /extend and /release of the streams named
 *   admin  creates, changes and deletes the streams named
 *
 * Immutable once read. Comparing takes the same time whatever the token is: all of them are always
 * compared, in constant time.
 */
#ifndef SAMPLER_HTTP_BEARER_TOKENS_H
#define SAMPLER_HTTP_BEARER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define TOKENS_LIMIT 1000
#define TOKEN_NAME_BYTES 65 /* 1 to 64, and a NUL */
#define TOKENS_FILE_LIMIT_BYTES (1 << 20)

/* A set of bits. */
enum scope { SCOPE_NONE = 0, SCOPE_READ = 1, SCOPE_DRAW = 2, SCOPE_ADMIN = 4 };

struct bearer_tokens;
struct bearer_token;

/* Reads the file. ERROR_INPUT, ERROR_NOT_FOUND, ERROR_IO: naming file, token and what is wrong.
 * Warns when others than the owner's group may read the file. */
enum error bearer_tokens_read(const char *path, struct bearer_tokens **ret_tokens) MUST_CHECK;
/* From text, for tests; `what` names it in messages. */
enum error bearer_tokens_parse(const char *text, size_t length, const char *what,
                               struct bearer_tokens **ret_tokens) MUST_CHECK;
/* NULL is legal. */
void bearer_tokens_free(struct bearer_tokens *tokens);
size_t bearer_tokens_count(const struct bearer_tokens *tokens);

/* The token that an Authorization header ("Bearer TOKEN"; NULL: none was sent) holds, or NULL when
 * it is none of ours. Borrowed from `tokens`. */
const struct bearer_token *bearer_tokens_find(const struct bearer_tokens *tokens,
                                              const char *authorization);

const char *bearer_token_name(const struct bearer_token *token);
/* Has it one of these scopes? `stream` NULL: whatever stream it is about. */
bool bearer_token_may(const struct bearer_token *token, int scopes, const char *stream);

#endif
