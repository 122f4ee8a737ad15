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

struct tokens;
struct token;

/* Reads the file. ERROR_INPUT, ERROR_NOT_FOUND, ERROR_IO: naming file, token and what is wrong.
 * Warns when others than the owner's group may read the file. */
enum error tokens_read(const char *path, struct tokens **ret_tokens) MUST_CHECK;
/* From text, for tests; `what` names it in messages. */
enum error tokens_parse(const char *text, size_t length, const char *what,
                        struct tokens **ret_tokens) MUST_CHECK;
/* NULL is legal. */
void tokens_free(struct tokens *tokens);
size_t tokens_count(const struct tokens *tokens);

/* The token that an Authorization header ("Bearer TOKEN"; NULL: none was sent) holds, or NULL when
 * it is none of ours. Borrowed from `tokens`. */
const struct token *tokens_find(const struct tokens *tokens, const char *authorization);

const char *token_name(const struct token *token);
/* Has it one of these scopes? `stream` NULL: whatever stream it is about. */
bool token_may(const struct token *token, int scopes, const char *stream);

#endif
