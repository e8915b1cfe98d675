#include "private.h"

#include "base/clock.h"
#include "lock/async/async.h"
#include "lock/hold/holds.h"
#include "lock/state/step.h"
#include "lock/wake/wake.h"
#include "redis/io/io.h"
#include "redis/lane/sentinels.h"
#include "redis/server/loop.h"

/* After this many timers, other threads get a chance to lock the mutex. */
#define TIMERS_AT_A_TIME 64

/* After this many, connections are next: answers wait to be read, and commands to be sent. */
#define TIMERS_MAX 1024

/* The pub/sub connection is pinged after a silence of this many `recheck_ms`. */
#define PING_RECHECKS 2

/* Clients of a machine share its clock, and renew at different times of it. */
#define PHASES 65536

/* Fires the timer that is due first, perhaps that of a hold. Returns false if none is due. */
static bool fire_next(struct relock_client *client, uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    uint64_t timer_ms = relock_timers_next_ms(&client->guarded.timers);
    struct relock_heap *holds = &client->guarded.due;
    struct relock_heap_link *due;
    struct relock_timer *timer;

    if (relock_heap_next_ms(&client->guarded.ahead) < relock_heap_next_ms(holds))
        holds = &client->guarded.ahead;
    if (relock_heap_next_ms(holds) <= timer_ms) {
        due = relock_heap_pop(holds, now_ms);
        if (due)
            relock_watchdog_fire(client, RELOCK_CONTAINER(struct relock_hold, timer, due), now_ms);
        return due != NULL;
    }
    timer = relock_timers_pop(&client->guarded.timers, now_ms);
    if (timer)
        timer->fire(timer, now_ms);
    return timer != NULL;
}

static uint64_t next_ms_of(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t next_ms = relock_clock_sooner(relock_timers_next_ms(&client->guarded.timers),
                                           relock_heap_next_ms(&client->guarded.due));

    return relock_clock_sooner(next_ms, relock_batch_next_ms(client));
}

static void fire_timers(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    unsigned n = 1;

    for (; n <= TIMERS_MAX && fire_next(client, now_ms); n++) {
        if (n % TIMERS_AT_A_TIME == 0) {
            relock_mutex_unlock(&client->mutex);
            relock_mutex_lock(&client->mutex);
        }
    }
    relock_batch_send_all(client);
    if (n <= TIMERS_MAX) /* else a hold may be due whose time is over */
        relock_batch_take_turn(client, now_ms);
}

/* Whether messages are for this thread: other threads would only hand them on. */
static bool needs_messages(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_client_hook *hook;

    RELOCK_HOOKS_FOREACH(client, hook, needs_messages)
    {
        return true;
    }
    return client->guarded.n_threadless > 0 || client->guarded.n_tracked > 0 ||
           client->options.keep_ms > 0;
}

static uint64_t iterate(void *arg)
{
    struct relock_client *client = arg;
    uint64_t follow_ms = relock_node_io_follow(client->topology);
    uint64_t next_ms;
    bool needs;

    relock_mutex_lock(&client->mutex);
    client->guarded.iteration_at_ms = 0;
    fire_timers(client);
    relock_step_post_fired(client);
    relock_client_run_tasks(client);
    /* From here on the mutex stays locked until it is known when the next iteration is due. */
    next_ms = client->guarded.tasks ? 0 : next_ms_of(client);
    client->guarded.iteration_at_ms = next_ms;
    needs = needs_messages(client);
    relock_mutex_unlock(&client->mutex);
    relock_node_io_share(client->topology);
    follow_ms = relock_clock_sooner(follow_ms, relock_node_io_track(client->topology));
    relock_node_io_attend(client->topology, needs);
    relock_node_io_flush(client->topology); /* a thread may wait for the answers */
    relock_client_reap(client);
    return relock_clock_sooner(next_ms, follow_ms);
}

static void on_tracking(void *arg, const struct relock_node *node, bool is_on)
{
    struct relock_client *client = arg;

    relock_mutex_lock(&client->mutex);
    relock_watchdog_tracking(client, node, is_on);
    relock_vigil_tracking(client, node, is_on);
    relock_mutex_unlock(&client->mutex);
}

static void on_changed(void *arg, const char *key, size_t len)
{
    struct relock_client *client = arg;

    relock_mutex_lock(&client->mutex);
    relock_watchdog_hear(client, key, len);
    relock_vigil_hear(client, key, len);
    relock_mutex_unlock(&client->mutex);
}

static void on_up(void *arg)
{
    struct relock_client *client = arg;

    relock_mutex_lock(&client->mutex);
    relock_watchdog_follow(client);
    relock_vigil_follow(client);
    relock_watchdog_up(client);
    relock_line_leave_again(client);
    relock_async_command_up(client);
    relock_mutex_unlock(&client->mutex);
}

/* Calls and waiters in flight fail over to the new master at once. */
static void on_switch(void *arg, const struct relock_peer *old)
{
    struct relock_client *client = arg;

    relock_sentinels_retire(client->server.sentinels, old);
    relock_node_io_cut(client->topology, old);
}

int relock_io_start(struct relock_client *client)
{
    const struct relock_options *options = &client->options;
    struct relock_topology_io io = {
        .answer_ms = relock_watchdog_answer_ms(options),
        .ping_ms = options->recheck_ms * PING_RECHECKS,
        .confirms = options->min_replicas > 0,
        .up = on_up,
        .tracking = on_tracking,
        .changed = on_changed,
        .scope = client,
        .arg = client,
    };
    int r;

    client->take_kept = relock_cache_take_kept;
    client->guarded.batches.phase = relock_ident_jitter(PHASES);
    client->guarded.batches.ahead_ms =
        relock_hold_ahead_ms(relock_hold_renewal_ms(options->watchdog_timeout_ms));
    r = relock_loop_new(iterate, client, &client->loop);
    if (r < 0)
        return r;
    io.loop = client->loop;
    r = relock_node_io_start(client->topology, &io);
    if (r < 0)
        return r;
    r = relock_switches_new(client->loop, &client->server, io.ping_ms, on_switch, client,
                            &client->switches);
    if (r < 0)
        return r;
    relock_switches_open(client->switches);
    return relock_loop_start(client->loop);
}

void relock_io_stop(struct relock_client *client)
{
    if (client->loop)
        relock_loop_stop(client->loop);
    client->switches = relock_switches_free(client->switches);
    relock_node_io_stop(client->topology);
    client->loop = relock_loop_free(client->loop);
}
