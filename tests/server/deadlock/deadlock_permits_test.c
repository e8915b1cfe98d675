/*
 * Owners that wait for permits while they hold what others want: one wait is refused if too few
 * permits can come back, and none if enough can.
 */
#include "support/probe_counts.h"
#include "support/ring.h"

#define LOOKS 8 /* of two clients: more than a proof takes */
#define CROWD_N 40
#define PEER_ID "0123456789abcdef" /* Redisson's are random */

/* Semaphores of `n` permits each, of the names of the ring. */
static void set_permits(struct fixture *f, int n_semaphores, int n)
{
    for (int i = 0; i < n_semaphores; i++)
        assert_string_equal(probe_text(f->probe, "SET ring:%d %d", i, n), "OK");
}

static struct ring ring_of_permits(struct fixture *f, struct relock_client *const *clients, int n)
{
    static const char *const names[] = {"ring:0", "ring:1", "ring:2"};

    set_permits(f, n, 1);
    return ring_of_locks(f, clients, names, n, relock_semaphore_new);
}

static void forget(struct fixture *f)
{
    (void)probe_int(f->probe, "DEL ring:0 ring:1 ring:2");
    forget_counters(f->probe);
    assert_true(wait_for_no_keys(f->probe));
}

static void two_semaphores_of_one_client_are_a_deadlock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = ring_client(f, 0, DEADLOCK_MS);
    struct ring ring = ring_of_permits(f, (struct relock_client *[]){client, client}, 2);

    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
    assert_true(log_wait_n(f->log, "this call would deadlock: this owner holds ring:", 1, SOON_MS));
    forget(f);
}

static void play_clients(struct fixture *f, int n)
{
    struct relock_client *clients[3];
    struct ring ring;

    for (int i = 0; i < n; i++)
        clients[i] = ring_client(f, i, DEADLOCK_MS);
    ring = ring_of_permits(f, clients, n);
    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
    forget(f);
}

static void semaphores_of_two_clients_are_a_deadlock(void **state)
{
    play_clients(*state, 2);
}

static void semaphores_of_three_clients_are_a_deadlock(void **state)
{
    play_clients(*state, 3);
}

/* An owner has one permit of two and wants both. */
static void an_owner_that_waits_for_its_own_permits_is_a_deadlock(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock =
        fixture_lock_of(f, ring_client(f, 0, DEADLOCK_MS), "ring:0", relock_semaphore_new);

    set_permits(f, 1, 2);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(
        relock_acquire(lock, &(struct relock_how){.permits = 2, .wait_ms = (int64_t)SOON_MS}, NULL),
        RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f);
}

/* ---- two owners and a third one ------------------------------------------------------------- */

/*
 * `one` has a permit of two and wants the lock; `two` has the lock and wants a permit, which
 * whoever has the other permit could give back.
 */
struct scene {
    struct relock_client *clients[2];
    struct relock_lock *permits[2], *lock[2];
    struct actor *one, *two;
};

static struct scene scene_of(struct fixture *f, fixture_constructor_fn *make)
{
    struct scene s = {.one = actor_start(), .two = actor_start()};

    set_permits(f, 1, 2);
    for (int i = 0; i < 2; i++) {
        s.clients[i] = ring_client(f, i, DEADLOCK_MS);
        s.permits[i] = fixture_lock_of(f, s.clients[i], "ring:0", relock_semaphore_new);
        s.lock[i] = fixture_lock_of(f, s.clients[i], "other", make);
    }
    assert_result(actor_lock(s.one, s.permits[0]), RELOCK_OK);
    assert_result(actor_lock(s.two, s.lock[1]), RELOCK_OK);
    return s;
}

static void close_scene(const struct scene *s)
{
    actor_begin_lock(s->one, s->lock[0]);
    assert_true(wait_for_waiters(s->clients[0], 1));
    actor_begin_lock(s->two, s->permits[1]);
    assert_true(wait_for_waiters(s->clients[1], 1));
}

struct looks {
    struct fixture *f;
    long long n;
};

/* Each asks once who has the lock, and nothing else here runs this command. */
static long long looks_so_far(struct fixture *f)
{
    return probe_calls(f->probe, "hgetall");
}

static bool have_looked(void *arg)
{
    const struct looks *looks = arg;

    return looks_so_far(looks->f) >= looks->n;
}

/* Several looks have found no deadlock. */
static void assert_none_is_refused(struct fixture *f, const struct scene *s)
{
    struct looks looks = {f, looks_so_far(f) + LOOKS};

    assert_true(wait_until(have_looked, &looks, SOON_MS));
    assert_true(actor_is_busy(s->one));
    assert_true(actor_is_busy(s->two));
}

/* `two` gets its permit and gives the lock to `one`. */
static void end_scene(struct fixture *f, const struct scene *s)
{
    assert_result(actor_result(s->two), RELOCK_OK);
    assert_result(actor_unlock(s->two, s->permits[1]), RELOCK_OK);
    assert_result(actor_unlock(s->two, s->lock[1]), RELOCK_OK);
    assert_result(actor_result(s->one), RELOCK_OK);
    assert_result(actor_unlock(s->one, s->lock[0]), RELOCK_OK);
    assert_result(actor_unlock(s->one, s->permits[0]), RELOCK_OK);
    assert_int_equal(stats_of(s->clients[0]).deadlocks + stats_of(s->clients[1]).deadlocks, 0);
    forget(f);
}

static void a_holder_that_is_not_blocked_ends_the_search(void **state)
{
    struct fixture *f = *state;
    struct scene s = scene_of(f, relock_lock_new);

    assert_result(relock_lock(s.permits[0]), RELOCK_OK);
    close_scene(&s);
    assert_none_is_refused(f, &s);
    assert_result(relock_unlock(s.permits[0]), RELOCK_OK);
    end_scene(f, &s);
}

/* It holds a lock, so its wait is published, too; but its time is over before the proof. */
static void a_holder_whose_wait_ends_is_not_blocked(void **state)
{
    struct fixture *f = *state;
    struct scene s = scene_of(f, relock_lock_new);
    struct actor *three = actor_start();

    assert_result(actor_lock(three, s.permits[0]), RELOCK_OK);
    close_scene(&s);
    assert_result(actor_wait_out(three, s.lock[0], DEADLOCK_MS / 4), RELOCK_TIMEOUT);
    assert_none_is_refused(f, &s);
    assert_result(actor_unlock(three, s.permits[0]), RELOCK_OK);
    end_scene(f, &s);
}

static void permits_that_expire_end_the_search(void **state)
{
    struct fixture *f = *state;
    struct scene s = scene_of(f, relock_lock_new);

    assert_result(
        relock_acquire(s.permits[0], &(struct relock_how){.lease_ms = 60000, .permits = 1}, NULL),
        RELOCK_OK);
    close_scene(&s);
    assert_none_is_refused(f, &s);
    assert_result(relock_unlock(s.permits[0]), RELOCK_OK);
    end_scene(f, &s);
}

/* The owner waits, but the lease ends by itself. */
static void permits_of_a_waiting_owner_that_expire_end_the_search(void **state)
{
    struct fixture *f = *state;
    struct scene s = scene_of(f, relock_lock_new);
    struct actor *three = actor_start();

    assert_result(
        actor_acquire(three, s.permits[0], &(struct relock_how){.lease_ms = 60000, .permits = 1}),
        RELOCK_OK);
    close_scene(&s);
    actor_begin_lock(three, s.lock[0]);
    assert_true(wait_for_waiters(s.clients[0], 2));
    assert_none_is_refused(f, &s);
    assert_result(relock_semaphore_add(s.permits[0], 1), RELOCK_OK);
    assert_result(actor_result(s.two), RELOCK_OK);
    assert_result(actor_unlock(s.two, s.permits[1]), RELOCK_OK);
    assert_result(actor_unlock(s.two, s.lock[1]), RELOCK_OK);
    assert_result(actor_result(s.one), RELOCK_OK);
    assert_result(actor_unlock(s.one, s.lock[0]), RELOCK_OK);
    assert_result(actor_unlock(s.one, s.permits[0]), RELOCK_OK);
    assert_result(actor_result(three), RELOCK_OK);
    assert_result(actor_unlock(three, s.lock[0]), RELOCK_OK);
    assert_result(actor_unlock(three, s.permits[0]), RELOCK_OK);
    assert_int_equal(stats_of(s.clients[0]).deadlocks + stats_of(s.clients[1]).deadlocks, 0);
    forget(f);
}

static void a_permit_of_redissons_ends_the_search(void **state)
{
    struct fixture *f = *state;
    struct scene s = scene_of(f, relock_lock_new);

    assert_int_equal(probe_int(f->probe, "DECR ring:0"), 0);
    assert_int_equal(probe_int(f->probe, "ZADD {ring:0}:timeout 92233720368547 " PEER_ID), 1);
    close_scene(&s);
    assert_none_is_refused(f, &s);
    assert_int_equal(probe_int(f->probe, "ZREM {ring:0}:timeout " PEER_ID), 1);
    assert_int_equal(probe_int(f->probe, "INCR ring:0"), 1);
    assert_int_equal(probe_int(f->probe, "PUBLISH redisson_sc:{ring:0} 1") >= 0, 1);
    end_scene(f, &s);
}

/* ---- all are blocked ------------------------------------------------------------------------- */

struct turn {
    struct relock_lock *has, *wants;
};

/* Then releases what it has, whether it was refused or not. */
static int take_turn(void *arg)
{
    const struct turn *turn = arg;
    int r = relock_timedlock(turn->wants, (int64_t)SOON_MS / 2);

    if (r == RELOCK_OK && relock_unlock(turn->wants) != RELOCK_OK)
        return RELOCK_E_SERVER;
    return relock_unlock(turn->has) == RELOCK_OK ? r : RELOCK_E_SERVER;
}

/* A third owner has the other permit, and wants the lock, too. */
static void play_all_blocked(struct fixture *f, fixture_constructor_fn *make)
{
    struct scene s = scene_of(f, make);
    struct turn turns[] = {
        {s.permits[0], s.lock[0]}, {s.lock[1], s.permits[1]}, {s.permits[0], s.lock[0]}};
    struct actor *actors[] = {s.one, s.two, actor_start()};
    int n_refused = 0;

    assert_result(actor_lock(actors[2], s.permits[0]), RELOCK_OK);
    for (int i = 0; i < 3; i++)
        actor_begin(actors[i], take_turn, &turns[i]);
    for (int i = 0; i < 3; i++) {
        int r = actor_result(actors[i]);

        n_refused += r == RELOCK_E_DEADLOCK;
        assert_true(r == RELOCK_OK || r == RELOCK_E_DEADLOCK);
    }
    assert_int_equal(n_refused, 1);
    assert_int_equal(probe_int(f->probe, "GET ring:0"), 2);
    forget(f);
}

static void permits_and_a_lock_are_a_deadlock_if_all_holders_are_blocked(void **state)
{
    play_all_blocked(*state, relock_lock_new);
    play_all_blocked(*state, relock_plainlock_new);
    play_all_blocked(*state, relock_fairlock_new);
}

/* Each owner has a permit and wants another one, and there are no others: all permits are in the
 * way of each of them. */
static void each_of_many_owners_wants_one_more_permit(void **state)
{
    struct fixture *f = *state;
    struct turn turns[2];
    struct actor *actors[CROWD_N];
    int n_refused = 0;

    set_permits(f, 1, CROWD_N);
    for (int i = 0; i < 2; i++) {
        struct relock_client *client = ring_client(f, i, DEADLOCK_MS);

        turns[i].has = fixture_lock_of(f, client, "ring:0", relock_semaphore_new);
        turns[i].wants = turns[i].has;
    }
    for (int i = 0; i < CROWD_N; i++) {
        actors[i] = actor_start();
        assert_result(actor_lock(actors[i], turns[i % 2].has), RELOCK_OK);
    }
    for (int i = 0; i < CROWD_N; i++)
        actor_begin(actors[i], take_turn, &turns[i % 2]);
    for (int i = 0; i < CROWD_N; i++) {
        int r = actor_result(actors[i]);

        n_refused += r == RELOCK_E_DEADLOCK;
        assert_true(r == RELOCK_OK || r == RELOCK_E_DEADLOCK);
    }
    assert_int_equal(n_refused, 1);
    assert_int_equal(probe_int(f->probe, "GET ring:0"), CROWD_N);
    forget(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(two_semaphores_of_one_client_are_a_deadlock),
        SERVER_TEST(semaphores_of_two_clients_are_a_deadlock),
        SERVER_TEST(semaphores_of_three_clients_are_a_deadlock),
        SERVER_TEST(an_owner_that_waits_for_its_own_permits_is_a_deadlock),
        SERVER_TEST(a_holder_that_is_not_blocked_ends_the_search),
        SERVER_TEST(a_holder_whose_wait_ends_is_not_blocked),
        SERVER_TEST(permits_that_expire_end_the_search),
        SERVER_TEST(permits_of_a_waiting_owner_that_expire_end_the_search),
        SERVER_TEST(a_permit_of_redissons_ends_the_search),
        SERVER_TEST(permits_and_a_lock_are_a_deadlock_if_all_holders_are_blocked),
        SERVER_TEST(each_of_many_owners_wants_one_more_permit),
    };

    return SERVER_TESTS_RUN(tests);
}
