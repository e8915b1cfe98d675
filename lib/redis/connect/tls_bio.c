#include "redis/connect/tls_bio.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

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
