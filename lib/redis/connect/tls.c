/*
 *     state     next     when
 *     SHAKING   OPEN     the handshake is complete, and the name of the server was checked
 *     each      FAILED   OpenSSL or the socket has failed, or the connection has ended
 */
#include "redis/connect/tls.h"

#include "base/status.h"
#include "redis/server/tls_context.h"
#include "redis/server/tls_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

int relock_tls_error(const struct ssl_st *ssl, const char *name, bool was_asked,
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

/* ---- the socket for OpenSSL ---------------------------------------------------------------- */

/* Each record of TLS begins with its type; other bytes are not TLS. */
#define RECORD_ALERT 21
#define RECORD_HANDSHAKE 22

static int try_again(BIO *handle, int retry)
{
    BIO_set_flags(handle, retry | BIO_FLAGS_SHOULD_RETRY);
    return -1;
}

static int on_errno(struct relock_tls_bio *bio, BIO *handle, int retry)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return try_again(handle, retry);
    bio->err = errno;
    return -1;
}

static int bio_write(BIO *handle, const char *data, int len)
{
    struct relock_tls_bio *bio = BIO_get_data(handle);
    ssize_t n;

    BIO_clear_retry_flags(handle);
    if (bio->step != RELOCK_TLS_BIO_UNSENT)
        return try_again(handle, BIO_FLAGS_WRITE);
    n = send(bio->fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    bio->step = n < 0 ? RELOCK_TLS_BIO_FULL : RELOCK_TLS_BIO_SENT;
    return n < 0 ? on_errno(bio, handle, BIO_FLAGS_WRITE) : (int)n;
}

static int receive(struct relock_tls_bio *bio, BIO *handle, char *data, int len)
{
    ssize_t n = recv(bio->fd, data, (size_t)len, MSG_DONTWAIT);

    if (n < 0)
        return on_errno(bio, handle, BIO_FLAGS_READ);
    bio->is_ended = n == 0;
    if (n > 0 && bio->peer == RELOCK_TLS_BIO_UNHEARD)
        bio->peer = *data == RECORD_HANDSHAKE || *data == RECORD_ALERT ? RELOCK_TLS_BIO_TLS
                                                                       : RELOCK_TLS_BIO_PLAIN;
    return bio->peer == RELOCK_TLS_BIO_PLAIN ? -1 : (int)n;
}

static int bio_read(BIO *handle, char *data, int len)
{
    struct relock_tls_bio *bio = BIO_get_data(handle);
    size_t n = (size_t)len < bio->n_in ? (size_t)len : bio->n_in;

    BIO_clear_retry_flags(handle);
    if (bio->may_receive)
        return receive(bio, handle, data, len);
    if (n == 0)
        return try_again(handle, BIO_FLAGS_READ);
    memcpy(data, bio->in, n);
    bio->in += n;
    bio->n_in -= n;
    return (int)n;
}

static long bio_ctrl(BIO *handle, int command, long number, void *arg)
{
    (void)handle;
    (void)number;
    (void)arg;
    return command == BIO_CTRL_FLUSH; /* nothing is buffered; there is nothing else to control */
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "relock");

    if (!method)
        return NULL;
    (void)BIO_meth_set_write(method, bio_write);
    (void)BIO_meth_set_read(method, bio_read);
    (void)BIO_meth_set_ctrl(method, bio_ctrl);
    return method;
}

BIO *relock_tls_bio_init(struct relock_tls_bio *bio, int fd)
{
    BIO *handle;

    *bio = (struct relock_tls_bio){.method = make_method(), .fd = fd, .may_receive = true};
    handle = bio->method ? BIO_new(bio->method) : NULL;
    if (!handle)
        return NULL;
    BIO_set_data(handle, bio);
    BIO_set_init(handle, 1);
    return handle;
}

void relock_tls_bio_deinit(struct relock_tls_bio *bio)
{
    BIO_meth_free(bio->method);
}

enum state {
    SHAKING, /* in the handshake */
    OPEN,
    FAILED, /* `why` has the cause */
};

struct relock_tls {
    struct relock_tls_context *context;
    SSL *ssl;
    struct relock_tls_bio bio;
    enum state state;
    bool was_asked;   /* by the server, for a certificate */
    bool has_read;    /* bytes that were encrypted */
    size_t n_pending; /* bytes of the record that was not sent completely */
    struct relock_tls_verified verified;
    char why[RELOCK_WHY_MAX];
};

/* ---- life ---------------------------------------------------------------------------------- */

/* The server asks for a certificate. Returns 1: go on, if need be without. */
static int on_cert_request(SSL *ssl, void *arg)
{
    struct relock_tls *tls = arg;

    (void)ssl;
    tls->was_asked = true;
    return 1;
}

/* Between relock_tls_guard_enter and leave. */
static bool init(struct relock_tls *tls, int fd)
{
    BIO *bio = relock_tls_bio_init(&tls->bio, fd);

    tls->ssl = bio ? relock_tls_context_begin(tls->context, &tls->verified) : NULL;
    if (!tls->ssl) {
        BIO_free(bio);
        return false;
    }
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_cert_cb(tls->ssl, on_cert_request, tls);
    SSL_set_connect_state(tls->ssl);
    return true;
}

struct relock_tls *relock_tls_new(const struct relock_server *server, int fd)
{
    struct relock_tls *tls = calloc(1, sizeof(*tls));
    bool done = false;

    if (!tls)
        return NULL;
    tls->context = server->tls;
    if (relock_tls_guard_enter()) {
        done = init(tls, fd);
        relock_tls_guard_leave();
    }
    return done ? tls : relock_tls_free(tls);
}

/* Between relock_tls_guard_enter and leave. */
static void deinit(struct relock_tls *tls)
{
    tls->bio.step = RELOCK_TLS_BIO_UNSENT;
    if (tls->ssl && tls->state != FAILED && SSL_is_init_finished(tls->ssl))
        (void)SSL_shutdown(tls->ssl);
    SSL_free(tls->ssl);
    relock_tls_bio_deinit(&tls->bio);
}

struct relock_tls *relock_tls_free(struct relock_tls *tls)
{
    if (!tls)
        return NULL;
    if (relock_tls_guard_enter()) {
        deinit(tls);
        relock_tls_guard_leave();
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

/* The socket has failed or ended. */
static int explain_end(struct relock_tls *tls)
{
    const char *what =
        tls->bio.err ? relock_status_errno(tls->bio.err) : "the server closed the connection";
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
        relock_tls_error(tls->ssl, relock_tls_context_name(tls->context), tls->was_asked, tls->why);

    return r == RELOCK_E_AUTH && tls->has_read ? RELOCK_E_CONN : r;
}

static int find_cause(struct relock_tls *tls, int error)
{
    if (tls->bio.peer == RELOCK_TLS_BIO_PLAIN)
        return explain(tls, RELOCK_E_CONN,
                       "the server does not speak TLS on this port: use redis://, or its TLS port");
    if (tls->bio.err || tls->bio.is_ended || error == SSL_ERROR_ZERO_RETURN)
        return explain_end(tls);
    return explain_error(tls);
}

/* After `why` has got the cause, which depends on the state. */
static int fail(struct relock_tls *tls, int result)
{
    tls->state = FAILED;
    return result;
}

/* `done` is what a function of OpenSSL has returned. */
static int result_of(struct relock_tls *tls, int done)
{
    int error = SSL_get_error(tls->ssl, done);

    if (error == SSL_ERROR_NONE)
        return RELOCK_OK;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return RELOCK_AGAIN;
    return fail(tls, find_cause(tls, error));
}

/* ---- steps --------------------------------------------------------------------------------- */

/* Returns false if OpenSSL has ended. */
static bool enter(struct relock_tls *tls)
{
    tls->bio.step = RELOCK_TLS_BIO_UNSENT;
    if (!relock_tls_guard_enter()) {
        (void)explain(tls, RELOCK_E_CONN, "OpenSSL has ended, because this process ends");
        return false;
    }
    return true;
}

static int check_name(struct relock_tls *tls)
{
    if (relock_tls_context_has_name(tls->context, tls->ssl))
        return RELOCK_OK;
    return fail(tls,
                explain(tls, RELOCK_E_NOMEM, "out of memory to check the server's certificate"));
}

int relock_tls_shake(struct relock_tls *tls)
{
    int r;

    if (!enter(tls))
        return RELOCK_E_CONN;
    r = result_of(tls, SSL_do_handshake(tls->ssl));
    if (r == RELOCK_OK)
        r = check_name(tls);
    if (r == RELOCK_OK) {
        tls->state = OPEN;
        tls->bio.may_receive = false;
    } else if (r < 0) {
        relock_tls_context_forget(tls->context);
    }
    relock_tls_guard_leave();
    return r;
}

bool relock_tls_wants_to_write(const struct relock_tls *tls)
{
    return SSL_want_write(tls->ssl);
}

void relock_tls_describe(const struct relock_tls *tls, char out[RELOCK_WHY_MAX])
{
    (void)snprintf(out, RELOCK_WHY_MAX, "%s, %s%s", SSL_get_version(tls->ssl),
                   SSL_get_cipher_name(tls->ssl),
                   SSL_session_reused(tls->ssl) ? ", session resumed" : "");
}

/* A server that requires a certificate may close the connection before we send, but says why.
 * Between relock_tls_guard_enter and leave. */
static int hear_why(struct relock_tls *tls, int result)
{
    char byte;
    size_t n;

    tls->bio.may_receive = true;
    ERR_clear_error();
    (void)SSL_read_ex(tls->ssl, &byte, 1, &n);
    return ERR_peek_error() ? explain_error(tls) : result;
}

static size_t size_of_record(const struct relock_tls *tls, size_t len)
{
    if (tls->n_pending > 0)
        return tls->n_pending;
    return len < SSL3_RT_MAX_PLAIN_LENGTH ? len : SSL3_RT_MAX_PLAIN_LENGTH;
}

/* As send(2) on a blocking socket, which would block inside OpenSSL. */
static void wait_for_room(const struct relock_tls *tls)
{
    struct pollfd pollfd = {.fd = tls->bio.fd, .events = POLLOUT};
    struct timeval limit = {0};
    socklen_t len = sizeof(limit);
    int limit_ms;

    if (fcntl(tls->bio.fd, F_GETFL) & O_NONBLOCK)
        return;
    (void)getsockopt(tls->bio.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, &len);
    limit_ms = (int)(limit.tv_sec * 1000 + limit.tv_usec / 1000);
    (void)poll(&pollfd, 1, limit_ms > 0 ? limit_ms : -1);
}

/* Until the rest comes, OpenSSL neither begins nor completes a record. A thread that sends
 * does not receive. */
static int stop_at_part(struct relock_tls *tls)
{
    return fail(tls, explain(tls, RELOCK_E_CONN, "the server has sent part of a TLS message"));
}

/* Passes one record at a time to OpenSSL. Of several, OpenSSL does not tell that the first was sent
 * if the next was not: its commands would count as unsent, and the server would run them. */
int relock_tls_send(struct relock_tls *tls, const char *data, size_t len, size_t *sent)
{
    size_t n = size_of_record(tls, len);
    int r;

    if (!enter(tls))
        return RELOCK_E_CONN;
    r = result_of(tls, SSL_write_ex(tls->ssl, data, n, sent));
    if (r == RELOCK_AGAIN && SSL_want_read(tls->ssl))
        r = stop_at_part(tls);
    if (r < 0 && tls->was_asked && !tls->has_read)
        r = hear_why(tls, r);
    relock_tls_guard_leave();
    tls->n_pending = r == RELOCK_AGAIN ? n : 0;
    if (r == RELOCK_AGAIN && tls->bio.step == RELOCK_TLS_BIO_FULL)
        wait_for_room(tls);
    return r;
}

void relock_tls_feed(struct relock_tls *tls, const char *bytes, size_t len)
{
    tls->bio.in = bytes;
    tls->bio.n_in = len;
}

int relock_tls_read(struct relock_tls *tls, char *data, size_t size, size_t *len)
{
    int r;

    if (tls->bio.n_in == 0 && !SSL_has_pending(tls->ssl))
        return RELOCK_AGAIN;
    if (!enter(tls))
        return RELOCK_E_CONN;
    r = result_of(tls, SSL_read_ex(tls->ssl, data, size, len));
    relock_tls_guard_leave();
    if (r == RELOCK_OK)
        tls->has_read = true;
    /* OpenSSL answers the server's messages while it reads. The bytes that were fed do not live
     * until it can. */
    if (r == RELOCK_AGAIN && tls->bio.n_in > 0)
        return fail(tls, explain(tls, RELOCK_E_CONN,
                                 "the server does not take answers to its TLS messages"));
    return r;
}

int relock_tls_socket_failed(struct relock_tls *tls, int err)
{
    tls->bio.err = err;
    return fail(tls, explain_end(tls));
}
