/*
 * Holds of multi and red locks are holds like any other: their leases are kept while a call
 * collects other locks, a level of its own makes them their owner's, and a loss ends all that
 * belongs to them.
 */
#include "stopping.h"
#include "support/multi.h"
#include "support/red.h"

#define N_SERVERS 3

/* A lease that has grown by so much was renewed. */
#define RENEWED_MS 100

/* ---- the state in Redis -------------------------------------------------------------------- */

struct lease {
    struct probe *probe;
    const char *key;
    long long pttl_ms;
    unsigned n_renewals; /* seen */
    unsigned enough;
};

static bool is_gone_or_renewed(void *arg)
{
    struct lease *lease = arg;
    long long pttl_ms = probe_pttl(lease->probe, lease->key);

    lease->n_renewals += pttl_ms > lease->pttl_ms + RENEWED_MS;
    lease->pttl_ms = pttl_ms;
    return pttl_ms == -2 || lease->n_renewals >= lease->enough;
}

/* Whether the lease ends after fewer renewals than that. */
static bool ends(struct probe *probe, const char *key, unsigned n_renewals)
{
    struct lease lease = {probe, key, probe_pttl(probe, key), 0, n_renewals};

    assert_true(wait_until(is_gone_or_renewed, &lease, SOON_MS));
    return lease.pttl_ms == -2;
}

/* ---- red locks ----------------------------------------------------------------------------- */

static const char *const names[N_SERVERS] = {"a", "b", "c"};

static bool have_all(void *arg)
{
    struct servers *s = arg;
    unsigned n = 0;

    for (size_t i = 0; i < N_SERVERS; i++)
        n += probe_int(s->probe[i], "EXISTS %s", names[i]) == 1;
    return n == N_SERVERS;
}

/* With a fixed lease, a late server is not asked again. Only connected servers are in time. */
static void acquire_on_all(struct servers *s, struct actor *actor, struct relock_lock *lock,
                           const struct relock_how *how)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);

    for (;;) {
        int r = actor_acquire(actor, lock, how);

        if (r == RELOCK_OK && wait_until(have_all, s, 100))
            return;
        assert_true(now_ms() < deadline_ms);
        if (r == RELOCK_OK)
            (void)actor_unlock(actor, lock);
        else
            assert_result(r, RELOCK_E_CONN);
    }
}

static int nest_and_stop(void *lock)
{
    int r;

    stops_at = 1 + N_SERVERS; /* on the red lock's client, then on each vote's: before the last */
    r = relock_trylock(lock);
    stops_at = 0;
    return r;
}

struct held {
    struct relock_lock *lock;
    uint64_t owner;
};

static bool is_lost(void *arg)
{
    const struct held *held = arg;

    return relock_check(held->lock, held->owner, NULL) == RELOCK_LOST;
}

static bool is_acquired(void *arg)
{
    const struct held *held = arg;

    return relock_check(held->lock, held->owner, NULL) == RELOCK_OK;
}

/* The votes of "a" and "b" are renewed already when they are deleted; the vote of "c" remains. */
static void votes_end_with_a_quorum_that_is_lost_while_a_level_asks_for_renewal(void **state)
{
    struct servers *s = *state;
    struct relock_how how = {.lease_ms = outlast_ms(4000)};
    struct relock_lock *members[N_SERVERS], *lock;
    struct actor *actor = actor_start();
    struct held held;
    bool ended;

    for (size_t i = 0; i < N_SERVERS; i++)
        members[i] = fixture_lock(s->f, servers_client(s, i, NULL), names[i]);
    lock = red_lock_of(s->f, members, N_SERVERS);
    acquire_on_all(s, actor, lock, &how);
    held = (struct held){lock, actor_grant(actor).owner};
    actor_begin(actor, nest_and_stop, lock);
    assert_true(stopping_wait(actor));
    probe_int(s->probe[0], "DEL a");
    probe_int(s->probe[1], "DEL b");
    assert_true(wait_until(is_lost, &held, SOON_MS));
    (void)losses_wait(s->f->losses, 1, 2000); /* or later, by that thread */
    stopping_go_on();
    (void)actor_result(actor);
    ended = ends(s->probe[2], "c", 2); /* a renewal may have been in flight */
    assert_result(actor_unlock(actor, lock), RELOCK_LOST);
    (void)actor_unlock(actor, lock); /* another level, if the nesting came first */
    assert_true(ended);
}

/* ---- a call that fails --------------------------------------------------------------------- */

static void a_level_with_a_lease_outlives_a_call_that_released_the_member(void **state)
{
    struct servers *s = *state;
    struct relock_client *client = servers_client(s, 0, NULL);
    struct relock_lock *a = fixture_lock(s->f, client, "a");
    struct relock_lock *b = fixture_lock(s->f, client, "b");
    struct relock_lock *theirs = fixture_lock(s->f, servers_client(s, 0, NULL), "b");
    struct relock_lock *multi = fixture_multi(s->f, a, b, NULL);
    struct relock_cancel *cancel;
    struct relock_how how = {.lease_ms = outlast_ms(2000), .owner = relock_owner_new()};
    struct relock_how waits = how;
    struct actor *actor = actor_start();
    bool ended;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    waits.wait_ms = RELOCK_FOREVER;
    waits.cancel = cancel;
    assert_result(relock_lock(theirs), RELOCK_OK);
    actor_begin_acquire(actor, multi, &waits);
    assert_true(wait_behind_a(client, client));
    assert_result(relock_acquire(a, &how, NULL), RELOCK_OK);
    relock_cancel_fire(cancel);
    assert_result(actor_result(actor), RELOCK_CANCELLED);
    cancel = relock_cancel_free(cancel);
    ended = ends(s->probe[0], "a", 2); /* a renewal may have been in flight */
    assert_result(relock_release(a, how.owner), ended ? RELOCK_LOST : RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_true(ended);
}

struct level {
    struct relock_lock *lock;
    struct relock_how how;
};

/* It stops before it asks the last server. */
static int nest_with_lease_and_stop(void *arg)
{
    struct level *level = arg;
    int r;

    stops_at = 1 + N_SERVERS;
    r = relock_acquire(level->lock, &level->how, NULL);
    stops_at = 0;
    return r;
}

/* Meanwhile another thread adds a level to the member, which is its own then, and stops inside. */
static void a_call_releases_a_red_member_without_waiting_for_a_level_of_it(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *b = fixture_lock(s->f, red.clients[0], "z");
    struct relock_lock *theirs = fixture_lock(s->f, servers_client(s, 0, NULL), "z");
    struct relock_lock *multi = fixture_multi(s->f, red.lock, b, NULL);
    struct level level = {red.lock, {.lease_ms = outlast_ms(4000), .owner = relock_owner_new()}};
    struct relock_how waits = {outlast_ms(1000), outlast_ms(2000), .owner = level.how.owner};
    struct held held = {red.lock, level.how.owner};
    struct actor *collector = actor_start(), *other = actor_start();
    bool ended;
    int r;

    red_settle(s, &red, s->n);
    assert_result(relock_lock(theirs), RELOCK_OK);
    actor_begin_acquire(collector, multi, &waits);
    assert_true(red_wait_keys(s, s->n));
    assert_true(wait_until(is_acquired, &held, SOON_MS));
    assert_result(relock_acquire(red.lock, &level.how, NULL), RELOCK_OK);
    actor_begin(other, nest_with_lease_and_stop, &level);
    assert_true(stopping_wait(other));
    r = actor_result(collector);
    stopping_go_on();
    assert_result(actor_result(other), RELOCK_OK);
    assert_result(r, RELOCK_TIMEOUT);
    ended = ends(s->probe[1], RED_NAME, 2);
    assert_result(relock_release(red.lock, level.how.owner), ended ? RELOCK_LOST : RELOCK_OK);
    assert_result(relock_release(red.lock, level.how.owner), ended ? RELOCK_LOST : RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_true(ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(votes_end_with_a_quorum_that_is_lost_while_a_level_asks_for_renewal),
        SERVERS_TEST(a_level_with_a_lease_outlives_a_call_that_released_the_member),
        SERVERS_TEST(a_call_releases_a_red_member_without_waiting_for_a_level_of_it),
    };

    return THREE_SERVERS_TESTS_RUN(tests);
}
