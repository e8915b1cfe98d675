/*
 * Relay - one connection through a proxy
 *
 * Two sockets, and the bytes read from one and not yet written to the other. The owner of
 * the relay decides on each command with a deed and a tag, and learns the outcome by the tag.
 *
 * Threads: one at a time. Nothing blocks.
 */
#ifndef RELOCK_TEST_RELAY_H
#define RELOCK_TEST_RELAY_H

#include "support/proxy.h"
#include "support/seal.h"
#include "support/transit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_UNLIMITED SIZE_MAX

enum relay_side { RELAY_CLIENT, RELAY_SERVER };

struct relay_ops {
    /* A command came. The tag is NULL or written. */
    enum proxy_deed (*command)(void *arg, unsigned number, const char *frame, size_t size,
                               void **tag);
    /* A reply to it. */
    void (*reply)(void *arg, unsigned number, void *tag, const char *frame, size_t size);
    void (*ended)(void *arg, void *tag); /* the server will not run it */
};

struct relay_bytes {
    char *data;
    size_t n, size;
};

struct relay_unanswered;

struct relay {
    struct relay *next; /* the owner's, like those down to the delay */
    unsigned number;
    bool stalled;
    bool cut;
    uint64_t delay_ms; /* the bytes read arrive so much later */

    const struct relay_ops *ops;
    void *arg;
    int fd[2];
    struct seal *seal;         /* of the client; NULL: none */
    struct transit way[2];     /* read from that side */
    bool read[2];              /* all of it, for that side has hung up */
    struct relay_bytes in[2];  /* arrived, and not looked at */
    struct relay_bytes out[2]; /* to be written to that side */
    bool ended[2];             /* that has arrived too */
    bool lost[2];              /* the bytes of that side do not reach the other */
    bool is_held[2];           /* the first frame that was read from that side stays there */
    void *held[2];             /* its tag */
    bool last_answer;          /* ends once all bytes are written */
    size_t left;               /* bytes that may go to the client; then it ends */
    struct relay_unanswered *first, **end; /* commands that went to the server, in order */
};

/* Takes the sockets and the seal; NULL: the client sends plain text. */
struct relay *relay_new(int client, int server, unsigned number, struct seal *seal,
                        const struct relay_ops *ops, void *arg);
struct relay *relay_free(struct relay *relay);

/* Reads, looks and writes, as far as that goes. False: it is over. */
bool relay_step(struct relay *relay, bool by_byte);

/* The events to wait for on a side. */
short relay_events(const struct relay *relay, enum relay_side side, bool by_byte);

/* When it is to be looked at again, though there is no event; UINT64_MAX: never. */
uint64_t relay_due_ms(const struct relay *relay);

/* Sends the bytes that are kept back under this tag. */
void relay_let_go(struct relay *relay, const void *tag);

/* The objects behind the tags end: replies that are still to come pass, without a call. */
void relay_forget_tags(struct relay *relay);

/* Whether the trouble of a deed is still on this connection. */
bool relay_is_troubled(const struct relay *relay);

#endif
