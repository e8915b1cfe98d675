/*
 *     state     next     when
 *     SHAKING   OPEN     the handshake is complete, and the name of the server was checked
 *     each      FAILED   OpenSSL has failed, or the server has said farewell
 */
#include "redis/connect/private.h"

#include "base/status.h"
#include "redis/server/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- explaining failures ------------------------------------------------------------------- */

/* The certificate of the server is not accepted. */
static void explain_verification(long error, const char *name, char why[RELOCK_WHY_MAX])
{
    const char *text = X509_verify_cert_error_string(error);

    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the certificate of the server, or of its CA, has expired");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the certificate of the server, or of its CA, is not valid yet: is the "
                       "clock of this machine right?");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the server's certificate is not for %.60s: use a name that it has in the "
                       "url, or set tls_server_name",
                       name);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "no trusted CA has signed the server's certificate (%.60s): set "
                       "tls_ca_file",
                       text);
        break;
    default:
        (void)snprintf(why, RELOCK_WHY_MAX, "the server's certificate is invalid: %.60s", text);
        break;
    }
}

/* Whether the server reports by this alert that it rejects our certificate. */
static bool is_about_our_certificate(int alert)
{
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR:
    case SSL_AD_HANDSHAKE_FAILURE: /* also if no cipher is common to both sides */
    case SSL_AD_CERTIFICATE_REQUIRED:
        return true;
    default:
        return false;
    }
}

static int explain_alert(const struct ssl_st *ssl, unsigned long error, bool was_asked,
                         char why[RELOCK_WHY_MAX])
{
    const char *text = ERR_reason_error_string(error);
    int alert = ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET;
    bool is_about_ours = was_asked && is_about_our_certificate(alert);

    if (is_about_ours && !SSL_get_certificate(ssl)) {
        (void)snprintf(
            why, RELOCK_WHY_MAX,
            "the server requires a client certificate: set tls_cert_file and tls_key_file");
        return RELOCK_E_AUTH;
    }
    if (is_about_ours && alert != SSL_AD_HANDSHAKE_FAILURE) {
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the server rejects the client certificate (%.60s): check tls_cert_file",
                       text);
        return RELOCK_E_AUTH;
    }
    (void)snprintf(why, RELOCK_WHY_MAX, "the server ends the TLS connection: %.100s%s", text,
                   alert == SSL_AD_UNRECOGNIZED_NAME ? ": set tls_server_name" : "");
    return RELOCK_E_CONN;
}

/*
 * Turns a failure of OpenSSL into a result and a text that suggests a remedy. On the thread in
 * which OpenSSL has failed, before its next call.
 *
 * `was_asked`: the server has asked for a client certificate. `name`: what the server's certificate
 * must name.
 *
 * Returns RELOCK_E_AUTH if one side rejects the certificate of the other, or the lack of one;
 * RELOCK_E_NOMEM; else RELOCK_E_CONN.
 */
static int explain_failure(const struct ssl_st *ssl, const char *name, bool was_asked,
                           char why[RELOCK_WHY_MAX])
{
    unsigned long error = ERR_peek_error();
    const char *text = ERR_reason_error_string(error);
    int reason = ERR_GET_REASON(error);

    if (relock_tls_guard_lacked_memory() || SSL_get_verify_result(ssl) == X509_V_ERR_OUT_OF_MEM) {
        (void)snprintf(why, RELOCK_WHY_MAX, "out of memory for TLS");
        return RELOCK_E_NOMEM;
    }
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        explain_verification(SSL_get_verify_result(ssl), name, why);
        return RELOCK_E_AUTH;
    }
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET)
        return explain_alert(ssl, error, was_asked, why);
    (void)snprintf(why, RELOCK_WHY_MAX, "TLS has failed: %.100s", text ? text : "no reason given");
    return RELOCK_E_CONN;
}

/* ---- life ---------------------------------------------------------------------------------- */

enum state {
    SHAKING, /* in the handshake */
    OPEN,
    FAILED, /* `why` has the cause */
};

struct relock_tls {
    struct relock_tls_context *context;
    SSL *ssl;
    BIO *outside; /* takes bytes of the server, and gives those for it; each way has a limit */
    enum state state;
    bool was_asked;  /* by the server, for a certificate */
    bool has_read;   /* bytes that were encrypted */
    size_t n_sealed; /* bytes of commands, in the record that was not sent completely */
    size_t n_unsent; /* bytes of that record; behind them may be an answer of OpenSSL */
    struct relock_tls_verified verified;
    char why[RELOCK_WHY_MAX];
};

/* The server asks for a certificate. Returns 1: go on, if need be without. */
static int on_cert_request(SSL *ssl, void *arg)
{
    struct relock_tls *tls = arg;

    (void)ssl;
    tls->was_asked = true;
    return 1;
}

/* Between relock_tls_guard_enter and leave. */
static bool init(struct relock_tls *tls)
{
    BIO *inside;

    tls->ssl = relock_tls_context_begin(tls->context, &tls->verified);
    /* 0: the default, which has room for the longest record. */
    if (!tls->ssl || BIO_new_bio_pair(&inside, 0, &tls->outside, 0) != 1)
        return false;
    SSL_set_bio(tls->ssl, inside, inside);
    SSL_set_cert_cb(tls->ssl, on_cert_request, tls);
    SSL_set_connect_state(tls->ssl);
    return true;
}

struct relock_tls *relock_tls_new(const struct relock_server *server)
{
    struct relock_tls *tls = calloc(1, sizeof(*tls));
    bool done = false;

    if (!tls)
        return NULL;
    tls->context = server->tls;
    if (relock_tls_guard_enter()) {
        done = init(tls);
        relock_tls_guard_exit();
    }
    return done ? tls : relock_tls_free(tls);
}

struct relock_tls *relock_tls_free(struct relock_tls *tls)
{
    if (!tls)
        return NULL;
    if (relock_tls_guard_enter()) {
        SSL_free(tls->ssl);
        BIO_free(tls->outside);
        relock_tls_guard_exit();
    }
    free(tls);
    return NULL;
}

/* ---- failures ------------------------------------------------------------------------------ */

const char *relock_tls_why(const struct relock_tls *tls)
{
    return tls->why;
}

static int explain(struct relock_tls *tls, int result, const char *why)
{
    (void)snprintf(tls->why, sizeof(tls->why), "%s", why);
    return result;
}

/* The connection has ended. `err`: of the socket; 0: the server has closed it. */
static int explain_end(struct relock_tls *tls, int err)
{
    const char *what = err ? relock_status_errno(err) : "the server closed the connection";
    const char *hint = "";

    if (tls->state == SHAKING)
        hint = " during the TLS handshake: does the server speak TLS on this port?";
    else if (tls->was_asked && !tls->has_read)
        hint = " before its first reply: if it requires a client certificate, check tls_cert_file";
    (void)snprintf(tls->why, sizeof(tls->why), "%.80s%s", what, hint);
    return RELOCK_E_CONN;
}

/* Later than the first reply, RELOCK_E_AUTH would say of a command that it has not run. */
static int explain_error(struct relock_tls *tls)
{
    int r =
        explain_failure(tls->ssl, relock_tls_context_name(tls->context), tls->was_asked, tls->why);

    return r == RELOCK_E_AUTH && tls->has_read ? RELOCK_E_CONN : r;
}

/* Returns false if OpenSSL has ended. */
static bool enter(struct relock_tls *tls)
{
    if (relock_tls_guard_enter())
        return true;
    (void)explain(tls, RELOCK_E_CONN, "OpenSSL has ended, because this process ends");
    return false;
}

/* After `why` has got the cause, which depends on the state. */
static int fail(struct relock_tls *tls, int result)
{
    tls->state = FAILED;
    return result;
}

/* `done` is what a function of OpenSSL has returned. Between enter and leave. */
static int result_of(struct relock_tls *tls, int done)
{
    int error = SSL_get_error(tls->ssl, done);

    if (error == SSL_ERROR_NONE)
        return RELOCK_OK;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return RELOCK_AGAIN;
    return fail(tls, error == SSL_ERROR_ZERO_RETURN ? explain_end(tls, 0) : explain_error(tls));
}

/* ---- the handshake ------------------------------------------------------------------------- */

static int check_name(struct relock_tls *tls)
{
    if (relock_tls_context_has_name(tls->context, tls->ssl))
        return RELOCK_OK;
    return fail(tls,
                explain(tls, RELOCK_E_NOMEM, "out of memory to check the server's certificate"));
}

int relock_tls_shake(struct relock_tls *tls)
{
    int r = RELOCK_E_CONN;

    if (!enter(tls))
        return RELOCK_E_CONN;
    if (tls->state == SHAKING)
        r = result_of(tls, SSL_do_handshake(tls->ssl));
    if (r == RELOCK_OK)
        r = check_name(tls);
    if (r == RELOCK_OK)
        tls->state = OPEN;
    else if (r < 0)
        relock_tls_context_forget(tls->context);
    relock_tls_guard_exit();
    return r;
}

bool relock_tls_wants_to_write(const struct relock_tls *tls)
{
    return BIO_ctrl_pending(tls->outside) > 0 || SSL_want_write(tls->ssl);
}

void relock_tls_describe(const struct relock_tls *tls, char out[RELOCK_WHY_MAX])
{
    (void)snprintf(out, RELOCK_WHY_MAX, "%s, %s%s", SSL_get_version(tls->ssl),
                   SSL_get_cipher_name(tls->ssl),
                   SSL_session_reused(tls->ssl) ? ", session resumed" : "");
}

/* ---- bytes from the server ----------------------------------------------------------------- */

/* Each record of TLS begins with its type; other bytes are not TLS. */
#define RECORD_ALERT 21
#define RECORD_HANDSHAKE 22

/* Its messages want answers, and it reads none. */
#define TAKES_NO_ANSWERS "the server does not take answers to its TLS messages"

static bool is_tls(char first_byte)
{
    return first_byte == RECORD_HANDSHAKE || first_byte == RECORD_ALERT;
}

void relock_tls_feed(struct relock_tls *tls, const char *bytes, size_t len)
{
    if (BIO_number_written(tls->outside) == 0 && !is_tls(*bytes))
        (void)fail(tls, explain(tls, RELOCK_E_CONN,
                                "the server does not speak TLS on this port: use redis://, or its "
                                "TLS port"));
    if (tls->state != FAILED && BIO_write(tls->outside, bytes, (int)len) != (int)len)
        (void)fail(tls, explain(tls, RELOCK_E_CONN, TAKES_NO_ANSWERS));
}

int relock_tls_read(struct relock_tls *tls, char *data, size_t size, size_t *len)
{
    int r;

    if (tls->state == FAILED)
        return RELOCK_E_CONN;
    if (BIO_ctrl_wpending(tls->outside) == 0 && !SSL_has_pending(tls->ssl))
        return RELOCK_AGAIN;
    if (!enter(tls))
        return RELOCK_E_CONN;
    r = result_of(tls, SSL_read_ex(tls->ssl, data, size, len));
    relock_tls_guard_exit();
    if (r == RELOCK_OK)
        tls->has_read = true;
    /* OpenSSL answers the server's messages while it reads. */
    if (r == RELOCK_AGAIN && SSL_want_write(tls->ssl))
        return fail(tls, explain(tls, RELOCK_E_CONN, TAKES_NO_ANSWERS));
    return r;
}

int relock_tls_socket_failed(struct relock_tls *tls, int err)
{
    int r = explain_end(tls, err);

    if (tls->state == SHAKING && enter(tls)) {
        relock_tls_context_forget(tls->context);
        relock_tls_guard_exit();
    }
    return r;
}

/* ---- bytes for the server ------------------------------------------------------------------ */

static size_t peek(const struct relock_tls *tls, const char **bytes)
{
    char *first = NULL;
    int n = BIO_nread0(tls->outside, &first);

    *bytes = first;
    return n > 0 ? (size_t)n : 0;
}

/* One record at a time: of several, nobody could tell which commands the server can decrypt. */
static int seal(struct relock_tls *tls, const char *data, size_t len)
{
    size_t n = len < SSL3_RT_MAX_PLAIN_LENGTH ? len : SSL3_RT_MAX_PLAIN_LENGTH;
    int r;

    if (!enter(tls))
        return RELOCK_E_CONN;
    r = result_of(tls, SSL_write_ex(tls->ssl, data, n, &tls->n_sealed));
    relock_tls_guard_exit();
    tls->n_unsent = BIO_ctrl_pending(tls->outside);
    /* Until the rest comes, OpenSSL begins no record. A thread that sends does not receive. */
    if (r == RELOCK_AGAIN)
        return fail(tls, explain(tls, RELOCK_E_CONN, "the server has sent part of a TLS message"));
    return r;
}

int relock_tls_seal(struct relock_tls *tls, const char **bytes, size_t *len)
{
    int r = RELOCK_OK;

    if (BIO_ctrl_pending(tls->outside) == 0)
        r = seal(tls, *bytes, *len);
    *len = peek(tls, bytes);
    return r;
}

size_t relock_tls_sent(struct relock_tls *tls, size_t n)
{
    char *bytes;
    size_t n_sent = tls->n_sealed;

    (void)BIO_nread(tls->outside, &bytes, (int)n);
    tls->n_unsent -= n < tls->n_unsent ? n : tls->n_unsent;
    if (tls->n_unsent > 0)
        return 0;
    tls->n_sealed = 0;
    return n_sent;
}

size_t relock_tls_answer(const struct relock_tls *tls, const char **bytes)
{
    return tls->n_sealed == 0 ? peek(tls, bytes) : 0;
}

void relock_tls_end(struct relock_tls *tls)
{
    if (tls->state == OPEN && enter(tls)) {
        (void)SSL_shutdown(tls->ssl);
        relock_tls_guard_exit();
    }
}
