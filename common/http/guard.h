/* SPDX-License-Identifier: MIT */
/*
 * Access control: the tokens of --token-file and the TLS certificate. Both are read again on
 * SIGHUP; if that fails, the old ones stay in use.
 *
 * Threads: guard_tokens() and guard_retrieve() from any thread; the rest from one at a time. Their
 * results stay valid for GUARD_KEPT_SECONDS after a reload, which is longer than a request uses
 * them and than a handshake takes.
 */
#ifndef COMMON_HTTP_GUARD_H
#define COMMON_HTTP_GUARD_H

#include <gnutls/abstract.h>
#include <stdbool.h>

#include "common/error.h"
#include "common/http/bearer_tokens.h"
#include "common/http/certificate.h"

#define GUARD_KEPT_SECONDS 7200

/* Texts are borrowed until guard_close(). */
struct guard_options {
    const struct token_grammar *grammar; /* of the file */
    const char *token_file;              /* NULL: no tokens */
    /* Scopes of a request without a token; 0: none if there is a token_file, else all. */
    int anonymous_scopes;
    const char *tls_cert; /* NULL: no TLS; both or neither */
    const char *tls_key;
};

struct guard;

enum error guard_open(const struct guard_options *options, struct guard **ret_guard) MUST_CHECK;
/* Call when no server uses it any more. NULL is legal. */
void guard_close(struct guard *guard);

/* NULL: no tokens. */
const struct bearer_tokens *guard_tokens(const struct guard *guard);
/* Scopes of a request without a token, or SCOPE_ALL. */
int guard_anonymous(const struct guard *guard);
const struct token_grammar *guard_grammar(const struct guard *guard);
bool guard_uses_tls(const struct guard *guard);

/* Reads the files again, and logs successes and failures. */
void guard_reload(struct guard *guard);

/* A gnutls_certificate_retrieve_function2 for the process's one guard that uses TLS: returns the
 * current certificate. */
int guard_retrieve(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                   const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                   gnutls_pcert_st **ret_chain, unsigned int *ret_count, gnutls_privkey_t *ret_key);

#endif
