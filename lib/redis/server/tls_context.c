#include "redis/server/tls_context.h"
#include "redis/server/private.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long sessions replace the verification of a certificate. */
#define MAX_UNVERIFIED_MS 3600000

#define NAME_FLAGS X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS

struct relock_tls_context {
    SSL_CTX *ctx;  /* one for all nodes of a cluster */
    char *name;    /* in the server's certificate */
    bool is_named; /* by the options */
    bool is_address;
    struct relock_mutex mutex;
    struct {
        SSL_SESSION *session; /* a copy that no connection uses; or NULL */
        uint64_t verified_ms; /* when its certificate was verified */
    } guarded;
};

/* ---- the session --------------------------------------------------------------------------- */

static void replace_session(struct relock_tls_context *context, SSL_SESSION *session,
                            uint64_t verified_ms)
{
    SSL_SESSION *old;

    relock_mutex_lock(&context->mutex);
    old = context->guarded.session;
    context->guarded.session = session;
    context->guarded.verified_ms = verified_ms;
    relock_mutex_unlock(&context->mutex);
    SSL_SESSION_free(old);
}

/* The connection may still change its session, so keep a copy. Returns 0: takes no reference. */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
    const struct relock_tls_verified *verified = SSL_get_app_data(ssl);
    SSL_SESSION *copy = SSL_SESSION_is_resumable(session) ? SSL_SESSION_dup(session) : NULL;

    if (copy)
        replace_session(verified->context, copy, verified->at_ms);
    return 0;
}

/* A session that resumes another is as old as that. */
static int on_verification(int is_valid, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct relock_tls_verified *verified = SSL_get_app_data(ssl);

    verified->at_ms = relock_clock_now_ms();
    return is_valid;
}

static void resume(struct relock_tls_context *context, SSL *ssl,
                   struct relock_tls_verified *verified)
{
    uint64_t now_ms = relock_clock_now_ms();
    SSL_SESSION *copy = NULL;

    relock_mutex_lock(&context->mutex);
    *verified = (struct relock_tls_verified){context, context->guarded.verified_ms};
    if (context->guarded.session && now_ms < verified->at_ms + MAX_UNVERIFIED_MS)
        copy = SSL_SESSION_dup(context->guarded.session);
    relock_mutex_unlock(&context->mutex);
    if (copy)
        (void)SSL_set_session(ssl, copy); /* without one the handshake is longer */
    SSL_SESSION_free(copy);
}

void relock_tls_context_forget(struct relock_tls_context *context)
{
    replace_session(context, NULL, 0);
}

/* ---- files --------------------------------------------------------------------------------- */

/* `reason`: NULL: as OpenSSL says. */
static int refuse(const struct relock_log *log, const char *option, const char *path,
                  const char *reason)
{
    if (!reason)
        reason = ERR_reason_error_string(ERR_peek_error());
    if (relock_tls_guard_lacked_memory())
        return RELOCK_E_NOMEM;
    if (access(path, R_OK) < 0)
        reason = relock_status_errno(errno);
    relock_log_write(log, RELOCK_LOG_ERROR, "no client was made: %s %s: %s", option, path,
                     reason ? reason : "it cannot be used");
    return RELOCK_E_INVALID;
}

/* OpenSSL has compared them only if both are of the same type. */
static int check_key(SSL_CTX *ctx, const char *key, const struct relock_log *log)
{
    if (SSL_CTX_check_private_key(ctx) == 1)
        return RELOCK_OK;
    if (relock_tls_guard_lacked_memory())
        return RELOCK_E_NOMEM;
    relock_log_write(log, RELOCK_LOG_ERROR,
                     "no client was made: tls_key_file %s: it is not the key of tls_cert_file",
                     key);
    return RELOCK_E_INVALID;
}

/* OpenSSL would ask for it at the terminal. The type is OpenSSL's. `arg`: whether it has asked. */
/* NOLINTNEXTLINE(readability-non-const-parameter) */
static int no_passphrase(char *text, int size, int writes, void *arg)
{
    bool *is_locked = arg;

    (void)text;
    (void)size;
    (void)writes;
    if (is_locked)
        *is_locked = true;
    return -1;
}

/* `path` is NULL if the key is to be in the file of the certificate. */
static int take_key(SSL_CTX *ctx, const char *cert, const char *path, const struct relock_log *log)
{
    const char *key = path ? path : cert;
    const char *reason = NULL;
    bool is_locked = false;
    int done;

    SSL_CTX_set_default_passwd_cb_userdata(ctx, &is_locked);
    done = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    if (done == 1)
        return check_key(ctx, key, log);
    if (is_locked)
        reason = "the key has a passphrase, which is not supported";
    else if (ERR_GET_LIB(ERR_peek_error()) != ERR_LIB_X509) /* else it has another key */
        reason = path ? "it has no private key" : "it has no private key: set tls_key_file";
    return refuse(log, path ? "tls_key_file" : "tls_cert_file", key, reason);
}

static int trust(SSL_CTX *ctx, const char *path, const struct relock_log *log)
{
    if (!path)
        return SSL_CTX_set_default_verify_paths(ctx) == 1 ? RELOCK_OK : RELOCK_E_NOMEM;
    if (SSL_CTX_load_verify_file(ctx, path) != 1)
        return refuse(log, "tls_ca_file", path, NULL);
    return RELOCK_OK;
}

static int identify(SSL_CTX *ctx, const struct relock_options *options,
                    const struct relock_log *log)
{
    const char *cert = options->tls_cert_file;

    if (!cert && options->tls_key_file) {
        relock_log_write(log, RELOCK_LOG_ERROR,
                         "no client was made: tls_key_file is set, but no tls_cert_file");
        return RELOCK_E_INVALID;
    }
    if (!cert)
        return RELOCK_OK;
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return refuse(log, "tls_cert_file", cert, NULL);
    return take_key(ctx, cert, options->tls_key_file, log);
}

/* ---- life ---------------------------------------------------------------------------------- */

static SSL_CTX *make_ctx(bool is_insecure)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

    if (!ctx)
        return NULL;
    /* The system's configuration may require TLS 1.3. */
    if (SSL_CTX_get_min_proto_version(ctx) < TLS1_2_VERSION)
        (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    /* Without renegotiation, sending needs bytes of the server only after a part of a message. */
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_verify(ctx, is_insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, on_verification);
    (void)SSL_CTX_set_session_cache_mode(ctx,
                                         SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(ctx, on_session);
    return ctx;
}

static bool is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* The dot at the end of a complete name is in no certificate. */
static size_t length_of(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && name[len - 1] == '.' ? len - 1 : len;
}

static int take_name(struct relock_tls_context *context, const char *name,
                     const struct relock_log *log)
{
    size_t len = length_of(name);

    if (len == 0 || len > TLSEXT_MAXLEN_host_name) {
        relock_log_write(log, RELOCK_LOG_ERROR,
                         "no client was made: the name for the server's certificate is empty or "
                         "has more than %d characters",
                         TLSEXT_MAXLEN_host_name);
        return RELOCK_E_INVALID;
    }
    context->name = strndup(name, len);
    if (!context->name)
        return RELOCK_E_NOMEM;
    context->is_address = is_address(context->name);
    return RELOCK_OK;
}

/* Between relock_tls_guard_enter and leave. */
static int init(struct relock_tls_context *context, const struct relock_options *options,
                const struct relock_log *log)
{
    int r;

    context->ctx = make_ctx(options->flags & RELOCK_TLS_INSECURE);
    if (!context->ctx)
        return RELOCK_E_NOMEM;
    r = trust(context->ctx, options->tls_ca_file, log);
    if (r == RELOCK_OK)
        r = identify(context->ctx, options, log);
    /* OpenSSL accepts a certificate even if it had no memory to decode the key. */
    return r == RELOCK_OK && relock_tls_guard_lacked_memory() ? RELOCK_E_NOMEM : r;
}

int relock_tls_context_new(const struct relock_options *options, const char *host,
                           const struct relock_log *log, struct relock_tls_context **context)
{
    struct relock_tls_context *new = calloc(1, sizeof(*new));
    int r;

    if (!new)
        return RELOCK_E_NOMEM;
    relock_mutex_init(&new->mutex);
    new->is_named = options->tls_server_name != NULL;
    r = take_name(new, options->tls_server_name ? options->tls_server_name : host, log);
    if (r == RELOCK_OK)
        r = relock_tls_guard_init();
    if (r == RELOCK_OK && !relock_tls_guard_enter())
        r = RELOCK_E_NOMEM;
    if (r == RELOCK_OK) {
        r = init(new, options, log);
        relock_tls_guard_exit();
    }
    if (r < 0) {
        relock_tls_context_free(new);
        return r;
    }
    if (options->flags & RELOCK_TLS_INSECURE)
        relock_log_write(log, RELOCK_LOG_WARNING,
                         "%s: the server's certificate is not verified (RELOCK_TLS_INSECURE): "
                         "an attacker on the network can read and change everything",
                         host);
    *context = new;
    return RELOCK_OK;
}

struct relock_tls_context *relock_tls_context_new_for(const struct relock_tls_context *as,
                                                      const char *host)
{
    struct relock_tls_context *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    relock_mutex_init(&new->mutex);
    new->is_named = as->is_named;
    new->name = as->is_named ? strdup(as->name) : strndup(host, length_of(host));
    if (new->name && relock_tls_guard_enter()) {
        new->is_address = is_address(new->name);
        if (SSL_CTX_up_ref(as->ctx) == 1)
            new->ctx = as->ctx;
        relock_tls_guard_exit();
    }
    return new->ctx ? new : relock_tls_context_free(new);
}

struct relock_tls_context *relock_tls_context_free(struct relock_tls_context *context)
{
    if (!context)
        return NULL;
    if (context->ctx && relock_tls_guard_enter()) {
        SSL_SESSION_free(context->guarded.session);
        SSL_CTX_free(context->ctx);
        relock_tls_guard_exit();
    }
    relock_mutex_deinit(&context->mutex);
    free(context->name);
    free(context);
    return NULL;
}

/* ---- connections --------------------------------------------------------------------------- */

const char *relock_tls_context_name(const struct relock_tls_context *context)
{
    return context->name;
}

static bool expect_name(const struct relock_tls_context *context, SSL *ssl)
{
    if (context->is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), context->name) == 1;
    SSL_set_hostflags(ssl, NAME_FLAGS);
    return SSL_set1_host(ssl, context->name) == 1 &&
           SSL_set_tlsext_host_name(ssl, context->name) == 1;
}

bool relock_tls_context_has_name(const struct relock_tls_context *context, const struct ssl_st *ssl)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);

    if (SSL_get_verify_mode(ssl) == SSL_VERIFY_NONE)
        return true;
    if (!cert)
        return false;
    if (context->is_address)
        return X509_check_ip_asc(cert, context->name, 0) == 1;
    return X509_check_host(cert, context->name, 0, NAME_FLAGS, NULL) == 1;
}

struct ssl_st *relock_tls_context_begin(struct relock_tls_context *context,
                                        struct relock_tls_verified *verified)
{
    SSL *ssl = SSL_new(context->ctx);

    if (!ssl || !expect_name(context, ssl) || SSL_set_app_data(ssl, verified) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    resume(context, ssl, verified);
    return ssl;
}
