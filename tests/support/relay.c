#include "support/relay.h"

#include "support/frame.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define REFUSAL "-" PROXY_REFUSAL "\r\n"

struct relay_unanswered {
    struct relay_unanswered *next;
    enum proxy_deed deed;
    void *tag;
};

static void append(struct relay_bytes *bytes, const char *data, size_t n)
{
    if (bytes->n + n > bytes->size) {
        bytes->size = 2 * (bytes->n + n);
        bytes->data = realloc(bytes->data, bytes->size);
        if (!bytes->data)
            abort();
    }
    if (n > 0)
        memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
}

/* For that side. */
static void put(struct relay *relay, enum relay_side side, const char *data, size_t n)
{
    if (relay->seal && side == RELAY_CLIENT)
        seal_write(relay->seal, data, n);
    else
        append(&relay->out[side], data, n);
}

/* Sends the encrypted bytes to the client. */
static void fetch_sealed(struct relay *relay)
{
    char data[16384];
    size_t n;

    while (relay->seal && (n = seal_fetch(relay->seal, data, sizeof(data))) > 0)
        append(&relay->out[RELAY_CLIENT], data, n);
}

/* It has arrived from that side. */
static void take(struct relay *relay, enum relay_side side, const char *data, size_t n)
{
    char opened[16384];

    if (!relay->seal || side == RELAY_SERVER) {
        append(&relay->in[side], data, n);
        return;
    }
    seal_take(relay->seal, data, n);
    while ((n = seal_read(relay->seal, opened, sizeof(opened))) > 0)
        append(&relay->in[side], opened, n);
}

static void drop(struct relay_bytes *bytes, size_t n)
{
    bytes->n -= n;
    if (bytes->n > 0)
        memmove(bytes->data, bytes->data + n, bytes->n);
}

struct relay *relay_new(int client, int server, unsigned number, struct seal *seal,
                        const struct relay_ops *ops, void *arg)
{
    struct relay *relay = calloc(1, sizeof(*relay));

    if (!relay)
        abort();
    relay->number = number;
    relay->seal = seal;
    relay->ops = ops;
    relay->arg = arg;
    relay->fd[RELAY_CLIENT] = client;
    relay->fd[RELAY_SERVER] = server;
    relay->end = &relay->first;
    relay->left = RELAY_UNLIMITED;
    for (int side = 0; side < 2; side++)
        fcntl(relay->fd[side], F_SETFL, fcntl(relay->fd[side], F_GETFL) | O_NONBLOCK);
    return relay;
}

static void push(struct relay *relay, enum proxy_deed deed, void *tag)
{
    struct relay_unanswered *new = malloc(sizeof(*new));

    if (!new)
        abort();
    *new = (struct relay_unanswered){.deed = deed, .tag = tag};
    *relay->end = new;
    relay->end = &new->next;
}

static struct relay_unanswered pop(struct relay *relay)
{
    struct relay_unanswered *first = relay->first;
    struct relay_unanswered popped = {.deed = PROXY_PASS};

    if (!first)
        return popped;
    popped = *first;
    relay->first = first->next;
    if (!relay->first)
        relay->end = &relay->first;
    free(first);
    return popped;
}

/* Commands that the server has not run are dropped. */
static void end_all(struct relay *relay)
{
    if (relay->is_held[RELAY_CLIENT])
        relay->ops->ended(relay->arg, relay->held[RELAY_CLIENT]);
    relay->is_held[RELAY_CLIENT] = false;
    relay->in[RELAY_CLIENT].n = 0;
    while (relay->first) {
        void *tag = pop(relay).tag;

        if (tag)
            relay->ops->ended(relay->arg, tag);
    }
}

struct relay *relay_free(struct relay *relay)
{
    end_all(relay);
    for (int side = 0; side < 2; side++) {
        close(relay->fd[side]);
        transit_deinit(&relay->way[side]);
        free(relay->in[side].data);
        free(relay->out[side].data);
    }
    seal_free(relay->seal);
    free(relay);
    return NULL;
}

static void read_from(struct relay *relay, enum relay_side side)
{
    char data[16384];
    ssize_t n;

    while (!relay->read[side]) {
        n = recv(relay->fd[side], data, sizeof(data), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        relay->read[side] = n <= 0;
        transit_send(&relay->way[side], data, n > 0 ? (size_t)n : 0, now_ms() + relay->delay_ms);
    }
}

static void take_arrived(struct relay *relay, enum relay_side side)
{
    const char *data;
    size_t n;

    while (transit_peek(&relay->way[side], now_ms(), &data, &n)) {
        if (n == 0)
            relay->ended[side] = true;
        else if (side == RELAY_SERVER || !relay->lost[side])
            take(relay, side, data, n);
        transit_take(&relay->way[side]);
    }
}

/* Of a connection that is to break after so many bytes. */
static void use_up(struct relay *relay, size_t n)
{
    relay->left -= relay->left == RELAY_UNLIMITED ? 0 : n;
    relay->cut = relay->cut || relay->left == 0;
}

static void write_to(struct relay *relay, enum relay_side side, bool by_byte)
{
    struct relay_bytes *out = &relay->out[side];
    int unread = 0;

    while (out->n > 0 && !relay->cut) {
        size_t most = side == RELAY_CLIENT && relay->left < out->n ? relay->left : out->n;
        ssize_t n;

        if (by_byte && ioctl(relay->fd[side], SIOCOUTQ, &unread) == 0 && unread > 0)
            return;
        n = send(relay->fd[side], out->data, by_byte ? 1 : most, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0 && side == RELAY_CLIENT)
            use_up(relay, (size_t)n);
        drop(out, n < 0 ? out->n : (size_t)n); /* a side that has hung up reads no more */
    }
}

/* Moves the first frame that was read from a side to the other, if it gets there. */
static void pass(struct relay *relay, enum relay_side side, size_t size)
{
    if (!relay->lost[side])
        put(relay, !side, relay->in[side].data, size);
    drop(&relay->in[side], size);
}

static size_t whole_frame(const struct relay *relay, enum relay_side side)
{
    ssize_t size = frame_length(relay->in[side].data, relay->in[side].n);

    if (size < 0) {
        fprintf(stderr, "relay: this is no frame: %.*s\n", (int)relay->in[side].n,
                relay->in[side].data);
        abort();
    }
    return (size_t)size;
}

static void hold(struct relay *relay, enum relay_side side, void *tag)
{
    relay->is_held[side] = true;
    relay->held[side] = tag;
}

static void take_command(struct relay *relay, size_t size)
{
    void *tag = NULL;
    enum proxy_deed deed =
        relay->ops->command(relay->arg, relay->number, relay->in[RELAY_CLIENT].data, size, &tag);

    switch (deed) {
    case PROXY_HOLD:
        hold(relay, RELAY_CLIENT, tag);
        break;
    case PROXY_LOSE:
        relay->lost[RELAY_CLIENT] = true;
        relay->lost[RELAY_SERVER] = true;
        relay->in[RELAY_CLIENT].n = 0;
        relay->ops->ended(relay->arg, tag);
        break;
    case PROXY_CUT:
        relay->cut = true;
        relay->ops->ended(relay->arg, tag);
        break;
    case PROXY_REFUSE: /* the answer to a PING in its place tells when it is its turn */
        push(relay, deed, tag);
        put(relay, RELAY_SERVER, "PING\r\n", strlen("PING\r\n"));
        drop(&relay->in[RELAY_CLIENT], size);
        break;
    case PROXY_PASS:
    case PROXY_HOLD_REPLY:
    case PROXY_SWALLOW:
    case PROXY_CUT_UNANSWERED:
    case PROXY_CUT_ANSWERED:
        push(relay, deed, tag);
        pass(relay, RELAY_CLIENT, size);
        break;
    }
}

static void take_reply(struct relay *relay, size_t size)
{
    const char *frame = relay->in[RELAY_SERVER].data;
    struct relay_unanswered of = {.deed = PROXY_PASS};

    if (!frame_is_message(frame, size)) {
        of = pop(relay);
        relay->ops->reply(relay->arg, relay->number, of.tag, frame, size);
    }
    if (of.deed == PROXY_HOLD_REPLY) {
        hold(relay, RELAY_SERVER, of.tag);
        return;
    }
    if (of.deed == PROXY_REFUSE) {
        if (!relay->lost[RELAY_SERVER])
            put(relay, RELAY_CLIENT, REFUSAL, strlen(REFUSAL));
        drop(&relay->in[RELAY_SERVER], size);
        return;
    }
    if (of.deed == PROXY_SWALLOW || of.deed == PROXY_CUT_UNANSWERED)
        relay->lost[RELAY_SERVER] = true;
    pass(relay, RELAY_SERVER, size);
    if (of.deed == PROXY_CUT_ANSWERED)
        relay->lost[RELAY_SERVER] = true;
    if (of.deed == PROXY_CUT_ANSWERED || of.deed == PROXY_CUT_UNANSWERED)
        relay->last_answer = true;
}

static void take_frames(struct relay *relay)
{
    size_t size;

    while (!relay->is_held[RELAY_CLIENT] && !relay->cut &&
           (size = whole_frame(relay, RELAY_CLIENT)) > 0)
        take_command(relay, size);
    while (!relay->is_held[RELAY_SERVER] && (size = whole_frame(relay, RELAY_SERVER)) > 0)
        take_reply(relay, size);
}

/* Passes on the end of one side once all bytes before it have arrived at the other. */
static bool is_over(const struct relay *relay)
{
    bool all_read = relay->out[RELAY_CLIENT].n == 0 && !relay->is_held[RELAY_SERVER];

    if (relay->last_answer && all_read)
        return true;
    if (relay->ended[RELAY_SERVER] && (relay->ended[RELAY_CLIENT] || !relay->lost[RELAY_SERVER]))
        return all_read || relay->ended[RELAY_CLIENT];
    return relay->ended[RELAY_CLIENT] && !relay->is_held[RELAY_CLIENT] &&
           !relay->lost[RELAY_CLIENT] && relay->out[RELAY_SERVER].n == 0 && !relay->first;
}

bool relay_step(struct relay *relay, bool by_byte)
{
    if (relay->cut)
        return false;
    if (relay->stalled)
        return true;
    for (int side = 0; side < 2; side++) {
        read_from(relay, side);
        take_arrived(relay, side);
    }
    take_frames(relay);
    fetch_sealed(relay);
    write_to(relay, RELAY_SERVER, false);
    write_to(relay, RELAY_CLIENT, by_byte);
    if (relay->ended[RELAY_SERVER])
        end_all(relay);
    return !relay->cut && !is_over(relay);
}

short relay_events(const struct relay *relay, enum relay_side side, bool by_byte)
{
    short events = 0;

    if (relay->stalled)
        return 0;
    if (!relay->read[side])
        events |= POLLIN;
    if (relay->out[side].n > 0 && !(by_byte && side == RELAY_CLIENT))
        events |= POLLOUT;
    return events;
}

uint64_t relay_due_ms(const struct relay *relay)
{
    uint64_t client_ms = transit_due_ms(&relay->way[RELAY_CLIENT]);
    uint64_t server_ms = transit_due_ms(&relay->way[RELAY_SERVER]);

    if (relay->stalled)
        return UINT64_MAX;
    return client_ms < server_ms ? client_ms : server_ms;
}

void relay_let_go(struct relay *relay, const void *tag)
{
    for (int side = 0; side < 2; side++) {
        if (!relay->is_held[side] || relay->held[side] != tag)
            continue;
        relay->is_held[side] = false;
        if (side == RELAY_CLIENT)
            push(relay, PROXY_PASS, relay->held[side]);
        pass(relay, side, whole_frame(relay, side));
    }
}

void relay_forget_tags(struct relay *relay)
{
    for (struct relay_unanswered *at = relay->first; at; at = at->next)
        *at = (struct relay_unanswered){.next = at->next, .deed = PROXY_PASS};
}

bool relay_is_troubled(const struct relay *relay)
{
    return relay->stalled || relay->lost[RELAY_CLIENT] || relay->lost[RELAY_SERVER] ||
           relay->is_held[RELAY_CLIENT] || relay->is_held[RELAY_SERVER];
}
