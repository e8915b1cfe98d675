#include "redis/wire.h"

#include "base/status.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 16384

/* No reply to our commands is as long, has as many elements in an array, or nests arrays as deep.
 */
#define MAX_REPLY_BYTES ((size_t)1 << 20)
#define MAX_REPLY_ELEMENTS 1024
#define MAX_REPLY_DEPTH 8

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

    if (task->type == REDIS_REPLY_ARRAY && n_elements <= MAX_REPLY_ELEMENTS && !is_too_deep(task))
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
    limit->ours.createArray = create_array;
    wire->reader->fn = &limit->ours;
    wire->reader->privdata = limit;
    wire->limit = limit;
    return true;
}

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

int relock_wire_open(struct relock_wire *wire, int fd)
{
    wire->reader = redisReaderCreate();
    if (!wire->reader || !limit_replies(wire)) {
        free_reader(wire);
        close(fd);
        return RELOCK_E_NOMEM;
    }
    /* Keep a large buffer that has become empty, until the connection ends. hiredis would replace
     * it by a small one, and abort when out of memory. */
    wire->reader->maxbuf = 0;
    wire->fd = fd;
    wire->n_unfinished = 0;
    return RELOCK_OK;
}

void relock_wire_close(struct relock_wire *wire)
{
    int fd = wire->fd;

    /* A forked child closes the descriptor that it finds here, so clear it before closing. */
    wire->fd = -1;
    if (fd >= 0) {
        /* A forked child may have a copy of the descriptor: end the connection for both. */
        (void)shutdown(fd, SHUT_RDWR);
        close(fd);
    }
    free_reader(wire);
    relock_buffer_clear(&wire->out);
    wire->sent = 0;
}

static int fail(struct relock_wire *wire, int result, const char *what)
{
    (void)snprintf(wire->why, sizeof(wire->why), "%s: %.180s", wire->label, what);
    return result;
}

static int fail_errno(struct relock_wire *wire)
{
    /* After a signal the socket's timeout would start anew, so the caller checks its deadline. */
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return RELOCK_AGAIN;
    return fail(wire, RELOCK_E_CONN, strerror(errno));
}

int relock_wire_flush(struct relock_wire *wire)
{
    if (wire->out.failed)
        return fail(wire, RELOCK_E_NOMEM, "out of memory for a command");

    if (wire->sent < wire->out.len) {
        ssize_t n =
            send(wire->fd, wire->out.data + wire->sent, wire->out.len - wire->sent, MSG_NOSIGNAL);

        if (n < 0)
            return fail_errno(wire);
        wire->sent += (size_t)n;
    }
    if (wire->sent < wire->out.len)
        return RELOCK_AGAIN;
    relock_buffer_clear(&wire->out);
    wire->sent = 0;
    return RELOCK_OK;
}

int relock_wire_fill(struct relock_wire *wire)
{
    char bytes[READ_BYTES];
    ssize_t n = recv(wire->fd, bytes, sizeof(bytes), 0);

    if (n < 0)
        return fail_errno(wire);
    if (n == 0)
        return fail(wire, RELOCK_E_CONN, "the server closed the connection");
    if (redisReaderFeed(wire->reader, bytes, (size_t)n) != REDIS_OK)
        return fail(wire, RELOCK_E_NOMEM, "out of memory for a reply");
    wire->n_unfinished += (size_t)n;
    if (wire->n_unfinished > MAX_REPLY_BYTES)
        return fail(wire, RELOCK_E_CONN, "the server sent a longer reply than expected");
    return RELOCK_OK;
}

int relock_wire_take(struct relock_wire *wire, struct redisReply **reply)
{
    void *taken = NULL;

    if (redisReaderGetReply(wire->reader, &taken) != REDIS_OK) {
        bool no_memory = wire->reader->err == REDIS_ERR_OOM;

        if (wire->limit->refuses)
            return fail(wire, RELOCK_E_CONN, "the server sent an unexpected reply");
        return fail(wire, no_memory ? RELOCK_E_NOMEM : RELOCK_E_CONN, wire->reader->errstr);
    }
    *reply = taken;
    if (!taken)
        return RELOCK_AGAIN;
    wire->n_unfinished = wire->reader->len - wire->reader->pos;
    return RELOCK_OK;
}

bool relock_wire_is_quiet(const struct relock_wire *wire)
{
    return wire->reader->len == wire->reader->pos;
}
