/* SPDX-License-Identifier: MIT */
#include "common/http/guard.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"

/* Replaced by a reload. */
struct retired {
    struct retired *next;
    int64_t since_ns;
    struct bearer_tokens *tokens;
    struct certificate *certificate;
};

struct guard {
    struct guard_options options;
    _Atomic(struct bearer_tokens *) tokens;    /* owned */
    _Atomic(struct certificate *) certificate; /* owned */
    struct retired *retired;
};

/* GnuTLS passes no context to its callback. */
static _Atomic(struct guard *) of_tls;

static void free_retired(struct guard *guard, int64_t until_ns)
{
    struct retired **link = &guard->retired;
    while (*link) {
        struct retired *one = *link;
        if (one->since_ns > until_ns) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        bearer_tokens_free(one->tokens);
        certificate_free(one->certificate);
        free(one);
    }
}

static enum error reload_tokens(struct guard *guard, struct retired *retired)
{
    struct bearer_tokens *tokens = NULL;
    if (!guard->options.token_file)
        return OK;
    enum error error =
        bearer_tokens_read(guard->options.grammar, guard->options.token_file, &tokens);
    if (error)
        return error;
    retired->tokens = atomic_exchange(&guard->tokens, tokens);
    if (retired->tokens)
        log_event(LOG_INFO, "tokens read again", log_text("file", guard->options.token_file),
                  log_number("tokens", (int64_t)bearer_tokens_count(tokens)),
                  log_number("before", (int64_t)bearer_tokens_count(retired->tokens)));
    return OK;
}

static enum error reload_certificate(struct guard *guard, struct retired *retired)
{
    struct certificate *certificate = NULL;
    char text[CERTIFICATE_TEXT_BYTES];
    if (!guard->options.tls_cert)
        return OK;
    enum error error =
        certificate_read(guard->options.tls_cert, guard->options.tls_key, &certificate);
    if (error)
        return error;
    retired->certificate = atomic_exchange(&guard->certificate, certificate);
    certificate_text(certificate, text);
    log_event(LOG_INFO, retired->certificate ? "certificate read again" : "certificate read",
              log_text("file", guard->options.tls_cert), log_text("certificate", text));
    return OK;
}

static enum error read_both(struct guard *guard, bool starting)
{
    struct retired *retired =
        array_new(1, sizeof(*retired), "a replaced certificate or token list");
    if (!retired)
        return ERROR_MEMORY;
    enum error error = reload_tokens(guard, retired);
    if (error && !starting)
        log_event(LOG_ERROR, "the old tokens stay in use",
                  log_text("file", guard->options.token_file), log_text("why", error_message()));
    if (!error || !starting) {
        enum error second = reload_certificate(guard, retired);
        if (second && !starting)
            log_event(LOG_ERROR, "the old certificate stays in use",
                      log_text("file", guard->options.tls_cert), log_text("why", error_message()));
        error = error ? error : second;
    }
    retired->since_ns = clock_now_ns();
    retired->next = guard->retired;
    guard->retired = retired;
    return error;
}

enum error guard_open(const struct guard_options *options, struct guard **ret_guard)
{
    if (!options->tls_cert != !options->tls_key)
        return error_set(
            ERROR_USAGE,
            "--tls-cert FILE and --tls-key FILE belong together: give both or neither");
    struct guard *guard = array_new(1, sizeof(*guard), "the guard");
    if (!guard)
        return ERROR_MEMORY;
    guard->options = *options;
    if (!options->token_file && !options->anonymous_scopes)
        guard->options.anonymous_scopes = SCOPE_ALL;
    enum error error = read_both(guard, true);
    if (error) {
        guard_close(guard);
        return error;
    }
    if (guard_uses_tls(guard))
        atomic_store(&of_tls, guard);
    *ret_guard = guard;
    return OK;
}

void guard_close(struct guard *guard)
{
    struct guard *expected = guard;
    if (!guard)
        return;
    atomic_compare_exchange_strong(&of_tls, &expected, NULL);
    free_retired(guard, INT64_MAX);
    bearer_tokens_free(atomic_load(&guard->tokens));
    certificate_free(atomic_load(&guard->certificate));
    free(guard);
}

const struct bearer_tokens *guard_tokens(const struct guard *guard)
{
    return atomic_load_explicit(&guard->tokens, memory_order_acquire);
}

int guard_anonymous(const struct guard *guard)
{
    return guard->options.anonymous_scopes;
}

const struct token_grammar *guard_grammar(const struct guard *guard)
{
    return guard->options.grammar;
}

bool guard_uses_tls(const struct guard *guard)
{
    return guard->options.tls_cert != NULL;
}

void guard_reload(struct guard *guard)
{
    if (!guard->options.token_file && !guard->options.tls_cert) {
        log_info("SIGHUP: there is no --token-file and no --tls-cert to read again");
        return;
    }
    free_retired(guard, clock_now_ns() - GUARD_KEPT_SECONDS * INT64_C(1000000000));
    enum error error = read_both(guard, false);
    (void)error; /* it was logged */
}

int guard_retrieve(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                   const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                   gnutls_pcert_st **ret_chain, unsigned int *ret_count, gnutls_privkey_t *ret_key)
{
    (void)session;
    (void)names;
    (void)name_count;
    (void)algorithms;
    (void)algorithm_count;
    struct guard *guard = atomic_load(&of_tls);
    struct certificate *certificate = guard ? atomic_load(&guard->certificate) : NULL;
    if (!certificate)
        return -1;
    *ret_chain = certificate->chain;
    *ret_count = certificate->count;
    *ret_key = certificate->key;
    return 0;
}
