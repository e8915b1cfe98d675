/*
 * Outbox - commands that the I/O thread of a client sends for other threads
 *
 * A thread posts an entry and goes on. The I/O thread sends the entries in the order in which they
 * were posted, all on its one connection, and hands each answer to its entry. So one thread can ask
 * several servers at the same time.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_OUTBOX_H
#define RELOCK_OUTBOX_H

#include "lock/state/client.h"
#include "lock/wake/request.h"

struct redisReply;

/* Each command that is posted embeds it. */
struct relock_outbox_entry {
    const struct relock_outbox_ops *ops;
    struct relock_client *client;
    struct relock_outbox *outbox;
    uint64_t posted_ms;
    bool is_sent;
    struct relock_outbox_entry *next, *prev;
};

/* Each entry ends with one call of `answer` or `drop`, which frees it. Both may unlock the mutex
 * meanwhile. */
struct relock_outbox_ops {
    /* Writes the command. Returns false if it is no longer wanted: then it is not sent. */
    bool (*write)(const struct relock_outbox_entry *entry, struct relock_request *request);

    /* It was sent, on this connection. May be NULL. */
    void (*sent)(struct relock_outbox_entry *entry, struct relock_conn_id *conn_id);

    /*
     * RELOCK_OK and the reply, or the failures of relock_pipeline_call. An entry that is not
     * `is_sent` was never sent; RELOCK_E_CLOSED: because it was no longer wanted.
     */
    void (*answer)(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply);

    /* The client has ended: there will be no answer. */
    void (*drop)(struct relock_client *client, struct relock_outbox_entry *entry);
};

/* The entry has its `ops`. An answer is expected from now on. */
void relock_outbox_post(struct relock_client *client, struct relock_outbox *outbox,
                        struct relock_outbox_entry *entry) RELOCK_REQUIRES(client->mutex);

/* Whether the server has left an entry unanswered for more than `patience_ms` at `now_ms`. */
bool relock_outbox_hangs(const struct relock_outbox *outbox, uint64_t now_ms, uint64_t patience_ms);

bool relock_outbox_is_empty(const struct relock_outbox *outbox);

/* Drops all entries, when the I/O thread has ended. The mutex is unlocked meanwhile. */
void relock_outbox_drop_all(struct relock_client *client, struct relock_outbox *outbox)
    RELOCK_REQUIRES(client->mutex);

#endif
