/* SPDX-License-Identifier: MIT */
/*
 * The server's key and certificate chain, as PEM files, for GnuTLS. Immutable once read.
 */
#ifndef COMMON_HTTP_CERTIFICATE_H
#define COMMON_HTTP_CERTIFICATE_H

#include <gnutls/abstract.h>

#include "common/error.h"

#define CERTIFICATE_CHAIN_LIMIT 16

struct certificate {
    gnutls_pcert_st chain[CERTIFICATE_CHAIN_LIMIT]; /* [count], the server's own first */
    unsigned int count;
    gnutls_privkey_t key;
};

/* ERROR_INPUT: not PEM, key and certificate do not match, or it has expired; ERROR_IO,
 * ERROR_NOT_FOUND: a file cannot be read. The message names the option and the file. Warns of a
 * certificate that is not yet valid or expires within a week, and of a key that all may read. */
enum error certificate_read(const char *cert_path, const char *key_path,
                            struct certificate **ret_certificate) MUST_CHECK;
/* NULL is legal. */
void certificate_free(struct certificate *certificate);

/* "CN=..., until 2027-01-01": for the log. */
#define CERTIFICATE_TEXT_BYTES 256
void certificate_text(struct certificate *certificate, char out[CERTIFICATE_TEXT_BYTES]);

#endif
