/*
 * Holds of multi and red locks are holds like any other: their leases are kept while a call
 * collects other locks, a level of its own makes them their owner's, and a loss ends all that
 * belongs to them.
 */
#include "support/multi.h"
#include "support/red.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

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

/* ---- a thread that stops inside a call ----------------------------------------------------- */

/* A call on a client disables thread cancellation and asks for the state before. */
static _Thread_local int stops_at; /* that call of this thread; 0: at none */
static sem_t has_stopped, may_go_on;

int pthread_setcancelstate(int state, int *before)
{
    int (*next)(int, int *) = NULL;

    *(void **)&next = dlsym(RTLD_NEXT, "pthread_setcancelstate");
    if (before && stops_at > 0 && --stops_at == 0) {
        sem_post(&has_stopped);
        while (sem_wait(&may_go_on) != 0)
            continue;
    }
    return next(state, before);
}

static bool has_stopped_or_ended(void *actor)
{
    return sem_trywait(&has_stopped) == 0 || !actor_is_busy(actor);
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
    assert_true(wait_until(has_stopped_or_ended, actor, SOON_MS));
    probe_int(s->probe[0], "DEL a");
    probe_int(s->probe[1], "DEL b");
    assert_true(wait_until(is_lost, &held, SOON_MS));
    (void)losses_wait(s->f->losses, 1, 2000); /* or later, by that thread */
    sem_post(&may_go_on);
    (void)actor_result(actor);
    ended = ends(s->probe[2], "c", 2); /* a renewal may have been in flight */
    assert_result(actor_unlock(actor, lock), RELOCK_LOST);
    (void)actor_unlock(actor, lock); /* another level, if the nesting came first */
    assert_true(ended);
}

/* ---- a call that fails --------------------------------------------------------------------- */

static void a_level_with_a_lease_outlives_a_call_that_gave_the_member_back(void **state)
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
static void a_call_gives_a_red_member_back_without_waiting_for_a_level_of_it(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *b = fixture_lock(s->f, red.clients[0], "z");
    struct relock_lock *theirs = fixture_lock(s->f, servers_client(s, 0, NULL), "z");
    struct relock_lock *multi = fixture_multi(s->f, red.lock, b, NULL);
    struct level level = {red.lock, {.lease_ms = outlast_ms(4000), .owner = relock_owner_new()}};
    struct relock_how waits = {outlast_ms(1000), outlast_ms(2000), .owner = level.how.owner};
    struct actor *collector = actor_start(), *other = actor_start();
    bool ended;
    int r;

    red_settle(s, &red, s->n);
    assert_result(relock_lock(theirs), RELOCK_OK);
    actor_begin_acquire(collector, multi, &waits);
    assert_true(red_wait_keys(s, s->n));
    assert_result(relock_acquire(red.lock, &level.how, NULL), RELOCK_OK);
    actor_begin(other, nest_with_lease_and_stop, &level);
    assert_true(wait_until(has_stopped_or_ended, other, SOON_MS));
    r = actor_result(collector);
    sem_post(&may_go_on);
    assert_result(actor_result(other), RELOCK_OK);
    assert_result(r, RELOCK_TIMEOUT);
    ended = ends(s->probe[1], RED_NAME, 2);
    assert_result(relock_release(red.lock, level.how.owner), ended ? RELOCK_LOST : RELOCK_OK);
    assert_result(relock_release(red.lock, level.how.owner), ended ? RELOCK_LOST : RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_true(ended);
}

/* ---- a level that is collected when the composite ends ------------------------------------- */

struct nesting {
    struct relock_client *client;
    struct relock_lock *a, *b, *both;
    struct relock_how how;
    int stops_at;
};

static struct nesting multi_of(struct servers *s, const struct relock_options *options)
{
    struct nesting n = {.client = servers_client(s, 0, options),
                        .how = {.owner = relock_owner_new()}};

    n.a = fixture_lock(s->f, n.client, "a");
    n.b = fixture_lock(s->f, n.client, "b");
    n.both = fixture_multi(s->f, n.a, n.b, NULL);
    return n;
}

static struct nesting nesting_of(struct servers *s, const struct relock_options *options)
{
    struct nesting n = multi_of(s, options);

    assert_result(relock_acquire(n.both, &n.how, NULL), RELOCK_OK);
    return n;
}

static int nest_in_multi_and_stop(void *arg)
{
    struct nesting *n = arg;
    int r;

    stops_at = n->stops_at;
    r = relock_acquire(n->both, &n->how, NULL);
    stops_at = 0;
    return r;
}

static void begin_to_nest(struct nesting *n, struct actor *actor, int at)
{
    n->stops_at = at;
    actor_begin(actor, nest_in_multi_and_stop, n);
    assert_true(wait_until(has_stopped_or_ended, actor, SOON_MS));
    assert_true(actor_is_busy(actor));
}

static bool is_composite_reported(void *arg)
{
    return losses_count(((struct servers *)arg)->f->losses) > 0;
}

/* The thread stops before it looks at "b", after it has found "a" held. */
static void a_level_that_ends_with_a_lost_composite_is_given_back(void **state)
{
    struct servers *s = *state;
    struct nesting n = nesting_of(s, NULL);
    struct actor *actor = actor_start();

    begin_to_nest(&n, actor, 5);
    probe_int(s->probe[0], "DEL a");
    assert_result(relock_extend(n.a, n.how.owner, 60000), RELOCK_LOST);
    assert_true(wait_until(is_composite_reported, s, SOON_MS));
    sem_post(&may_go_on);
    assert_result(actor_result(actor), RELOCK_LOST);
    assert_result(relock_release(n.both, n.how.owner), RELOCK_LOST);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.a, n.how.owner, NULL), RELOCK_NOT_OWNER);
}

/* The thread stops before it nests in "a". */
static void a_release_that_cannot_wait_for_a_level_releases_the_members(void **state)
{
    struct servers *s = *state;
    struct nesting n = nesting_of(s, &(struct relock_options){.release_timeout_ms = 50});
    struct actor *actor = actor_start();

    begin_to_nest(&n, actor, 2);
    assert_result(relock_release(n.both, n.how.owner), RELOCK_E_CONN);
    sem_post(&may_go_on);
    if (actor_result(actor) == RELOCK_OK)
        assert_result(relock_release(n.both, n.how.owner), RELOCK_OK);
    assert_result(relock_check(n.both, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.a, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_true(wait_for_no_keys(s->probe[0]));
}

static void such_a_release_of_one_level_of_two_releases_one_of_each_member(void **state)
{
    struct servers *s = *state;
    struct nesting n = nesting_of(s, &(struct relock_options){.release_timeout_ms = 50});
    struct actor *actor = actor_start();
    struct relock_grant grant;

    assert_result(relock_acquire(n.both, &n.how, NULL), RELOCK_OK);
    begin_to_nest(&n, actor, 2);
    assert_result(relock_release(n.both, n.how.owner), RELOCK_E_CONN);
    sem_post(&may_go_on);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(relock_check(n.both, n.how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_check(n.a, n.how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_check(n.b, n.how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    (void)relock_release(n.both, n.how.owner);
    (void)relock_release(n.both, n.how.owner);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
}

/* ---- a multi lock that begins ---------------------------------------------------------------- */

/* It stops when both members are acquired, and "b" does not belong to the multi lock yet. */
static void a_multi_lock_that_begins_is_busy(void **state)
{
    struct servers *s = *state;
    struct nesting n = multi_of(s, &(struct relock_options){.release_timeout_ms = 50});
    struct actor *actor = actor_start();
    int checked, released;

    begin_to_nest(&n, actor, 7);
    checked = relock_check(n.both, n.how.owner, NULL);
    released = relock_release(n.both, n.how.owner);
    sem_post(&may_go_on);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(checked, RELOCK_OK);
    assert_result(released, RELOCK_E_CONN);
    assert_result(relock_check(n.both, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.a, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_true(wait_for_no_keys(s->probe[0]));
}

/* ---- a check while the client is freed ------------------------------------------------------- */

struct freeing {
    struct fixture *f;
    struct nesting n;
};

/* It stops before it looks at "a". */
static int check_and_stop(void *arg)
{
    const struct nesting *n = arg;
    int r;

    stops_at = 2;
    r = relock_check(n->both, n->how.owner, NULL);
    stops_at = 0;
    return r;
}

static int free_client(void *arg)
{
    struct freeing *freeing = arg;

    fixture_free_client(freeing->f, freeing->n.client);
    return RELOCK_OK;
}

static bool is_closed(void *arg)
{
    const struct nesting *n = arg;

    return relock_check(n->a, n->how.owner, NULL) == RELOCK_E_CLOSED;
}

static void a_check_while_the_client_is_freed_reports_no_loss(void **state)
{
    struct servers *s = *state;
    struct freeing freeing = {s->f, nesting_of(s, NULL)};
    struct actor *checks = actor_start(), *frees = actor_start();

    actor_begin(checks, check_and_stop, &freeing.n);
    assert_true(wait_until(has_stopped_or_ended, checks, SOON_MS));
    assert_true(actor_is_busy(checks));
    actor_begin(frees, free_client, &freeing);
    assert_true(wait_until(is_closed, &freeing.n, SOON_MS));
    sem_post(&may_go_on);
    assert_result(actor_result(checks), RELOCK_E_CLOSED);
    assert_result(actor_result(frees), RELOCK_OK);
}

/* ---- the program --------------------------------------------------------------------------- */

static int start(void **state)
{
    return servers_start_with(state, N_SERVERS, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(votes_end_with_a_quorum_that_is_lost_while_a_level_asks_for_renewal),
        SERVERS_TEST(a_level_with_a_lease_outlives_a_call_that_gave_the_member_back),
        SERVERS_TEST(a_call_gives_a_red_member_back_without_waiting_for_a_level_of_it),
        SERVERS_TEST(a_level_that_ends_with_a_lost_composite_is_given_back),
        SERVERS_TEST(a_release_that_cannot_wait_for_a_level_releases_the_members),
        SERVERS_TEST(such_a_release_of_one_level_of_two_releases_one_of_each_member),
        SERVERS_TEST(a_multi_lock_that_begins_is_busy),
        SERVERS_TEST(a_check_while_the_client_is_freed_reports_no_loss),
    };

    sem_init(&has_stopped, 0, 0);
    sem_init(&may_go_on, 0, 0);
    return cmocka_run_group_tests(tests, start, servers_stop);
}
