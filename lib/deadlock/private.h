/*
 * Private - what the files of lib/deadlock share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_DEADLOCK_PRIVATE_H
#define RELOCK_DEADLOCK_PRIVATE_H

#include "base/ident.h"
#include "base/timer.h"
#include "deadlock/published.h"
#include "lock/state/client.h"
#include "lock/state/keys.h"
#include "lock/state/resource.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- wait graph ------------------------------------------------------------------------------ */

/*
 * Wait graph - owners that wait for locks, and owners that hold these, as one look has found them
 *
 * A wait for a lock is blocked if the owner of one hold in its way is. A wait for permits is
 * blocked if those that blocked owners do not have are fewer than it needs. A search takes out the
 * waits that are not blocked, until none is left: those that remain are deadlocked.
 *
 * A look asks Redis one thing after the other, so a cycle in the graph of one look need not have
 * been there at any moment. A proof takes three looks. The first finds a cycle. The second finds it
 * again, so each hold was there without interruption in between, because numbers of holds are not
 * used twice. The third finds that each wait was still there after the first look had ended: its
 * client has sent a hash that it composed since. A beat that has grown by two shows this, because
 * a client composes a beat only when it has the answer to the one before. README.md has the
 * argument, tests/model/cycles.pml the model.
 *
 * Threads: the owner of the struct.
 */

#define RELOCK_GRAPH_MOST 1024 /* of locks, of holds, and of waits */
#define RELOCK_GRAPH_STEPS 64  /* of a cycle */
#define RELOCK_GRAPH_NONE SIZE_MAX
#define RELOCK_GRAPH_NAME_MAX 48

struct relock_graph_lock {
    char *name; /* the key */
    size_t len;
    const char *form; /* which holds are in the way: an argument of waits_behind.lua; constant */
    uint64_t n_all;   /* of a semaphore: how many permits there are, free and out; 0: unknown */
    unsigned step;    /* away from the waits with which the look began */
    size_t holds;     /* the last one that was found on it, or RELOCK_GRAPH_NONE */
    uint64_t search;  /* the last one that has come to it */
    uint64_t counted; /* by the last search that has counted `kept` */
    uint64_t kept;    /* how many permits, or holds, of it blocked owners have */
};

struct relock_graph_hold {
    size_t lock;
    size_t wait;                  /* of its owner; RELOCK_GRAPH_NONE: none, as far as is known */
    uint64_t n;                   /* of its permits; of a lock 1 */
    uint64_t beat;                /* of the hash with that wait; 0: it is of this client */
    char id[RELOCK_UUID_LEN + 1]; /* of its client, or what its tokens or permits begin with */
    char field[RELOCK_FIELD_MAX]; /* its number, its token, or what its permits begin with */
    size_t next;                  /* on the same lock */
    /* of the search that has found its wait last */
    size_t next_of_wait; /* of the same owner */
    bool is_in_proof;
};

struct relock_graph_wait {
    char id[RELOCK_UUID_LEN + 1]; /* of its client */
    char name[RELOCK_GRAPH_NAME_MAX];
    uint64_t serial;
    uint64_t at_us; /* when it was first published */
    uint64_t need;  /* of permits; 0: it is for a lock */
    uint64_t owner; /* of a wait of this client; else 0 */
    size_t lock;
    bool is_over;
    bool goes_on; /* it is in no deadlock, and behind none */
    uint64_t own; /* how many of what is kept of its lock its owner has itself */
    /* of the search that has found it last */
    uint64_t search;
    unsigned n_steps; /* from the wait with which it began */
    size_t holds;     /* of its owner, or RELOCK_GRAPH_NONE */
    bool is_blocked, is_in_proof;
    uint64_t leaves; /* its place among those that go on once that wait is refused; 0: it goes on
                        in any case; RELOCK_GRAPH_STAYS: in none */
};

#define RELOCK_GRAPH_STAYS UINT64_MAX

struct relock_graph {
    struct relock_graph_lock *locks;
    struct relock_graph_hold *holds;
    struct relock_graph_wait *waits;
    size_t n_locks, n_holds, n_waits;
    uint64_t n_searches;
    bool is_thinned; /* `goes_on` is known of each wait */
};

/* Holds that are in the way of waits, beginning with the victim's; each belongs to the owner of
 * another of these waits, or to the victim. So of a cycle of locks, the steps are its waits in
 * their order. Each hold is there once, though it may be in the way of several waits: so there are
 * no more steps than holds, however many owners want each other's permits. */
struct relock_proof {
    unsigned n_looks; /* that have found it */
    size_t n;
    struct relock_proof_step {
        size_t behind; /* the hold is in the way of the owner of this step, among others; NONE: of
                          the victim */
        char id[RELOCK_UUID_LEN + 1];
        char field[RELOCK_FIELD_MAX];
        char wait_id[RELOCK_UUID_LEN + 1];
        size_t wait, lock; /* of its owner, and for what: in the graph of the last look */
        uint64_t serial;
        uint64_t at_us; /* another one is that of another hash, whose beats prove nothing here */
        uint64_t beat;  /* that proves it */
    } steps[];
};

/* Makes room in an array for one more element of this size. It has grown from none, one by one.
 * Returns false if there are RELOCK_GRAPH_MOST, or no memory. */
bool relock_graph_has_room(void **array, size_t n, size_t size);

void relock_graph_clear(struct relock_graph *graph);

/* Each adds one and returns its index, or that of the same one; RELOCK_GRAPH_NONE if there is no
 * room or no memory, or if the wait is known with another time: then one of the hashes that have
 * it is out of date, and its beats prove nothing of the other one. `form` lives on. */
size_t relock_graph_add_lock(struct relock_graph *graph, const char *name, size_t len,
                             const char *form, unsigned step);
size_t relock_graph_add_hold(struct relock_graph *graph, size_t lock, const char *id, size_t id_len,
                             const char *field, size_t field_len);
size_t relock_graph_add_wait(struct relock_graph *graph, const char *id, uint64_t serial,
                             uint64_t at_us, size_t lock);

/* The wait of this client with that serial, or RELOCK_GRAPH_NONE. */
size_t relock_graph_find(const struct relock_graph *graph, const char *id, uint64_t serial);

/*
 * Whether this wait is the victim of a deadlock: it is the youngest of its waits, and these would
 * not all stay blocked without it. Each client comes to the same one. Returns the beginning of a
 * proof, for free(); NULL if it is none, or no memory.
 */
struct relock_proof *relock_graph_search(struct relock_graph *graph, size_t wait);

enum relock_proof_state {
    RELOCK_PROOF_GONE, /* the cycle is not there any more */
    RELOCK_PROOF_OPEN, /* another look is needed */
    RELOCK_PROOF_DONE, /* it was there */
};

/* The state after a further look, which has found this graph. */
enum relock_proof_state relock_proof_check(struct relock_proof *proof, struct relock_graph *graph,
                                           size_t wait);

/* Writes the cycle in words, beginning with the lock that the owner of the wait holds. */
void relock_proof_explain(const struct relock_proof *proof, const struct relock_graph *graph,
                          size_t wait, char *out, size_t size);

/* ---- published ------------------------------------------------------------------------------- */

#define RELOCK_PUBLISHED_BEAT_MS 250 /* between two times that a hash is sent */

/* The functions of this folder are called with the mutex of the client. */
#define STEP RELOCK_UNCHECKED static

/* A hold whose owner waits. */
struct relock_published_hold {
    struct relock_hold *hold; /* a reference */
    struct relock_waiter *waiter;
    char field[RELOCK_FIELD_MAX]; /* of the hold */
};

/* What Redis has of one client, in one hash. */
struct relock_published_hash {
    uint64_t beat;   /* the last beat that was answered */
    bool is_sent;    /* the next beat is in flight */
    bool is_again;   /* the next beat was sent before, and not answered; then it `may_exist` */
    bool is_dirty;   /* the waits have changed since it was composed, or somebody asks for it */
    uint64_t due_ms; /* when it is sent again, though nothing has changed */
    bool may_exist;  /* Redis may have the hash */
};

/* The hashes of a client: with all holds, by client id; with those of plain locks, by what their
 * tokens begin with; and with those of semaphores, by what the ids of their permits begin with. */
enum {
    RELOCK_PUBLISHED_ALL,
    RELOCK_PUBLISHED_TOKENS,
    RELOCK_PUBLISHED_PERMITS,
    RELOCK_PUBLISHED_HASHES,
};

/* The state of this layer in one client. Guarded by the mutex of the client. */
struct relock_published {
    struct relock_client_hook hook;
    struct relock_client *client; /* constant */
    struct relock_waiter *asleep; /* see `struct relock_published_wait` */
    uint64_t serial;              /* of the last one */
    struct relock_timer timer;
    uint64_t long_ms;        /* a wait that has lasted for so long is published */
    uint64_t alert_until_ms; /* `long_ms` is shorter until then, unless the program has set it */
    uint64_t scan_at_ms;     /* when to search the holds whose owners wait; RELOCK_NEVER: not */
    uint64_t scan_from_ms;   /* not before then */
    uint64_t look_at_ms;     /* when to follow the chains; or RELOCK_NEVER */
    bool looks_again;        /* a wait was published during the look that is in progress */
    uint64_t look_pause_ms;  /* after the last look that found nothing */
    uint64_t proof_pause_ms; /* after the last look that continued a proof */
    bool has_proof;          /* the last look has left some: the next timed one asks for beats */
    bool has_beats;          /* those for which it asked are there: the next look does not ask */
    bool asks;               /* the look that is in progress does */

    struct relock_published_hold *holds;
    size_t n_holds;
    size_t room; /* for so many there is memory already */
    struct relock_published_hash hashes[RELOCK_PUBLISHED_HASHES];
    uint64_t refused_until_ms; /* the user may not write hashes, and that was logged; or 0 */

    struct relock_graph graph; /* of the last look */
    unsigned n_asked;          /* commands of that look without an answer */
};

/* Sets the timer to the first of its times. */
void relock_published_arm(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* There is a cycle, and there may soon be others. So for a time, waits are published earlier,
 * unless the program has set `deadlock_ms`. */
void relock_published_alert(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Of a client to which it is attached. */
struct relock_published *relock_published_of(const struct relock_client *client);

/* ---- chain ----------------------------------------------------------------------------------- */

/*
 * Chain - follows waits from client to client, to find those that close a cycle
 *
 * A look begins with the waits of this client that are published (published.h). It asks Redis who
 * holds these locks, then for which locks the owners of these holds wait, and so on. It reads the
 * waits of this client from memory.
 *
 * The chain ends at a hold whose owner does not wait. It also ends at a hold for which no client
 * publishes waits: one with a fixed lease, or one of another library.
 *
 * The look ends with the last answer. Then each published wait of this client is searched in its
 * graph. A wait that closes a cycle as its victim gets a proof, which the next looks continue or
 * drop. The wait is refused when its proof is complete; wait_graph.c says when that is. The next
 * look follows soon while there are proofs, and later otherwise.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */

/* Between two looks that find nothing, at most. */
#define RELOCK_PROOFS_LATER_MS 1000

/* Whether the hold can be part of a cycle: its owner still waits here, and has the hold for certain
 * and without a fixed lease. */
bool relock_chain_counts(const struct relock_published_hold *held, uint64_t now_ms);

/* The argument of waits_behind.lua for a lock of this kind. */
const char *relock_chain_form(const struct relock_kind *kind);

/* How many permits this waiter wants; 0: it waits for a lock. */
uint64_t relock_chain_need(const struct relock_waiter *waiter);

/* The hash in which others look for holds of this kind. */
unsigned relock_chain_hash(const struct relock_kind *kind);

/* These write a text with its NUL and return its length: the field of the hold; what its hash of
 * the client has in its key; that key. */
size_t relock_chain_field(char out[RELOCK_FIELD_MAX], const struct relock_client *client,
                          const struct relock_hold *hold);
size_t relock_chain_id(char out[RELOCK_FIELD_MAX], const struct relock_client *client,
                       unsigned which);
#define RELOCK_CHAIN_KEY_MAX 64
size_t relock_chain_key(char out[RELOCK_CHAIN_KEY_MAX], const char *id, size_t len);

/* Takes a look, unless one is in progress. The end of the look sets `look_at_ms`. */
void relock_chain_follow(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
