/* SPDX-License-Identifier: MIT */
#include "common/http/certificate.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/file.h"
#include "common/log.h"

#define PEM_LIMIT_BYTES (1 << 20)
#define SOON_SECONDS (7 * 24 * 3600)

static void date_of(time_t when, char out[32])
{
    struct tm utc;
    gmtime_r(&when, &utc);
    strftime(out, 32, "%Y-%m-%d %H:%M UTC", &utc);
}

/* GnuTLS's words alone do not say what was missing ("The requested data were not available."). */
static enum error refuse(const char *option, const char *path, int code)
{
    bool is_key = strcmp(option, "tls-key") == 0;
    return error_set(ERROR_INPUT, "--%s %s: %s %s in PEM was expected", option, path,
                     gnutls_strerror(code),
                     is_key ? "A private key without a passphrase" : "A chain of certificates");
}

/* Clients refuse an expired certificate, so serving it helps nobody. */
static enum error check_dates(gnutls_x509_crt_t own, const char *path)
{
    char date[32];
    time_t now = time(NULL);
    time_t begin = gnutls_x509_crt_get_activation_time(own);
    time_t end = gnutls_x509_crt_get_expiration_time(own);
    date_of(end, date);
    if (end < now)
        return error_set(ERROR_INPUT, "--tls-cert %s: the certificate expired on %s", path, date);
    if (end < now + SOON_SECONDS)
        log_warning("--tls-cert %s: the certificate expires on %s", path, date);
    date_of(begin, date);
    if (begin > now)
        log_warning("--tls-cert %s: the certificate is valid from %s on, not yet", path, date);
    return OK;
}

/* In TLS 1.3, and with every cipher that has forward secrecy, the server signs. */
static enum error check_usage(gnutls_x509_crt_t own, const char *path)
{
    unsigned int usage;
    if (gnutls_x509_crt_get_key_usage(own, &usage, NULL) < 0 || /* it may do everything */
        (usage & GNUTLS_KEY_DIGITAL_SIGNATURE) != 0)
        return OK;
    return error_set(ERROR_INPUT,
                     "--tls-cert %s: the certificate's keyUsage has no digitalSignature, without "
                     "which no client can connect",
                     path);
}

static enum error check_pair(gnutls_x509_crt_t own, gnutls_privkey_t key, const char *cert_path,
                             const char *key_path)
{
    unsigned char of_cert[64];
    unsigned char of_key[64];
    size_t cert_bytes = sizeof(of_cert);
    size_t key_bytes = sizeof(of_key);
    gnutls_pubkey_t public_key = NULL;
    int code = gnutls_x509_crt_get_key_id(own, 0, of_cert, &cert_bytes);
    if (code == 0)
        code = gnutls_pubkey_init(&public_key);
    if (code == 0)
        code = gnutls_pubkey_import_privkey(public_key, key, 0, 0);
    if (code == 0)
        code = gnutls_pubkey_get_key_id(public_key, 0, of_key, &key_bytes);
    gnutls_pubkey_deinit(public_key);
    if (code != 0)
        return refuse("tls-key", key_path, code);
    if (cert_bytes == key_bytes && memcmp(of_cert, of_key, key_bytes) == 0)
        return OK;
    return error_set(ERROR_INPUT,
                     "--tls-key %s is not the key of --tls-cert %s; the server's own certificate "
                     "must be the first of its file",
                     key_path, cert_path);
}

static enum error read_file(const char *option, const char *path, struct buffer *buffer)
{
    enum error error = file_as_input(file_read_whole(path, buffer), path);
    if (error)
        return error_prefix(error, "--%s: ", option);
    if (buffer->length == 0)
        return error_set(ERROR_INPUT, "--%s %s is empty", option, path);
    return OK;
}

static gnutls_datum_t datum_of(struct buffer *buffer)
{
    return (gnutls_datum_t){.data = (unsigned char *)buffer->data,
                            .size = (unsigned int)buffer->length};
}

static enum error read_key(struct certificate *certificate, const char *path)
{
    struct buffer text = BUFFER_INIT(PEM_LIMIT_BYTES);
    struct stat facts;
    enum error error = read_file("tls-key", path, &text);
    if (!error) {
        gnutls_datum_t pem = datum_of(&text);
        int code = gnutls_privkey_init(&certificate->key);
        if (code == 0)
            code = gnutls_privkey_import_x509_raw(certificate->key, &pem, GNUTLS_X509_FMT_PEM, NULL,
                                                  0);
        if (code != 0)
            error = refuse("tls-key", path, code);
    }
    if (!error && stat(path, &facts) == 0 && (facts.st_mode & S_IROTH) != 0)
        log_warning("--tls-key %s: everybody may read it; chmod o-r is safer", path);
    if (text.data)
        explicit_bzero(text.data, text.length);
    buffer_release(&text);
    return error;
}

static enum error take_chain(struct certificate *certificate, gnutls_x509_crt_t *list,
                             unsigned int count, const char *cert_path, const char *key_path)
{
    enum error error = check_dates(list[0], cert_path);
    if (!error)
        error = check_pair(list[0], certificate->key, cert_path, key_path);
    if (!error)
        error = check_usage(list[0], cert_path);
    for (unsigned int i = 0; i < count && !error; i++) {
        int code = gnutls_pcert_import_x509(&certificate->chain[i], list[i], 0);
        if (code != 0)
            error = refuse("tls-cert", cert_path, code);
        else
            certificate->count++;
    }
    return error;
}

static enum error read_chain(struct certificate *certificate, const char *cert_path,
                             const char *key_path)
{
    struct buffer text = BUFFER_INIT(PEM_LIMIT_BYTES);
    gnutls_x509_crt_t list[CERTIFICATE_CHAIN_LIMIT];
    unsigned int count = CERTIFICATE_CHAIN_LIMIT;
    enum error error = read_file("tls-cert", cert_path, &text);
    if (!error) {
        gnutls_datum_t pem = datum_of(&text);
        int code = gnutls_x509_crt_list_import(list, &count, &pem, GNUTLS_X509_FMT_PEM, 0);
        if (code < 0)
            error = refuse("tls-cert", cert_path, code);
        else
            count = (unsigned int)code;
    }
    buffer_release(&text);
    if (error)
        return error;
    error = take_chain(certificate, list, count, cert_path, key_path);
    for (unsigned int i = 0; i < count; i++)
        gnutls_x509_crt_deinit(list[i]);
    return error;
}

enum error certificate_read(const char *cert_path, const char *key_path,
                            struct certificate **ret_certificate)
{
    struct certificate *certificate = array_new(1, sizeof(*certificate), "a certificate");
    if (!certificate)
        return ERROR_MEMORY;
    enum error error = read_key(certificate, key_path);
    if (!error)
        error = read_chain(certificate, cert_path, key_path);
    if (error) {
        certificate_free(certificate);
        return error;
    }
    *ret_certificate = certificate;
    return OK;
}

void certificate_free(struct certificate *certificate)
{
    if (!certificate)
        return;
    for (unsigned int i = 0; i < certificate->count; i++)
        gnutls_pcert_deinit(&certificate->chain[i]);
    gnutls_privkey_deinit(certificate->key);
    free(certificate);
}

void certificate_text(struct certificate *certificate, char out[CERTIFICATE_TEXT_BYTES])
{
    gnutls_x509_crt_t own = NULL;
    gnutls_datum_t subject = {0};
    char date[32] = "?";
    if (gnutls_pcert_export_x509(&certificate->chain[0], &own) == 0) {
        date_of(gnutls_x509_crt_get_expiration_time(own), date);
        (void)gnutls_x509_crt_get_dn3(own, &subject, 0);
    }
    snprintf(out, CERTIFICATE_TEXT_BYTES, "%.*s, valid until %s", (int)subject.size,
             subject.data ? (const char *)subject.data : "", date);
    gnutls_free(subject.data);
    gnutls_x509_crt_deinit(own);
}
