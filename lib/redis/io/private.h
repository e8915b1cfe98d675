/*
 * Private - what the files of lib/redis/io share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_IO_PRIVATE_H
#define RELOCK_IO_PRIVATE_H

#include "base/hash.h"
#include "redis/connect/connect.h"
#include "redis/deployment/topology.h"
#include "redis/io/io.h"
#include "redis/lane/call.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_async_conn_ops;
struct relock_channel;
struct relock_conn_id;
struct relock_loan;
struct relock_loop;
struct relock_pipeline;
struct relock_pubsub;

/* ---- reading --------------------------------------------------------------------------------- */

/*
 * Reading - lets a thread that waits for a message read a connection of the I/O thread
 *
 * The mutex guards the connections for messages with all that belongs to them: one, or in a cluster
 * one for each node. A thread that reads holds it, and never waits for the socket meanwhile. The
 * I/O thread locks it for each of its steps, so it alone sends, handles failures and reconnects. A
 * thread that waits polls the socket without the mutex, and reads only while nothing but messages
 * can come.
 *
 * A thread polls only if no other thread of the client waits, and if the I/O thread needs no
 * messages itself. Then the I/O thread need not watch the socket that is polled; it watches all
 * others. So no wait depends on another thread of the program, and none on the right choice of the
 * connection.
 *
 * Lock the mutex before that of a client, never after.
 *
 * Threads: as each function says.
 */

struct relock_reading {
    struct relock_loop *loop; /* constant */
    int event_fd;             /* constant: wakes the thread that polls */

    struct relock_mutex mutex;
    struct {
        unsigned n_waiting; /* threads that wait for messages, also without polling */
        const struct relock_async_conn *polled; /* one of them polls it, or is about to; or NULL */
        const struct relock_async_conn *left;   /* the I/O thread left it to that one; or NULL */
        bool is_needed;                         /* the I/O thread waits for messages itself */
    } shared;                                   /* by mutex */
};

/* Its descriptor is of this scope. Returns NULL when out of memory. */
struct relock_reading *relock_reading_new(struct relock_loop *loop, const void *scope);

/* No thread uses it. Takes NULL. Returns NULL. */
struct relock_reading *relock_reading_free(struct relock_reading *reading);

/* NULL: the I/O thread shares the connection with no other, and there is nothing to lock. */
void relock_reading_lock(struct relock_reading *reading);
void relock_reading_unlock(struct relock_reading *reading);

/* With the mutex locked: whether a thread polls this connection, and is the only one that waits for
 * messages. Takes NULL. */
bool relock_reading_is_left(const struct relock_reading *reading,
                            const struct relock_async_conn *conn);

/* With the mutex locked, while the I/O thread does not watch the socket: whether it has to watch it
 * now. `is_left_for_a_while`: it will soon do so anyway. */
bool relock_reading_is_due(const struct relock_reading *reading,
                           const struct relock_async_conn *conn, bool is_left_for_a_while);

/* With the mutex locked: the I/O thread watches this connection again, or that has ended. A thread
 * that polls it looks for another. Takes NULL. */
void relock_reading_watch(struct relock_reading *reading, const struct relock_async_conn *conn);
void relock_reading_end(struct relock_reading *reading, const struct relock_async_conn *conn);

/* ---- async conn ------------------------------------------------------------------------------ */

/*
 * Asynchronous connection - a connection that the I/O thread keeps up
 *
 * It never blocks. When it breaks, or the server does not answer in time, it reconnects, with a
 * growing and random pause between attempts. Sending only appends to a buffer: the bytes go out
 * when the loop finds the socket writable, so sending calls no callback.
 *
 * Threads: the I/O thread; init and deinit while that does not run. With `reading`, other threads
 * may read, too. Then the mutex of `reading` guards all fields but the constants: the loop's
 * callbacks lock it, and callers of these functions must.
 */

enum relock_health_state {
    RELOCK_HEALTH_FINE,     /* no failure since it last proved to work */
    RELOCK_HEALTH_BROKEN,   /* no connection */
    RELOCK_HEALTH_RETURNED, /* connected again, not proved yet */
    RELOCK_HEALTH_REJECTED, /* it broke again before it had proved */
};

/*
 * Whether a connection that reconnects has proved to work, and the pause before its next attempt.
 * The log gets one line when the connection breaks and one when it is back, however many attempts
 * lie between. Some servers accept a connection and end it at the first command; after the second
 * time only an answered command counts as back.
 */
struct relock_health {
    const struct relock_server *server;
    const char *meanwhile; /* constant: the consequence of a failure, for the log; or NULL */
    enum relock_health_state state;
    char why[RELOCK_WHY_MAX]; /* the last failure that was logged */
    uint64_t pause_ms; /* before the next attempt, after the last failure; 0: it has worked since */
};

void relock_health_init(struct relock_health *health, const struct relock_server *server);

/* The connection has failed, or an attempt to make it. The pause grows. */
void relock_health_break(struct relock_health *health, const char *why);

/* It is up. `again`: not for the first time. */
void relock_health_return(struct relock_health *health, bool again);

/* It works: it has answered a command as a master, or was up for a while. */
void relock_health_prove(struct relock_health *health);

enum relock_async_conn_state {
    RELOCK_ASYNC_CONN_CLOSED, /* not opened */
    RELOCK_ASYNC_CONN_DIALING,
    RELOCK_ASYNC_CONN_LOGGING_IN,
    RELOCK_ASYNC_CONN_READY,
    RELOCK_ASYNC_CONN_BACKING_OFF, /* failed; the next attempt follows */
};

struct relock_async_conn {
    /* constant */
    const struct relock_server *server;
    const struct relock_async_conn_ops *ops;
    void *arg;
    struct ev_loop *ev;
    struct relock_reading *reading; /* NULL unless other threads may read, too */
    uint64_t answer_ms;             /* the longest that an answer may take */

    uint64_t ping_ms; /* after so much silence a PING is sent; 0: never */
    uint64_t pong_ms; /* the longest that the answer to a PING may take */

    enum relock_async_conn_state state;
    uint64_t since_ms;  /* when it entered this state */
    uint64_t borrow_ms; /* when to ask for the connection of another user; RELOCK_NEVER: not */
    struct relock_dial dial;
    struct relock_login login; /* `conn_id` is this connection's while READY */
    struct relock_wire wire;
    struct relock_health health;
    ev_io io;
    int watched;            /* the events that `io` waits for */
    uint64_t left_until_ms; /* until then only another thread reads; RELOCK_NEVER: not so */
    ev_timer timer;

    uint64_t n_sent;     /* commands sent over this connection, without those that get no answer */
    uint64_t n_answered; /* how many of these were answered */
    bool pinging;        /* nothing but a PING is unanswered */
    uint64_t quiet_ms;   /* when bytes last came, or the first unanswered command was sent */
    uint64_t silent_ms;  /* since when an answer has been owed, earlier connections included */

    int met;           /* the failure that another thread met when it read; RELOCK_OK: none */
    bool met_a_notice; /* another thread has read something that the I/O thread has to handle */

    bool was_ready; /* it came up before */
};

/* Whether the server owes an answer. */
bool relock_async_wait_is_owed(const struct relock_async_conn *conn);

/* Whether nothing but messages can come, so that another thread may read. */
bool relock_async_wait_is_for_messages(const struct relock_async_conn *conn);

/* Whether the I/O thread has to attend to a shared connection: relock_async_conn_attend. */
bool relock_async_wait_is_due(const struct relock_async_conn *conn);

struct relock_async_conn_ops {
    void (*up)(void *arg);                                    /* commands can be sent */
    void (*reply)(void *arg, const struct redisReply *reply); /* while up */
    void (*down)(void *arg);   /* it was up and failed: nothing more comes; or NULL */
    void (*failed)(void *arg); /* after each failure, after `down`; may close it; or NULL */

    /* No connection can be made, or not in time: asks another user for its own. Returns whether it
     * was given away. NULL: there is no other user. */
    bool (*borrow)(void *arg, struct relock_loan *loan);
};

void relock_async_conn_init(struct relock_async_conn *conn, struct ev_loop *ev,
                            const struct relock_server *server,
                            const struct relock_async_conn_ops *ops, void *arg);
void relock_async_conn_deinit(struct relock_async_conn *conn);

/* Connects, and keeps the connection up until it is closed. Does nothing when it is open. */
void relock_async_conn_open(struct relock_async_conn *conn);

/* Ends this connection for the reason `what`, and makes another. Calls `down` if it was up, so not
 * under a mutex that `down` locks. */
void relock_async_conn_fail(struct relock_async_conn *conn, const char *what);

/* The server or the credentials have changed: as relock_async_conn_fail, if the connection leads to
 * `peer`; NULL: wherever it leads. A connection that pauses between two attempts makes the next one
 * at once. Locks the mutex of `reading`. */
void relock_async_conn_renew(struct relock_async_conn *conn, const struct relock_peer *peer,
                             const char *what);

/* Ends the connection and makes no other. `down` is not called. */
void relock_async_conn_close(struct relock_async_conn *conn);

/* Gives the connection away, if it is up and nothing is in flight on it, and makes another after a
 * pause. Calls `down`, so not under a mutex that `down` locks. Returns whether it did. */
bool relock_async_conn_lend(struct relock_async_conn *conn, struct relock_loan *loan);

static inline bool relock_async_conn_is_up(const struct relock_async_conn *conn)
{
    return conn->state == RELOCK_ASYNC_CONN_READY;
}

/* While it pauses between two attempts: the next one comes after `pause_ms` from now. */
void relock_async_conn_retry_in(struct relock_async_conn *conn, uint64_t pause_ms);

/* Whether the connection has been up for a while and owes no answer: it works, like one that has
 * answered. */
bool relock_async_conn_is_fine(const struct relock_async_conn *conn);

/* To send, append commands to this buffer, then call send with the number of their replies. */
static inline struct relock_buffer *relock_async_conn_out(struct relock_async_conn *conn)
{
    return &conn->wire.out;
}
void relock_async_conn_send(struct relock_async_conn *conn, unsigned n_replies);

/* Sends a PING. Only while no command is unanswered. Returns false when out of memory. */
bool relock_async_conn_ping(struct relock_async_conn *conn);

/* Writes as much as the socket takes at once, instead of when the loop next finds it writable. */
void relock_async_conn_flush(struct relock_async_conn *conn);

/* Call this for each reply to a command, but not for a message, which no command asked for.
 * `proves`: the reply shows that the connection works. */
void relock_async_conn_answered(struct relock_async_conn *conn, bool proves);

/* For a connection that other threads may read: lets the I/O thread read again if none of them
 * does, and handles a failure that one of them met. */
void relock_async_conn_attend(struct relock_async_conn *conn);

/* ---- pipeline -------------------------------------------------------------------------------- */

enum relock_next_reply {
    RELOCK_NEXT_CALL,    /* the last one; the only one of a PING */
    RELOCK_NEXT_KILL,    /* CLIENT KILL, of the fence */
    RELOCK_NEXT_ASKING,  /* if the slot of the key is on its way to this server */
    RELOCK_NEXT_LOAD,    /* SCRIPT LOAD, if the server lacks the script */
    RELOCK_NEXT_CACHING, /* CLIENT CACHING, if the command is tracked */
};

/*
 * A command in flight on a pipeline, kept so that it can be sent again. Redis answers a command
 * with one reply, and with one more for each of KILL, ASKING, LOAD and CACHING that was sent before
 * it. The command knows which of them comes next. ASKING and CACHING must stand right before the
 * command, so a command behind ASKING is not tracked. After the reply to CALL the pipeline ends the
 * command, or sends it again over this or another connection: `args` has its arguments as bytes.
 */
struct relock_sent_command {
    enum relock_next_reply next_reply;
    unsigned n_replies; /* all that were due when it was last sent */
    unsigned forms;     /* of the last one: see reply.h */
    enum relock_call_form form;
    bool asks;            /* it follows ASKING, which SCRIPT LOAD would use up */
    bool is_tracked;      /* it follows CLIENT CACHING */
    bool is_kill_refused; /* for now: an older command may still run */
    unsigned n_redirects;
    const struct relock_script *script; /* that it runs; NULL: none */
    void (*fn)(void *arg, int result, const struct redisReply *reply); /* NULL: no caller */
    void *arg;
    struct relock_flight *flight;       /* NULL: its user need not know */
    const struct relock_node **tracker; /* see call.h; constant */
    struct relock_node **answered_by;   /* likewise */
    struct relock_sent_command *next, *prev;
    size_t n_keys;
    size_t n_args; /* besides the keys */
    size_t len;
    char args[]; /* keys and arguments as bytes */
};

/* Called whenever a connection has been made. */
typedef void relock_pipeline_up_fn(void *arg);

/* Closes a connection on which an answer takes longer than `answer_ms`. */
int relock_pipeline_new(struct relock_loop *loop, const struct relock_server *server,
                        uint64_t answer_ms, relock_pipeline_up_fn *up, void *arg,
                        struct relock_pipeline **pipeline);

/* Drops the commands in flight without answering them. Takes NULL. Returns NULL. */
struct relock_pipeline *relock_pipeline_free(struct relock_pipeline *pipeline);

/* Sets the node of a topology to which the pipeline leads. From now on, if the server says that
 * another node has the key, the command goes on to the pipeline of that node for the same purpose.
 * It ends with RELOCK_E_CONN if that pipeline is not up yet. */
void relock_pipeline_join(struct relock_pipeline *pipeline, struct relock_topology *topology,
                          struct relock_node *node);

void relock_pipeline_open(struct relock_pipeline *pipeline);

/* Whether it has a connection, or makes one. */
bool relock_pipeline_is_open(const struct relock_pipeline *pipeline);

/* Whether it may be closed: no command is in flight, and it is not connecting for one. */
bool relock_pipeline_is_idle(const struct relock_pipeline *pipeline);

/* Gives its connection away, if nothing is in flight on it, and makes another after a pause. Under
 * no mutex. Returns whether it did. */
bool relock_pipeline_lend(struct relock_pipeline *pipeline, struct relock_loan *loan);

/* Closes the connection if no command is in flight. It can be opened again. */
void relock_pipeline_close_idle(struct relock_pipeline *pipeline);

/* As relock_async_conn_renew. */
void relock_pipeline_renew(struct relock_pipeline *pipeline, const struct relock_peer *peer,
                           const char *what);

/*
 * Has the server report changes of keys to the connection of that number (CLIENT TRACKING). Calls
 * `fn` once, later. Returns as relock_pipeline_call.
 */
int relock_pipeline_track(struct relock_pipeline *pipeline, uint64_t number, relock_pipeline_fn *fn,
                          void *arg);

/* Whether a call with a `tracker` is tracked. tracking.c sets this when the server has agreed. It
 * ends with the connection, or when the server says that it tracks no longer. */
void relock_pipeline_set_tracks(struct relock_pipeline *pipeline, bool tracks);
bool relock_pipeline_tracks(const struct relock_pipeline *pipeline);

/* Writes to the socket at once, instead of when the loop next finds it writable. */
void relock_pipeline_flush(struct relock_pipeline *pipeline);

/* ---- channel --------------------------------------------------------------------------------- */

/*
 * Channel - one channel of a pubsub: its subscribers, its SUBSCRIBE, its move to another node, and
 * what comes over the connection
 *
 * Threads: the I/O thread; with the mutex of a shared connection locked.
 */

struct relock_subscriber {
    struct relock_channel *channel;
    relock_channel_fn *fn;
    void *arg;
    struct relock_subscriber *next, *prev;
};

/* At which node of a cluster a channel is subscribed. */
enum relock_channel_place {
    RELOCK_CHANNEL_AT_SLOT,  /* at that of the slot of its name */
    RELOCK_CHANNEL_LOCAL,    /* it is this node's own: never sharded */
    RELOCK_CHANNEL_ANYWHERE, /* at any one, as PUBLISH reaches all: never sharded */
};

/* A channel by its name on the wire; it exists while it has subscribers. */
struct relock_channel {
    UT_hash_handle hh;
    struct relock_pubsub *pubsub;
    struct relock_subscriber *subscribers;
    uint64_t subscribe_nth; /* `n_sent` of the connection after its last SUBSCRIBE; 0: none */
    bool is_subscribed;     /* that SUBSCRIBE was acknowledged */
    bool is_stranded;       /* no node takes it now: it subscribes again with the next map */
    bool has_ended;         /* the server said so to another thread */
    enum relock_channel_place place; /* constant while it has subscribers */
    unsigned n_redirects;            /* since it was last subscribed, or stranded */
    size_t len;
    char name[];
};

/* An UNSUBSCRIBE or SUNSUBSCRIBE without a reply yet. It tells which command an error is about, and
 * distinguishes the reply to a SUNSUBSCRIBE from the notice that the server may send by itself. */
struct relock_unsubscription {
    uint64_t nth; /* `n_sent` of the connection after it */
    struct relock_unsubscription *next, *prev;
    size_t len;
    char name[]; /* of the channel */
};

/* The words of plain and of sharded channels. */
struct relock_pubsub_words {
    const char *subscribe;
    const char *unsubscribe;
    const char *subscribed;
    const char *unsubscribed;
    const char *message;
    bool may_end; /* the server ends subscriptions by itself */
};

extern const struct relock_pubsub_words relock_pubsub_plain;

struct relock_pubsub {
    struct relock_async_conn conn;
    const struct relock_pubsub_words *words;
    struct relock_topology *topology;              /* NULL: no server refers to another */
    struct relock_node *node;                      /* of the topology */
    struct relock_channel *channels;               /* by name */
    struct relock_unsubscription *unsubscriptions; /* in the order of their replies */
    uint64_t pause_ms; /* after the last refusal for now, before another connection */
};

static inline struct relock_text relock_channel_name(const struct relock_channel *channel)
{
    return (struct relock_text){channel->name, channel->len};
}

/* Returns NULL when out of memory. */
struct relock_channel *relock_channel_find_or_make(struct relock_pubsub *pubsub,
                                                   struct relock_text name);

/* For a channel ANYWHERE, the connection is also pinged more often. */
void relock_channel_set_place(struct relock_channel *channel, enum relock_channel_place place);

/*
 * Sends SUBSCRIBE. When out of memory, it ends the connection and returns false. The next
 * connection subscribes exactly the channels that have subscribers; on this one a waiter would get
 * no messages, or a channel without subscribers would stay subscribed.
 */
bool relock_channel_subscribe(struct relock_channel *channel);

/* The channel has a new subscriber and is not subscribed. `is_first`: this is its first one. */
void relock_channel_begin(struct relock_channel *channel, bool is_first);

/* The channel has lost its last subscriber: unsubscribes it and frees it. */
void relock_channel_drop(struct relock_channel *channel);

/* Calls all subscribers; if the message is a list, for each of its elements. */
void relock_channel_tell(const struct relock_channel *channel, enum relock_channel_event event,
                         const struct redisReply *message);

/* The subscribers go to the channel of that name at another node. */
void relock_channel_move(struct relock_channel *from, struct relock_node *node);

/* As relock_channel_move, for a channel that may be ANYWHERE: to another node that has slots and is
 * not doubted. Stays if there is none. */
void relock_channel_leave_node(struct relock_channel *channel);

/* Anything that comes while the connection of the pubsub `arg` is up. The I/O thread. */
void relock_pubsub_take_reply(void *arg, const struct redisReply *reply);

/* Takes what comes while no command is unanswered: a message, or the server's own end of a
 * subscription, which it leaves to the I/O thread. Returns false for anything else, which ends the
 * connection. Any thread. */
bool relock_pubsub_hear(struct relock_pubsub *pubsub, const struct redisReply *reply);

/* ---- pubsub ---------------------------------------------------------------------------------- */

/* After `ping_ms` of silence a PING is sent. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_pubsub_new(struct relock_loop *loop, const struct relock_server *server,
                      uint64_t ping_ms, struct relock_pubsub **pubsub);

/*
 * Sets the node of a topology to which the pubsub leads. In a cluster, a channel belongs to the
 * node that has the slot of its name. If that is another one, by now or from the start, the channel
 * goes there with its subscribers, which hear RELOCK_CHANNEL_DOWN and then
 * RELOCK_CHANNEL_SUBSCRIBED.
 */
void relock_pubsub_join(struct relock_pubsub *pubsub, struct relock_topology *topology,
                        struct relock_node *node);

/* From now on, other threads may read the messages. `reading` outlives the pubsub, and may be
 * shared by several. */
void relock_pubsub_share(struct relock_pubsub *pubsub, struct relock_reading *reading);

/* Subscribes channels again that the server has ended, as another thread has read. */
void relock_pubsub_take_notices(struct relock_pubsub *pubsub);

/* Keys may have other nodes now: moves their channels there. */
void relock_pubsub_follow(struct relock_pubsub *pubsub);

/* The id of the current connection, which the pubsub owns; NULL while there is none, or when the
 * server does not tell it. */
struct relock_conn_id *relock_pubsub_conn_id(const struct relock_pubsub *pubsub);

/* Connects, if it has a channel, after relock_pubsub_close_idle(). */
void relock_pubsub_reopen(struct relock_pubsub *pubsub);

/* Whether there is no channel but the node's own. */
bool relock_pubsub_is_idle(const struct relock_pubsub *pubsub);

/* Closes the connection if there is no channel but the node's own, which is down then. */
void relock_pubsub_close_idle(struct relock_pubsub *pubsub);

/* Drops all channels. Takes NULL. Returns NULL. */
struct relock_pubsub *relock_pubsub_free(struct relock_pubsub *pubsub);

/* As relock_pubsub_subscribe, for a channel of this node's own: it is never sharded, goes to no
 * other node, and does not keep the pubsub from being idle. If SUBSCRIBE is refused, the log says
 * that CLIENT TRACKING is missing. */
struct relock_subscriber *relock_pubsub_subscribe_here(struct relock_pubsub *pubsub,
                                                       const char *name, size_t len,
                                                       relock_channel_fn *fn, void *arg);

/*
 * The server has refused a command for now: makes the connection again after a pause, with the
 * subscriptions that it is to have. Most servers take its login when they take other commands, too.
 * One that takes it may refuse the command again and again, so the pause grows even if the
 * connection has proved to work meanwhile. While it is up, and with the mutex of a shared
 * connection locked.
 */
void relock_pubsub_put_off(struct relock_pubsub *pubsub, const char *error);

/* Makes the connection again, if it is up: its server was replaced, and `why` says how that was
 * noticed. */
void relock_pubsub_reconnect(struct relock_pubsub *pubsub, const char *why);

/* No connection for renewals can be made beside this one: if it has been up for a while, it ends,
 * and is made again after a pause. Returns whether it ended. */
bool relock_pubsub_make_room(struct relock_pubsub *pubsub);

/* In each iteration of the I/O thread, of a shared pubsub: reads again if no other thread does any
 * more. `is_needed`: the I/O thread needs messages itself, so others must not read. */
void relock_pubsub_attend(struct relock_pubsub *pubsub, bool is_needed);

/* ---- tracking -------------------------------------------------------------------------------- */

/* Does what has become due since the last step. Calls `io.tracking` of the topology when tracking
 * begins or ends. The node is open. Returns when the next step is due; RELOCK_NEVER: only after a
 * change. */
uint64_t relock_tracking_step(struct relock_topology *topology, struct relock_node *node);

/* The node needs it no more. No command of the pipeline may be in flight. */
void relock_tracking_end(struct relock_node *node);

/* As relock_tracking_end, when the I/O thread has ended: calls nothing. */
void relock_tracking_free(struct relock_node *node);

/* ---- reading without the I/O thread ---------------------------------------------------------- */

/*
 * Direct - a thread that waits for a message reads it from the pub/sub connection itself
 *
 * If the I/O thread read the message, it would have to wake that thread. This takes longer than the
 * command that follows. So the thread polls the socket beside the gate at which it would sleep, and
 * passes each message to all subscribers, as the I/O thread would. It may do so as "Reading" says.
 * Otherwise it sleeps at its gate, and the I/O thread reads.
 *
 * Threads: any, under no mutex.
 */

/* Waits until the gate is open and closes it again, or until `deadline_ms`. Meanwhile it may read
 * the pubsub at `pubsub`, which may change; NULL: none. It is shared by this `reading`. */
void relock_direct_wait(struct relock_reading *reading,
                        const _Atomic(struct relock_pubsub *) *pubsub, struct relock_gate *gate,
                        uint64_t deadline_ms);

#endif
