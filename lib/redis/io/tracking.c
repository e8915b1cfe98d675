/*
 *   state     becomes  when
 *   OFF       ASKED    both connections are up, and the second one is subscribed
 *   ASKED     ON       the server agrees
 *             REFUSED  it does not
 *             OFF      it is too busy: it is asked again after a pause
 *   ON        REFUSED  it says soon that it does not track any more
 *             OFF      ... later
 *   any       OFF      one of the connections has ended
 */
#include "redis/io/io.h"
#include "redis/io/private.h"

#include "base/clock.h"
#include "redis/connect/conn_id.h"
#include "redis/connect/explain.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

/* Where a server of RESP2 reports; its name for all keys at once is no key. */
#define CHANNEL "__redis__:invalidate"

/* Tracking that was on for so long may have been turned off by accident. */
#define FINE_MS 1000

#define BUSY_MS 100 /* before a server that was too busy is asked again */

enum state { OFF, ASKED, ON, REFUSED };

struct relock_tracking {
    struct relock_topology *topology; /* constant */
    struct relock_node *node;         /* constant */
    struct relock_subscriber *subscriber;
    atomic_bool is_subscribed; /* by the thread that reads the subscriptions */
    enum state state;
    uint64_t since_ms;  /* when it was on */
    uint64_t ask_at_ms; /* not before: the server was busy */
    unsigned n_asked;   /* without an answer yet */

    /* The connections that it was asked of, references; NULL when OFF. */
    struct relock_conn_id *calls, *reports;
};

bool relock_tracking_is_on(const struct relock_node *node)
{
    return node->tracking && node->tracking->state == ON && relock_pipeline_tracks(node->pipeline);
}

static void set(struct relock_tracking *tracking, enum state state)
{
    struct relock_topology_io *io = &tracking->topology->io;
    bool was_on = tracking->state == ON;

    tracking->state = state;
    tracking->since_ms = relock_clock_now_ms();
    relock_pipeline_set_tracks(tracking->node->pipeline, state == ON);
    if (was_on != (state == ON))
        io->tracking(io->arg, tracking->node, state == ON);
}

static void forget_connections(struct relock_tracking *tracking)
{
    tracking->calls = relock_conn_id_unref(tracking->calls);
    tracking->reports = relock_conn_id_unref(tracking->reports);
}

static void refuse(struct relock_tracking *tracking, const char *error)
{
    relock_explain_extra(tracking->node->server, RELOCK_EXTRA_TRACK, error);
    set(tracking, REFUSED);
}

static void put_off(struct relock_tracking *tracking)
{
    tracking->ask_at_ms = relock_clock_in(BUSY_MS);
    forget_connections(tracking);
    set(tracking, OFF);
}

/* ---- the server ---------------------------------------------------------------------------- */

static void on_asked(void *arg, int result, const struct redisReply *reply)
{
    struct relock_tracking *tracking = arg;
    const char *error = reply ? relock_reply_error(reply) : NULL;

    if (--tracking->n_asked > 0 || tracking->state != ASKED)
        return; /* it was asked again since, or is to be */
    if (result == RELOCK_OK)
        set(tracking, ON);
    else if (relock_reply_refuses_for_now(reply))
        put_off(tracking);
    else if (error)
        refuse(tracking, error);
}

/* An id of another run of the server may be that of a stranger's connection. */
static void ask(struct relock_tracking *tracking, struct relock_conn_id *calls,
                struct relock_conn_id *reports)
{
    uint64_t number = relock_conn_id_number(reports);

    if (!relock_conn_id_is_beside(calls, reports) ||
        relock_pipeline_track(tracking->node->pipeline, number, on_asked, tracking) < 0)
        return; /* one of them will be new; or there was no memory, and the next step asks */
    tracking->n_asked++;
    tracking->calls = relock_conn_id_ref(calls);
    tracking->reports = relock_conn_id_ref(reports);
    set(tracking, ASKED);
}

/* ---- reports ------------------------------------------------------------------------------- */

/* Any thread that reads the subscriptions. */
static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    struct relock_tracking *tracking = arg;
    const struct relock_topology_io *io = &tracking->topology->io;

    if (event == RELOCK_CHANNEL_MESSAGE)
        io->changed(io->arg, text, len);
    else
        atomic_store(&tracking->is_subscribed, event == RELOCK_CHANNEL_SUBSCRIBED);
}

static struct relock_tracking *make(struct relock_topology *topology, struct relock_node *node)
{
    struct relock_tracking *tracking = calloc(1, sizeof(*tracking));

    if (!tracking)
        return NULL;
    tracking->topology = topology;
    tracking->node = node;
    return tracking;
}

/* Returns whether the reports would arrive. */
static bool hear_reports(struct relock_tracking *tracking)
{
    struct relock_pubsub *pubsub = tracking->node->pubsub;

    if (!tracking->subscriber)
        tracking->subscriber =
            relock_pubsub_subscribe_here(pubsub, CHANNEL, strlen(CHANNEL), on_channel, tracking);
    else if (tracking->node->wants_tracking)
        relock_pubsub_reopen(pubsub);
    tracking->node->wants_tracking = false;
    return atomic_load(&tracking->is_subscribed);
}

/* Without the rights to CLIENT INFO and INFO, the id of a connection or its server is unknown. */
static void warn_of_ids(const struct relock_tracking *tracking,
                        const struct relock_conn_id *reports)
{
    bool is_subscribed = atomic_load(&tracking->is_subscribed);

    if (is_subscribed && (!reports || !relock_conn_id_has_run(reports)))
        relock_explain_extra(tracking->node->server, RELOCK_EXTRA_TRACK,
                             "the server does not tell the ids of connections");
}

/* ---- steps --------------------------------------------------------------------------------- */

uint64_t relock_tracking_step(struct relock_topology *topology, struct relock_node *node)
{
    struct relock_tracking *tracking = node->tracking;
    struct relock_conn_id *calls, *reports;

    if (!tracking && node->wants_tracking)
        tracking = node->tracking = make(topology, node);
    if (!tracking)
        return RELOCK_NEVER;
    reports = hear_reports(tracking) ? relock_pubsub_conn_id(node->pubsub) : NULL;
    calls = relock_pipeline_conn_id(node->pipeline);
    if (tracking->state != OFF && (calls != tracking->calls || reports != tracking->reports)) {
        forget_connections(tracking);
        set(tracking, OFF);
    }
    if (tracking->state == ON && !relock_pipeline_tracks(node->pipeline)) {
        if (relock_clock_now_ms() - tracking->since_ms < FINE_MS) {
            refuse(tracking, "the server has turned it off");
        } else {
            forget_connections(tracking);
            set(tracking, OFF);
        }
    }
    warn_of_ids(tracking, reports);
    if (tracking->state != OFF || !calls || !reports)
        return RELOCK_NEVER;
    if (relock_clock_now_ms() < tracking->ask_at_ms)
        return tracking->ask_at_ms;
    ask(tracking, calls, reports);
    return RELOCK_NEVER;
}

void relock_tracking_free(struct relock_node *node)
{
    struct relock_tracking *tracking = node->tracking;

    if (!tracking)
        return;
    if (tracking->subscriber)
        relock_pubsub_unsubscribe(tracking->subscriber);
    forget_connections(tracking);
    free(tracking);
    node->tracking = NULL;
}

void relock_tracking_end(struct relock_node *node)
{
    if (!node->tracking)
        return;
    set(node->tracking, OFF);
    relock_tracking_free(node);
}
