/*
 * Waiters for a plain lock leave it to another library now and then, when they have seen one. The
 * test sets the clock that a client has read of the server, so that a window begins now.
 */
#include "base/clock.h"
#include "lock/state/lock.h"
#include "lock/wake/wake.h"
#include "redis/lane/lane.h"
#include "support/actor.h"
#include "support/fixture.h"
#include "support/plain_peer.h"
#include "support/probe_wait.h"
#include "support/reactor.h"

#include <stdatomic.h>
#include <stdio.h>

#define WINDOW_MS 0 /* on the clock of the server: the first window */
#define QUIET_MS 64 /* before that */
#define CLOCK_IS_GOOD_MS 500

static struct relock_contention *contention_of(struct relock_lock *lock)
{
    return lock->resource->contention;
}

static bool has_seen_neighbours(void *lock)
{
    struct relock_client *client = ((struct relock_lock *)lock)->client;
    bool has_seen;

    relock_mutex_lock(&client->mutex);
    has_seen = contention_of(lock) && contention_of(lock)->room.neighbours_until_ms > 0;
    relock_mutex_unlock(&client->mutex);
    return has_seen;
}

/* A client whose waiters never recheck. */
static struct relock_client *calm(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){.recheck_ms = NEVER_MS});
}

/* A waiter has read who holds the lock, and sleeps until Redis reports a change. */
static bool sleeps(void *lock)
{
    struct relock_client *client = ((struct relock_lock *)lock)->client;
    bool is_on;

    relock_mutex_lock(&client->mutex);
    is_on = relock_vigil_is_on(((struct relock_lock *)lock)->resource);
    relock_mutex_unlock(&client->mutex);
    return is_on;
}

/* A client that has waited for the other library once. */
static struct relock_lock *neighbour_of(struct fixture *f, struct relock_client *client)
{
    struct relock_lock *lock = plain_handle(f, client);
    struct actor *waiting = actor_start();

    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, NEVER_MS));
    actor_begin_lock(waiting, lock);
    assert_true(wait_until(has_seen_neighbours, lock, SOON_MS));
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
    actor_end(waiting);
    return lock;
}

/* The clock of the server, as this client has read it, is at `server_ms`. */
static void set_clock(struct relock_lock *lock, uint64_t server_ms)
{
    struct relock_client *client = lock->client;
    uint64_t at_ms = relock_clock_now_ms();

    relock_mutex_lock(&client->mutex);
    contention_of(lock)->room = (struct relock_room){
        .neighbours_until_ms = at_ms + NEVER_MS,
        .ahead_ms = server_ms - at_ms,
        .fresh_until_ms = at_ms + NEVER_MS,
    };
    relock_mutex_unlock(&client->mutex);
}

static uint64_t room_end(struct relock_lock *lock)
{
    struct relock_client *client = lock->client;
    uint64_t ends_ms;

    relock_mutex_lock(&client->mutex);
    ends_ms = contention_of(lock)->room.ends_ms;
    relock_mutex_unlock(&client->mutex);
    return ends_ms;
}

static bool is_in_room(void *lock)
{
    return relock_clock_now_ms() < room_end(lock);
}

/* Nobody takes the lock before the room ends. */
static void assert_is_left_alone(struct fixture *f, struct relock_lock *lock)
{
    uint64_t ends_ms = room_end(lock);

    while (relock_clock_now_ms() < ends_ms) {
        bool is_held = probe_int(f->probe, "EXISTS orders") == 1;

        assert_true(!is_held || relock_clock_now_ms() >= ends_ms);
    }
}

/*
 * The owner that holds the lock releases it within a window, and the actor, or the thread itself,
 * wants it. On a slow machine the window may be over by then: the next one is tried. Returns
 * whether a room has begun at last, and is not over soon.
 */
static bool begins_room(struct relock_lock *lock, struct actor *waiting, bool is_waiting)
{
    uint64_t until_ms = deadline_in(SOON_MS);

    do {
        set_clock(lock, WINDOW_MS);
        assert_result(relock_unlock(lock), RELOCK_OK);
        if (!is_waiting)
            actor_begin_lock(waiting, lock);
        while (room_end(lock) == 0 && actor_is_busy(waiting))
            let_pass(1);
        if (room_end(lock) > relock_clock_now_ms() + QUIET_MS)
            return true;
        assert_result(actor_result(waiting), RELOCK_OK);
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
        if (is_waiting) {
            actor_begin_lock(waiting, lock);
            assert_true(wait_for_waiters(lock->client, 1));
        }
    } while (now_ms() < until_ms);
    return false;
}

static struct relock_lock *held_neighbour(struct fixture *f)
{
    struct relock_lock *lock = neighbour_of(f, calm(f));

    assert_result(relock_lock(lock), RELOCK_OK);
    return lock;
}

static void assert_gets_it(struct actor *waiting, struct relock_lock *lock)
{
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

/* ---- rooms --------------------------------------------------------------------------------- */

static void an_owner_that_wants_it_again_leaves_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = held_neighbour(f);
    struct actor *again = actor_start();

    assert_true(begins_room(lock, again, false));
    assert_is_left_alone(f, lock);
    assert_gets_it(again, lock);
}

/* It was about to be handed off. */
static void a_waiter_of_the_same_process_leaves_room(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.recheck_ms = NEVER_MS, .handoff_ms = NEVER_MS};
    struct relock_lock *lock = neighbour_of(f, fixture_client(f, &options));
    struct actor *waiting = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(lock->client, 1));
    assert_true(begins_room(lock, waiting, true));
    assert_is_left_alone(f, lock);
    assert_gets_it(waiting, lock);
}

/* A try has acquired it in the room, and the window is over. */
static void a_hold_is_not_handed_off_before_the_room_ends(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.recheck_ms = NEVER_MS, .handoff_ms = NEVER_MS};
    struct relock_lock *lock = neighbour_of(f, fixture_client(f, &options));
    struct actor *waiting = actor_start();
    uint64_t until_ms = deadline_in(SOON_MS), n_before;
    bool was_in_time;

    assert_result(relock_lock(lock), RELOCK_OK);
    do {
        actor_begin_lock(waiting, lock);
        assert_true(wait_for_waiters(lock->client, 1));
        n_before = stats_of(lock->client).passed_on;
        set_clock(lock, WINDOW_MS + RELOCK_ROOM_MS);
        relock_mutex_lock(&lock->client->mutex);
        contention_of(lock)->room.ends_ms = relock_clock_in(RELOCK_ROOM_MS);
        relock_mutex_unlock(&lock->client->mutex);
        assert_result(relock_unlock(lock), RELOCK_OK);
        was_in_time = is_in_room(lock);
        assert_gets_it(waiting, lock);
        if (was_in_time)
            assert_int_equal(stats_of(lock->client).passed_on, n_before);
        assert_result(relock_lock(lock), RELOCK_OK);
    } while (!was_in_time && now_ms() < until_ms);
    assert_true(was_in_time);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Neither knows of the other but by the clock of the server. */
static void all_clients_leave_the_same_room(void **state)
{
    enum { N = 4 };
    struct fixture *f = *state;
    struct relock_lock *held = held_neighbour(f), *locks[N];
    struct actor *waiting[N];
    uint64_t ends_ms = RELOCK_NEVER, until_ms = deadline_in(SOON_MS);
    bool have_begun;

    for (int i = 0; i < N; i++) {
        locks[i] = plain_handle(f, calm(f));
        waiting[i] = actor_start();
    }
    do {
        for (int i = 0; i < N; i++) {
            actor_begin_lock(waiting[i], locks[i]);
            assert_true(wait_until(sleeps, locks[i], SOON_MS));
        }
        for (int i = 0; i < N; i++)
            set_clock(locks[i], WINDOW_MS);
        assert_result(relock_unlock(held), RELOCK_OK);
        have_begun = true;
        ends_ms = RELOCK_NEVER;
        for (int i = 0; i < N; i++) {
            have_begun = wait_until(is_in_room, locks[i], QUIET_MS) && have_begun;
            ends_ms = relock_clock_sooner(ends_ms, room_end(locks[i]));
        }
        while (have_begun && relock_clock_now_ms() < ends_ms) {
            bool is_held = probe_int(f->probe, "EXISTS orders") == 1;

            assert_true(!is_held || relock_clock_now_ms() >= ends_ms);
        }
        for (int n = 0; n < N;) { /* in the order in which they get it */
            for (int i = 0; i < N; i++) {
                if (!waiting[i] || actor_is_busy(waiting[i]))
                    continue;
                assert_gets_it(waiting[i], locks[i]);
                actor_end(waiting[i]);
                waiting[i] = NULL;
                n++;
            }
            let_pass(1);
        }
        for (int i = 0; i < N; i++)
            waiting[i] = actor_start();
        assert_result(relock_lock(held), RELOCK_OK);
    } while (!have_begun && now_ms() < until_ms);
    assert_true(have_begun);
    assert_result(relock_unlock(held), RELOCK_OK);
}

static void an_asynchronous_call_leaves_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = held_neighbour(f);
    struct relock_events *events = reactor_events(lock->client);
    uint64_t until_ms = deadline_in(SOON_MS);
    struct outcome outcome;
    bool has_begun;

    do {
        set_clock(lock, WINDOW_MS);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(outcome_acquire(lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER}, events,
                                      &outcome),
                      RELOCK_OK);
        has_begun = wait_until(is_in_room, lock, QUIET_MS);
        if (has_begun)
            assert_is_left_alone(f, lock);
        assert_result(reactor_await(events, &outcome), RELOCK_OK);
        assert_result(reactor_release(lock, outcome.grant.owner, events), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
    } while (!has_begun && now_ms() < until_ms);
    assert_true(has_begun);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* Redis tells of each change in the room, so the client sees who uses it. */
static void a_client_sees_who_uses_the_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = held_neighbour(f);
    struct actor *again = actor_start();
    uint64_t until_ms = deadline_in(SOON_MS), ends_ms, seen_ms;
    bool has_seen;

    do {
        assert_true(begins_room(lock, again, false));
        ends_ms = room_end(lock);
        assert_true(wait_until(sleeps, lock, SOON_MS)); /* it has read that the lock is free */
        relock_mutex_lock(&lock->client->mutex);
        contention_of(lock)->room.neighbours_until_ms = 1;
        relock_mutex_unlock(&lock->client->mutex);
        assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, NEVER_MS));
        do {
            relock_mutex_lock(&lock->client->mutex);
            has_seen = contention_of(lock)->room.neighbours_until_ms > 1;
            relock_mutex_unlock(&lock->client->mutex);
            seen_ms = relock_clock_now_ms();
        } while (!has_seen && seen_ms < ends_ms);
        assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
        assert_gets_it(again, lock);
        assert_result(relock_lock(lock), RELOCK_OK);
    } while (!has_seen && now_ms() < until_ms);
    assert_true(has_seen);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* A report ends the sleep before the room, and nothing but time the one in it. */
static void a_sleep_in_a_room_is_no_wake(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_neighbour(f), *lock = plain_handle(f, calm(f));
    struct actor *waiting = actor_start();
    uint64_t until_ms = deadline_in(SOON_MS), wakes;
    bool has_begun;

    do {
        actor_begin_lock(waiting, lock);
        assert_true(wait_until(sleeps, lock, SOON_MS));
        set_clock(lock, WINDOW_MS);
        wakes = stats_of(lock->client).wakes;
        assert_result(relock_unlock(held), RELOCK_OK);
        assert_gets_it(waiting, lock);
        has_begun = room_end(lock) > 0;
        assert_int_equal(stats_of(lock->client).wakes, wakes + 1);
        assert_result(relock_lock(held), RELOCK_OK);
    } while (!has_begun && now_ms() < until_ms);
    assert_true(has_begun);
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* ---- who does not ---------------------------------------------------------------------------- */

static void without_another_library_nobody_leaves_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = plain_handle(f, fixture_client(f, NULL));
    struct relock_lock *theirs = plain_handle(f, fixture_client(f, NULL));
    struct actor *waiting = actor_start();

    assert_result(relock_lock(ours), RELOCK_OK);
    actor_begin_lock(waiting, theirs);
    assert_true(wait_for_waiters(theirs->client, 1));
    let_pass(10 * QUIET_MS); /* it reads the token of the holder */
    assert_false(has_seen_neighbours(theirs));
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_gets_it(waiting, theirs);
    assert_int_equal(room_end(theirs), 0);
}

static void a_try_leaves_no_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = held_neighbour(f);

    set_clock(lock, WINDOW_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_int_equal(room_end(lock), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The other library has just had it. */
static void after_a_hold_of_the_other_library_nobody_leaves_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, calm(f));

    for (int i = 0; i < 3; i++) {
        struct actor *waiting = actor_start();

        assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, NEVER_MS));
        actor_begin_lock(waiting, lock);
        assert_true(wait_until(sleeps, lock, SOON_MS));
        relock_mutex_lock(&lock->client->mutex);
        contention_of(lock)->room.ahead_ms = WINDOW_MS - relock_clock_now_ms();
        relock_mutex_unlock(&lock->client->mutex);
        assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
        assert_gets_it(waiting, lock);
        assert_int_equal(room_end(lock), 0);
        actor_end(waiting);
        let_pass(2 * RELOCK_ROOM_MS);
    }
}

/* If this client has not wanted the lock for so long, it was not in the way. */
static void a_call_after_a_pause_leaves_no_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = held_neighbour(f);

    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(2 * RELOCK_ROOM_MS);
    set_clock(lock, WINDOW_MS);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(room_end(lock), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- the end of a room --------------------------------------------------------------------- */

/* A call that has asked before: it would find the lock free. */
static void a_waiter_asks_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_neighbour(f), *lock = plain_handle(f, calm(f));
    uint64_t until_ms = deadline_in(SOON_MS);
    bool was_in_room;

    do {
        struct actor *waiting = actor_start();
        uint64_t began_ms = now_ms(), ends_ms;
        int r;

        actor_begin_timedlock(waiting, lock, 6 * RELOCK_ROOM_MS);
        assert_true(wait_until(sleeps, lock, SOON_MS));
        let_pass(relock_clock_left(now_ms(), began_ms + 11 * RELOCK_ROOM_MS / 2));
        set_clock(lock, WINDOW_MS);
        assert_result(relock_unlock(held), RELOCK_OK);
        r = actor_result(waiting);
        ends_ms = room_end(lock);
        was_in_room = ends_ms > 0 && relock_clock_now_ms() < ends_ms;
        if (was_in_room)
            assert_result(r, RELOCK_OK);
        if (r == RELOCK_OK)
            assert_result(actor_unlock(waiting, lock), RELOCK_OK);
        actor_end(waiting);
        assert_result(relock_lock(held), RELOCK_OK);
    } while (!was_in_room && now_ms() < until_ms);
    assert_true(was_in_room);
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* It does not know whether the lock is held, so Redis would get the least time for an answer. */
static void a_short_wait_is_not_longer_in_a_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = held_neighbour(f);
    uint64_t until_ms = deadline_in(SOON_MS);
    bool was_short;

    do {
        uint64_t began_ms, took_ms;

        set_clock(lock, WINDOW_MS);
        assert_result(relock_unlock(lock), RELOCK_OK);
        began_ms = now_ms();
        assert_result(relock_timedlock(lock, 5), RELOCK_OK);
        took_ms = now_ms() - began_ms;
        was_short = room_end(lock) > 0 && took_ms < RELOCK_ANSWER_MIN_MS;
    } while (!was_short && now_ms() < until_ms);
    assert_true(was_short);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_cancel_ends_a_wait_in_a_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = held_neighbour(f);
    struct actor *waiting = actor_start();
    struct relock_cancel *cancel;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    uint64_t until_ms = deadline_in(SOON_MS);
    int r;

    do {
        uint64_t ends_ms = RELOCK_NEVER;

        assert_result(relock_cancel_new(&cancel), RELOCK_OK);
        how.cancel = cancel;
        set_clock(lock, WINDOW_MS);
        assert_result(relock_unlock(lock), RELOCK_OK);
        actor_begin_acquire(waiting, lock, &how);
        if (wait_until(is_in_room, lock, QUIET_MS))
            ends_ms = room_end(lock);
        relock_cancel_fire(cancel);
        r = actor_result(waiting);
        relock_cancel_free(cancel);
        if (r == RELOCK_CANCELLED) {
            assert_true(ends_ms == RELOCK_NEVER || probe_int(f->probe, "EXISTS orders") == 0);
            break;
        }
        assert_result(r, RELOCK_OK); /* too late */
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
    } while (now_ms() < until_ms);
    assert_result(r, RELOCK_CANCELLED);
}

/* ---- the clock ----------------------------------------------------------------------------- */

static void a_client_reads_the_clock_of_the_server(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = neighbour_of(f, calm(f));
    long long s, us;
    int64_t difference_ms;

    assert_int_equal(sscanf(probe_list(f->probe, "TIME"), "%lld %lld", &s, &us), 2);
    relock_mutex_lock(&lock->client->mutex);
    difference_ms = (int64_t)((uint64_t)(s * 1000 + us / 1000) - relock_clock_now_ms() -
                              contention_of(lock)->room.ahead_ms);
    relock_mutex_unlock(&lock->client->mutex);
    assert_in_range(difference_ms + CLOCK_IS_GOOD_MS, 0, 2 * CLOCK_IS_GOOD_MS);
}

/* ---- the line ------------------------------------------------------------------------------ */

/* A lock whose clients wait in a line, of a client that knows of the other library. */
static struct relock_lock *lock_with_line(struct fixture *f)
{
    struct relock_options options = {.recheck_ms = NEVER_MS, .flags = RELOCK_ANNOUNCE_PLAIN};

    return neighbour_of(f, fixture_client(f, &options));
}

/* Until when the lock is reserved for the client whose turn it is, on the clock of this process; 0
 * if it is not. */
static uint64_t reserved_until(struct fixture *f)
{
    long long until_ms = probe_int(f->probe, "HGET relock_waiters:turn:{orders} until"), s, us;

    if (until_ms <= 0 || sscanf(probe_list(f->probe, "TIME"), "%lld %lld", &s, &us) != 2)
        return 0;
    return relock_clock_now_ms() + (uint64_t)(until_ms - (s * 1000 + us / 1000));
}

/* The client behind it asks when the reservation is over. On a slow machine, the message of the
 * release may come too late for a room. */
static void a_client_whose_turn_it_is_keeps_it_in_a_room(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = lock_with_line(f), *locks[2];
    struct actor *waiting[2];
    uint64_t until_ms = deadline_in(SOON_MS), reserved_ms;
    bool has_kept = false;

    for (int i = 0; i < 2; i++)
        locks[i] = lock_with_line(f);
    assert_result(relock_lock(held), RELOCK_OK);
    do {
        for (int i = 0; i < 2; i++) {
            waiting[i] = actor_start();
            actor_begin_lock(waiting[i], locks[i]);
            assert_true(probe_wait_in_line(f->probe, "orders", i + 1));
        }
        set_clock(locks[0], WINDOW_MS);
        assert_result(relock_unlock(held), RELOCK_OK);
        reserved_ms = reserved_until(f);
        while (actor_is_busy(waiting[0]) && actor_is_busy(waiting[1]))
            let_pass(1);
        if (room_end(locks[0]) > 0 && room_end(locks[0]) < reserved_ms)
            has_kept = !actor_is_busy(waiting[0]);
        for (int i = 0, first = actor_is_busy(waiting[0]); i < 2; i++)
            assert_gets_it(waiting[i ^ first], locks[i ^ first]);
        for (int i = 0; i < 2; i++)
            actor_end(waiting[i]);
        assert_result(relock_lock(held), RELOCK_OK);
    } while (!has_kept && now_ms() < until_ms);
    assert_true(has_kept);
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* ---- a whole neighbourhood ------------------------------------------------------------------- */

#define N_CLIENTS 2
#define N_POLLS 60 /* of 100 ms, until the other library gets the lock, at most */
#define POLL_MS 100
#define HOLD_MS 20
#define N_HOLDS 6

static atomic_bool is_over;

/* Holds the lock again and again. */
static int work(void *lock)
{
    int r;

    while (!atomic_load(&is_over)) {
        r = relock_lock(lock);
        if (r < 0)
            return r;
        let_pass(HOLD_MS);
        r = relock_unlock(lock);
        if (r < 0)
            return r;
    }
    return RELOCK_OK;
}

/* As redis-py with its default pause. It gets the lock first, so the others know of it. */
static void a_library_that_polls_gets_the_lock_again_and_again(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *locks[N_CLIENTS];
    struct actor *workers[N_CLIENTS];
    unsigned n_polls[N_HOLDS] = {0};

    for (int i = 0; i < N_CLIENTS; i++)
        locks[i] = neighbour_of(f, calm(f));
    atomic_store(&is_over, false);
    for (int i = 0; i < N_CLIENTS; i++) {
        workers[i] = actor_start();
        actor_begin(workers[i], work, locks[i]);
    }
    for (int i = 0; i < N_HOLDS; i++) {
        do {
            let_pass(POLL_MS);
            n_polls[i]++;
        } while (!plain_peer_lock(f->probe, "orders", PLAIN_PEER, NEVER_MS) &&
                 n_polls[i] < N_POLLS);
        if (n_polls[i] == N_POLLS)
            break;
        let_pass(HOLD_MS);
        (void)plain_peer_unlock(f->probe, "orders", PLAIN_PEER);
    }
    atomic_store(&is_over, true);
    assert_results(workers, N_CLIENTS, RELOCK_OK);
    for (int i = 0; i < N_HOLDS; i++) {
        print_message("after %u polls\n", n_polls[i]);
        assert_true(n_polls[i] < N_POLLS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(an_owner_that_wants_it_again_leaves_room),
        SERVER_TEST(a_waiter_of_the_same_process_leaves_room),
        SERVER_TEST(a_hold_is_not_handed_off_before_the_room_ends),
        SERVER_TEST(all_clients_leave_the_same_room),
        SERVER_TEST(an_asynchronous_call_leaves_room),
        SERVER_TEST(a_client_sees_who_uses_the_room),
        SERVER_TEST(a_sleep_in_a_room_is_no_wake),
        SERVER_TEST(without_another_library_nobody_leaves_room),
        SERVER_TEST(a_try_leaves_no_room),
        SERVER_TEST(after_a_hold_of_the_other_library_nobody_leaves_room),
        SERVER_TEST(a_call_after_a_pause_leaves_no_room),
        SERVER_TEST(a_waiter_asks_at_its_deadline),
        SERVER_TEST(a_short_wait_is_not_longer_in_a_room),
        SERVER_TEST(a_cancel_ends_a_wait_in_a_room),
        SERVER_TEST(a_client_reads_the_clock_of_the_server),
        SERVER_TEST(a_client_whose_turn_it_is_keeps_it_in_a_room),
        SERVER_TEST(a_library_that_polls_gets_the_lock_again_and_again),
    };

    return SERVER_TESTS_RUN(tests);
}
