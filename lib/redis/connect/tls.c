/*
 *     state     next     when
 *     SHAKING   OPEN     the handshake is complete, and the name of the server was checked
 *     each      FAILED   OpenSSL or the socket has failed, or the connection has ended
 */
#include "redis/connect/tls.h"

#include "base/status.h"
#include "redis/connect/tls_bio.h"
#include "redis/connect/tls_error.h"
#include "redis/server/tls_context.h"
#include "redis/server/tls_guard.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

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
