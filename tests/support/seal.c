#include "support/seal.h"

#include "support/certs.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>

struct seal_key {
    SSL_CTX *ctx;
};

struct seal {
    SSL *ssl;
    BIO *in, *out; /* encrypted; of the SSL */
};

static void die(const char *what)
{
    fprintf(stderr, "seal: %s\n", what);
    abort();
}

struct seal_key *seal_key_new(const char *certs)
{
    struct seal_key *key = calloc(1, sizeof(*key));
    char path[160];

    if (!key)
        die("out of memory");
    key->ctx = SSL_CTX_new(TLS_server_method());
    (void)snprintf(path, sizeof(path), "%s/%s", certs, CERTS_SERVER);
    if (!key->ctx || SSL_CTX_use_certificate_file(key->ctx, path, SSL_FILETYPE_PEM) != 1)
        die("no certificate");
    (void)snprintf(path, sizeof(path), "%s/%s", certs, CERTS_KEY);
    if (SSL_CTX_use_PrivateKey_file(key->ctx, path, SSL_FILETYPE_PEM) != 1)
        die("no key");
    return key;
}

struct seal_key *seal_key_free(struct seal_key *key)
{
    if (!key)
        return NULL;

    SSL_CTX_free(key->ctx);
    free(key);
    return NULL;
}

struct seal *seal_new(struct seal_key *key)
{
    struct seal *seal = calloc(1, sizeof(*seal));

    if (!seal || !(seal->ssl = SSL_new(key->ctx)))
        die("out of memory");
    seal->in = BIO_new(BIO_s_mem());
    seal->out = BIO_new(BIO_s_mem());
    if (!seal->in || !seal->out)
        die("out of memory");
    SSL_set_bio(seal->ssl, seal->in, seal->out);
    SSL_set_accept_state(seal->ssl);
    return seal;
}

struct seal *seal_free(struct seal *seal)
{
    if (!seal)
        return NULL;

    SSL_free(seal->ssl);
    free(seal);
    return NULL;
}

void seal_take(struct seal *seal, const char *data, size_t n)
{
    if (BIO_write(seal->in, data, (int)n) != (int)n)
        die("out of memory");
}

/* A client that breaks the protocol, or rejects the certificate, says no more: it hangs up. */
size_t seal_read(struct seal *seal, char *data, size_t size)
{
    int n;

    ERR_clear_error();
    n = SSL_read(seal->ssl, data, (int)size);
    return n > 0 ? (size_t)n : 0;
}

void seal_write(struct seal *seal, const char *data, size_t n)
{
    ERR_clear_error();
    (void)SSL_write(seal->ssl, data, (int)n);
}

size_t seal_fetch(struct seal *seal, char *data, size_t size)
{
    int n = BIO_read(seal->out, data, (int)size);

    return n > 0 ? (size_t)n : 0;
}
