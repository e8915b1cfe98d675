#include "two_readers.h"

#include "base/clock.h"
#include "redis/io/io.h"
#include "redis/server/loop.h"

#include <string.h>

static struct relock_loop *loop;
_Atomic(struct relock_pubsub *) pubsub;
struct relock_reading *reading;
struct relock_gate heard;
struct relock_gate events;
pthread_t reader;
struct turns turns;

void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    (void)text;
    (void)len;
    if (event == RELOCK_CHANNEL_MESSAGE) {
        reader = pthread_self();
        relock_gate_open(arg);
    } else {
        relock_gate_open(&events);
    }
}

static void stand_still(void)
{
    relock_gate_open(&turns.done);
    (void)relock_gate_wait(&turns.goes_on, soon());
}

static uint64_t turn(void *arg)
{
    (void)arg;
    if (atomic_exchange(&turns.logs_in_again, false))
        relock_async_conn_renew(&pubsub->conn, NULL, "the password was changed");
    if (atomic_exchange(&turns.subscribes, false))
        assert_non_null(relock_pubsub_subscribe(pubsub, "b", 1, on_channel, &heard));
    relock_pubsub_attend(pubsub, atomic_load(&turns.is_needed));
    if (atomic_exchange(&turns.stops, false))
        stand_still();
    if (atomic_load(&turns.stops_when_left) && is_left(NULL)) {
        atomic_store(&turns.stops_when_left, false);
        stand_still();
    }
    return RELOCK_NEVER;
}

int two_readers_begin(void **state)
{
    int r = talk_begin(state);
    struct relock_pubsub *new;

    memset(&turns, 0, sizeof(turns));
    relock_gate_init(&heard);
    relock_gate_init(&events);
    assert_int_equal(relock_loop_new(turn, NULL, &loop), RELOCK_OK);
    reading = relock_reading_new(loop, NULL);
    assert_non_null(reading);
    assert_int_equal(relock_pubsub_new(loop, &server, 0, &new), RELOCK_OK);
    relock_pubsub_share(new, reading);
    pubsub = new;
    script_welcome(script, 7);
    script_expect(script, "SUBSCRIBE a");
    script_answer(script, SUBSCRIBED("a"));
    assert_non_null(relock_pubsub_subscribe(pubsub, "a", 1, on_channel, &heard));
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    assert_true(relock_gate_wait(&events, soon()));
    return r;
}

int two_readers_end(void **state)
{
    actor_end_all();
    relock_gate_open(&turns.goes_on);
    relock_loop_stop(loop);
    pubsub = relock_pubsub_free(pubsub);
    reading = relock_reading_free(reading);
    loop = relock_loop_free(loop);
    return talk_end(state);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

void stop_io(void)
{
    atomic_store(&turns.stops, true);
    relock_loop_wake(loop);
    assert_true(relock_gate_wait(&turns.done, soon()));
}

void let_io_go_on(void)
{
    relock_gate_open(&turns.goes_on);
}

void have_a_turn(atomic_bool *order)
{
    atomic_store(order, true);
    stop_io();
    let_io_go_on();
}

/* ---- the connection ------------------------------------------------------------------------ */

void pretend_to_poll(bool polls)
{
    relock_reading_lock(reading);
    reading->shared.polled = polls ? &pubsub->conn : NULL;
    reading->shared.n_waiting = polls ? 1 : 0;
    relock_reading_unlock(reading);
}

bool is_left(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = pubsub->conn.left_until_ms != RELOCK_NEVER;
    relock_reading_unlock(reading);
    return is;
}

bool is_polled(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = reading->shared.polled == &pubsub->conn;
    relock_reading_unlock(reading);
    return is;
}

bool is_not_polled(void *arg)
{
    return !is_polled(arg);
}

static bool is_awaited(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = reading->shared.n_waiting > 0;
    relock_reading_unlock(reading);
    return is;
}

void leave_a_message(void)
{
    pretend_to_poll(true);
    atomic_store(&turns.stops_when_left, true);
    script_answer(script, MESSAGE("a"));
    assert_true(relock_gate_wait(&turns.done, soon()));
}

static bool is_left_for_long(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = !ev_is_active(&pubsub->conn.io) && pubsub->conn.left_until_ms == RELOCK_NEVER;
    relock_reading_unlock(reading);
    return is;
}

void leave_the_socket(void)
{
    leave_a_message();
    let_io_go_on();
    assert_true(relock_gate_wait(&heard, soon()));
    assert_true(wait_until(is_left_for_long, NULL, SOON_MS));
    stop_io(); /* the turn in which it left it is over */
    let_io_go_on();
}

/* ---- threads that wait --------------------------------------------------------------------- */

int wait_for(void *arg)
{
    uint64_t until_ms = soon();

    relock_direct_wait(reading, &pubsub, arg, until_ms);
    return relock_clock_now_ms() < until_ms;
}

struct actor *begin_to_wait(struct relock_gate *gate)
{
    struct actor *actor = actor_start();

    actor_begin(actor, wait_for, gate);
    assert_true(wait_until(is_awaited, NULL, SOON_MS));
    return actor;
}

static struct relock_gate alone;

struct actor *begin_to_wait_alone(void)
{
    relock_gate_init(&alone);
    return begin_to_wait(&alone);
}

struct actor *begin_to_poll(void)
{
    struct actor *actor = begin_to_wait_alone();

    assert_true(wait_until(is_polled, NULL, SOON_MS));
    return actor;
}

void end_waiting(struct actor *actor)
{
    relock_gate_open(&alone);
    assert_int_equal(actor_result(actor), true);
}

void nobody_waits(void)
{
    assert_false(is_polled(NULL));
    assert_false(is_awaited(NULL));
}
