/*
 * Line - the clients that wait for the lock "orders", as Redis has them
 *
 * A silent client stands in the line and never asks, as one that is stopped: the test hears what
 * the scripts tell it. It does not listen to the channel of the lock. The functions are for locks
 * of kind_now(), see support/kinds.h.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_LINE_H
#define RELOCK_TEST_LINE_H

#include "support/actor.h"
#include "support/kinds.h"
#include "support/listener.h"

#define LINE "relock_waiters:{orders}"
#define LINE_TURN "relock_waiters:turn:{orders}"
#define LINE_INBOX(id) "relock_client:{" id "}"

/* For so long a lock is reserved for the client that was told to acquire it, and so long the first
 * client waits until it listens to the channel of the lock. */
#define LINE_RESERVED_MS 100

/* Ids of silent clients. */
#define SILENT "5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b6a"
#define SILENT2 "c3d94f10-6a7b-4e8c-8d9f-0a1b2c3d4e5f"

#define LINE_ENTRY_MAX 64

/* Clients of which only messages and the times of the line wake waiters, that announce plain locks,
 * and that hand no hold off once it was held for a moment. */
struct relock_client *line_client(struct fixture *f);

/* The same with further options. */
struct relock_client *line_client_with(struct fixture *f, struct relock_options options);

/* The end of entries of the kind, and of the verbs of messages: ":write" for that side. */
const char *line_side(void);

/* Waits until so many clients stand in the line. */
bool line_wait(struct fixture *f, long long n);

/* Waits until the first that was not told listens to the channel of the lock, and has asked since.
 */
bool line_wait_listener(struct fixture *f, const char *entry);

/* The client at place `i`, from 0; "" if there is none. */
void line_entry(struct fixture *f, int i, char entry[LINE_ENTRY_MAX]);

/* Hears what the client with this entry is told, beside that client. */
struct listener *line_listen(struct fixture *f, const char *entry);

/* Tells a client "now orders", say. */
void line_tell(struct fixture *f, const char *entry, const char *message);

/* A silent client joins the line at its end; it hears its messages. */
struct listener *line_join_silent(struct fixture *f, const char *id);

/* Whether a client hears that it is its turn, that it is first, or second. */
bool line_hears_now(struct listener *listener);
bool line_hears_first(struct listener *listener);
bool line_hears_second(struct listener *listener);

/* The actor begins to wait for the lock, and its client is the `n`th in the line on return. */
struct actor *line_begin(struct fixture *f, struct relock_lock *lock, long long n);

/* Before a case of support/kinds.h for each kind whose clients wait in a line. */
#define LINE_TEST(function)                                              \
    KINDS_TEST_OF(function, reentrant), KINDS_TEST_OF(function, fenced), \
        KINDS_TEST_OF(function, plain), KINDS_TEST_OF(function, write)

#endif
