#include "redis/connect/connect.h"
#include "redis/connect/private.h"

#include "base/descriptor.h"
#include "base/status.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_BYTES 16384
#define PLAIN_BYTES 4096 /* decrypted at a time, beside those on the stack */

/* The first byte of the message with which a TLS server rejects what is not TLS. */
#define TLS_ALERT '\x15'

/* No reply to our commands is as long, has as many elements in an array, or nests arrays as deep.
 */
#define MAX_REPLY_BYTES ((size_t)1 << 20)
#define MAX_REPLY_ELEMENTS 1024
#define MAX_REPLY_DEPTH 8

/* With one exception: CLUSTER SLOTS may list every slot by itself, each with a master and replicas,
 * in 5 MB. As objects of hiredis, bytes of a hostile server need twenty times as much memory. */
#define MAX_LONG_BYTES ((size_t)1 << 23)
#define MAX_LONG_ELEMENTS 16384

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

/*
 * The reader of hiredis before 1.0 accepts any length: a dozen bytes make it allocate and scan 16
 * GB. Versions 1.0 to 1.4 accept any depth: every few bytes are another nested array, and the reply
 * is freed recursively, on a stack that may be small. From 1.0 on it also accepts the pushes, maps
 * and sets of RESP3, which we do not use, and 1.0.0 aborts on a nil in a push. So for all these the
 * reader calls a function of ours, which makes only arrays that our commands can have as replies.
 */
struct relock_wire_limit {
    redisReplyObjectFunctions ours;
    redisReplyObjectFunctions *theirs;
    size_t n_elements; /* of an array, at most */
    bool refuses;
};

static bool is_too_deep(const redisReadTask *task)
{
    size_t depth = 1;

    while (depth < MAX_REPLY_DEPTH && task->parent) {
        task = task->parent;
        depth++;
    }
    return depth == MAX_REPLY_DEPTH;
}

static void *create_array(const redisReadTask *task, element_count n_elements)
{
    struct relock_wire_limit *limit = task->privdata;

    if (task->type == REDIS_REPLY_ARRAY && (size_t)n_elements <= limit->n_elements &&
        !is_too_deep(task))
        return limit->theirs->createArray(task, n_elements);
    limit->refuses = true;
    return NULL;
}

static bool limit_replies(struct relock_wire *wire)
{
    struct relock_wire_limit *limit = malloc(sizeof(*limit));

    if (!limit)
        return false;
    *limit = (struct relock_wire_limit){.ours = *wire->reader->fn, .theirs = wire->reader->fn};
    limit->n_elements = wire->takes_long ? MAX_LONG_ELEMENTS : MAX_REPLY_ELEMENTS;
    limit->ours.createArray = create_array;
    wire->reader->fn = &limit->ours;
    wire->reader->privdata = limit;
    wire->limit = limit;
    return true;
}

/* ---- the socket ---------------------------------------------------------------------------- */

/* Sends what TLS says by itself, as far as that is possible at once. */
static void answer(struct relock_socket socket)
{
    const char *bytes;
    size_t len = relock_tls_answer(socket.tls, &bytes);
    ssize_t n = len > 0 ? send(socket.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

    if (n > 0)
        (void)relock_tls_sent(socket.tls, (size_t)n);
}

/* A signal, or the socket's timeout, which would start anew: the caller checks its deadline. */
static bool is_passing(int err)
{
    return err == EAGAIN || err == EWOULDBLOCK || err == EINTR;
}

int relock_socket_shake(struct relock_socket socket)
{
    char bytes[READ_BYTES];
    ssize_t n = recv(socket.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    int r;

    if (n == 0 || (n < 0 && !is_passing(errno)))
        return relock_tls_socket_failed(socket.tls, n < 0 ? errno : 0);
    if (n > 0)
        relock_tls_feed(socket.tls, bytes, (size_t)n);
    r = relock_tls_shake(socket.tls);
    answer(socket);
    return r;
}

static struct relock_tls *end_tls(struct relock_socket socket)
{
    if (socket.tls) {
        relock_tls_end(socket.tls);
        answer(socket);
    }
    return relock_tls_free(socket.tls);
}

/* A forked child may have a copy of the descriptor: end the connection for both. */
static void close_descriptor(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
    (void)relock_descriptor_close(fd);
}

void relock_socket_close(struct relock_socket socket)
{
    (void)end_tls(socket);
    close_descriptor(socket.fd);
}

/* ---- life ---------------------------------------------------------------------------------- */

void relock_wire_init(struct relock_wire *wire, const char *label)
{
    *wire = (struct relock_wire){.label = label, .fd = -1};
}

void relock_wire_deinit(struct relock_wire *wire)
{
    relock_wire_close(wire);
    relock_buffer_deinit(&wire->out);
}

static void free_reader(struct relock_wire *wire)
{
    if (wire->reader)
        redisReaderFree(wire->reader);
    wire->reader = NULL;
    free(wire->limit);
    wire->limit = NULL;
}

int relock_wire_open(struct relock_wire *wire, struct relock_socket socket)
{
    wire->reader = redisReaderCreate();
    if (!wire->reader || !limit_replies(wire)) {
        free_reader(wire);
        relock_socket_close(socket);
        return RELOCK_E_NOMEM;
    }
    /* Keep a large buffer that has become empty, until the connection ends. hiredis would replace
     * it by a small one, and abort when out of memory. */
    wire->reader->maxbuf = 0;
    wire->fd = socket.fd;
    wire->tls = socket.tls;
    wire->has_received = false;
    wire->stranger = NULL;
    wire->awaited = NULL;
    wire->n_unfinished = 0;
    return RELOCK_OK;
}

void relock_wire_close(struct relock_wire *wire)
{
    wire->tls = end_tls((struct relock_socket){wire->fd, wire->tls});
    if (wire->fd >= 0)
        close_descriptor(wire->fd);
    wire->fd = -1;
    free_reader(wire);
    relock_buffer_clear(&wire->out);
    wire->sent = 0;
}

struct relock_socket relock_wire_release(struct relock_wire *wire)
{
    struct relock_socket socket = {.fd = wire->fd, .tls = wire->tls};

    wire->tls = NULL;
    wire->fd = -1;
    relock_wire_close(wire);
    return socket;
}

static int fail(struct relock_wire *wire, int result, const char *what)
{
    (void)snprintf(wire->why, sizeof(wire->why), "%s: %.180s", wire->label, what);
    return result;
}

static int fail_tls(struct relock_wire *wire, int result)
{
    return fail(wire, result, relock_tls_why(wire->tls));
}

static bool is_network(int fd)
{
    int domain = AF_UNIX;
    socklen_t len = sizeof(domain);

    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    return domain != AF_UNIX;
}

/* The socket has failed; `err` 0: the server has closed it. */
static int fail_socket(struct relock_wire *wire, int err)
{
    char what[RELOCK_WHY_MAX];
    bool may_be_tls = !wire->has_received && is_network(wire->fd);

    if (wire->tls)
        return fail_tls(wire, relock_tls_socket_failed(wire->tls, err));
    (void)snprintf(what, sizeof(what), "%.100s%s%s%s",
                   err ? strerror(err) : "the server closed the connection",
                   wire->awaited ? " before it answered " : "", wire->awaited ? wire->awaited : "",
                   may_be_tls ? "; if it speaks TLS on this port, use rediss://" : "");
    return fail(wire, RELOCK_E_CONN, what);
}

static int fail_errno(struct relock_wire *wire)
{
    return is_passing(errno) ? RELOCK_AGAIN : fail_socket(wire, errno);
}

/* Sends what it can. Returns RELOCK_OK, RELOCK_AGAIN, or a failure. */
static int send_some(struct relock_wire *wire)
{
    const char *bytes = wire->out.data + wire->sent;
    size_t len = wire->out.len - wire->sent;
    int r = wire->tls ? relock_tls_seal(wire->tls, &bytes, &len) : RELOCK_OK;
    ssize_t n;

    if (r < 0)
        return fail_tls(wire, r);
    n = send(wire->fd, bytes, len, MSG_NOSIGNAL);
    if (n < 0)
        return fail_errno(wire);
    wire->sent += wire->tls ? relock_tls_sent(wire->tls, (size_t)n) : (size_t)n;
    return RELOCK_OK;
}

int relock_wire_flush(struct relock_wire *wire)
{
    int r = RELOCK_OK;

    if (wire->out.failed)
        return fail(wire, RELOCK_E_NOMEM, "out of memory for a command");

    if (wire->sent < wire->out.len)
        r = send_some(wire);
    if (r != RELOCK_OK)
        return r;
    if (wire->sent < wire->out.len)
        return RELOCK_AGAIN;
    relock_buffer_clear(&wire->out);
    wire->sent = 0;
    return RELOCK_OK;
}

int relock_wire_send_beside(struct relock_wire *wire, size_t *n_sent)
{
    const struct relock_buffer *out = &wire->out;
    int r = RELOCK_E_NOMEM;
    ssize_t n;

    *n_sent = 0;
    if (!out->failed) {
        n = send(wire->fd, out->data, out->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        r = n < 0 && !is_passing(errno) ? RELOCK_E_CONN : RELOCK_AGAIN;
        *n_sent = n > 0 ? (size_t)n : 0;
    }
    if (out->failed || *n_sent < out->len) {
        (void)shutdown(wire->fd, SHUT_RDWR);
        return r;
    }
    relock_buffer_clear(&wire->out);
    return RELOCK_OK;
}

/* From the first bytes. NULL: they may be of Redis. */
static const char *find_stranger(const struct relock_wire *wire, const char *bytes, size_t n)
{
    if (!wire->tls && bytes[0] == TLS_ALERT)
        return "the server speaks TLS on this port: use rediss://";
    if (n >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
        return "the server speaks HTTP on this port: use the host and port of Redis";
    return NULL;
}

static int feed(struct relock_wire *wire, const char *bytes, size_t n)
{
    if (!wire->has_received)
        wire->stranger = find_stranger(wire, bytes, n);
    wire->has_received = true;
    if (redisReaderFeed(wire->reader, bytes, n) != REDIS_OK)
        return fail(wire, RELOCK_E_NOMEM, "out of memory for a reply");
    wire->n_unfinished += n;
    if (wire->n_unfinished > (wire->takes_long ? MAX_LONG_BYTES : MAX_REPLY_BYTES))
        return fail(wire, RELOCK_E_CONN, "the server sent a longer reply than expected");
    return RELOCK_OK;
}

/* Decrypts all that was fed. Returns RELOCK_AGAIN if that holds no reply: OpenSSL has kept or
 * handled it. */
static int decrypt(struct relock_wire *wire)
{
    char plain[PLAIN_BYTES];
    int result = RELOCK_AGAIN;
    size_t n;
    int r;

    while ((r = relock_tls_read(wire->tls, plain, sizeof(plain), &n)) == RELOCK_OK) {
        result = feed(wire, plain, n);
        if (result < 0)
            return result;
    }
    answer((struct relock_socket){wire->fd, wire->tls});
    if (r == RELOCK_AGAIN)
        return result;
    if (result == RELOCK_AGAIN)
        return fail_tls(wire, r);
    /* Replies came before the failure. Let the next call meet the end of the connection. */
    (void)shutdown(wire->fd, SHUT_RD);
    return RELOCK_OK;
}

static int take_in(struct relock_wire *wire, const char *bytes, size_t n)
{
    if (!wire->tls)
        return feed(wire, bytes, n);
    relock_tls_feed(wire->tls, bytes, n);
    return decrypt(wire);
}

static int fill(struct relock_wire *wire, int flags)
{
    char bytes[READ_BYTES];
    ssize_t n;

    /* The first bytes may have come with the last ones of the handshake. */
    if (wire->tls && !wire->has_received) {
        int r = decrypt(wire);

        if (r != RELOCK_AGAIN)
            return r;
    }
    n = recv(wire->fd, bytes, sizeof(bytes), flags);
    if (n < 0)
        return fail_errno(wire);
    return n == 0 ? fail_socket(wire, 0) : take_in(wire, bytes, (size_t)n);
}

int relock_wire_fill(struct relock_wire *wire)
{
    return fill(wire, 0);
}

int relock_wire_fill_at_once(struct relock_wire *wire)
{
    return fill(wire, MSG_DONTWAIT);
}

bool relock_wire_has_ended(struct relock_wire *wire)
{
    char bytes[READ_BYTES];
    ssize_t n = recv(wire->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n < 0)
        return errno != EAGAIN && errno != EWOULDBLOCK;
    /* Messages of TLS itself may come at any time. */
    return n == 0 || take_in(wire, bytes, (size_t)n) != RELOCK_AGAIN;
}

int relock_wire_take(struct relock_wire *wire, struct redisReply **reply)
{
    void *taken = NULL;

    if (redisReaderGetReply(wire->reader, &taken) != REDIS_OK) {
        bool no_memory = wire->reader->err == REDIS_ERR_OOM;

        if (wire->limit->refuses)
            return fail(wire, RELOCK_E_CONN, "the server sent an unexpected reply");
        if (wire->stranger)
            return fail(wire, RELOCK_E_CONN, wire->stranger);
        return fail(wire, no_memory ? RELOCK_E_NOMEM : RELOCK_E_CONN, wire->reader->errstr);
    }
    *reply = taken;
    if (!taken)
        return RELOCK_AGAIN;
    wire->n_unfinished = wire->reader->len - wire->reader->pos;
    return RELOCK_OK;
}

int relock_wire_fail(struct relock_wire *wire, const char *what)
{
    return fail(wire, RELOCK_E_CONN, what);
}

bool relock_wire_is_quiet(const struct relock_wire *wire)
{
    return wire->reader->len == wire->reader->pos;
}
