/*
 * All processes take the members of multi locks in one order, whichever order the caller gives. So
 * no waiter for one member holds another that blocks its holder.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/multi.h"
#include "support/peer.h"
#include "support/storm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_NAMES 4
#define N_THREADS 4
#define N_PROCESSES 2
#define STORM_MS 1000
#define FEWEST_ROUNDS 3 /* of each thread, however late it is */

/* ---- one after the other ------------------------------------------------------------------- */

/* A peer holds all of them, so a try fails on the first in the order. */
static void members_are_taken_by_name_and_then_by_server(void **state)
{
    struct fixture *f = *state;
    struct relock_client *here =
        fixture_client(f, &(struct relock_options){.url = f->server->unix_url});
    struct relock_client *there = beside_client(f, 0, NULL);
    bool here_first = strcmp(f->server->socket, beside_server(0)->socket) < 0;
    struct probe *first = here_first ? f->probe : beside_probe(0);
    struct probe *second = here_first ? beside_probe(0) : f->probe;
    struct relock_lock *locks[] = {
        fixture_lock(f, here, "b"),
        fixture_lock(f, there, "b"),
        fixture_lock_of(f, there, "a", relock_fairlock_new),
    };
    struct relock_lock *all = fixture_multi(f, locks[0], locks[1], locks[2], NULL);
    struct relock_lock *turned = fixture_multi(f, locks[1], locks[0], locks[2], NULL);
    struct relock_grant grant;

    /* The caller holds a, waits for b on the first server, and holds nothing on the second. */
    assert_true(peer_lock(first, "b", PEER, PEER_LEASE_MS));
    for (int i = 0; i < 2; i++) {
        struct relock_lock *lock = i == 0 ? all : turned;
        struct actor *waiting = actor_start();

        actor_begin_lock(waiting, lock);
        assert_true(wait_behind_a(there, here_first ? here : there));
        assert_int_equal(probe_int(second, "EXISTS b"), 0);
        assert_true(peer_unlock(first, "b", PEER));
        assert_gets_in(waiting, lock);
        assert_true(peer_lock(first, "b", PEER, PEER_LEASE_MS));
    }
    assert_result(relock_acquire(all, NULL, &grant), RELOCK_BUSY);
    assert_string_equal(grant.failed_member, "b");
    assert_true(peer_unlock(first, "b", PEER));
}

/* ---- many at once -------------------------------------------------------------------------- */

struct crowd {
    const char *urls[2];
    struct relock_client *clients[2];
    struct relock_lock *locks[N_NAMES];
    atomic_uint inside[N_NAMES];
    uint64_t until_ms;
};

struct one {
    struct crowd *crowd;
    unsigned seed;
    unsigned n_rounds;
    bool is_alone; /* whenever it was inside */
};

/* Some of the locks, in any order. */
static size_t draw(struct one *one, unsigned which[N_NAMES])
{
    for (unsigned i = 0; i < N_NAMES; i++)
        which[i] = i;
    for (unsigned i = N_NAMES - 1; i > 0; i--) {
        unsigned j = storm_random(&one->seed, i + 1);
        unsigned held = which[i];

        which[i] = which[j];
        which[j] = held;
    }
    return 2 + storm_random(&one->seed, N_NAMES - 1);
}

static void be_inside(struct one *one, const unsigned which[N_NAMES], size_t n)
{
    struct crowd *crowd = one->crowd;

    for (size_t i = 0; i < n; i++)
        one->is_alone = atomic_fetch_add(&crowd->inside[which[i]], 1) == 0 && one->is_alone;
    if (storm_random(&one->seed, 4) == 0)
        let_pass(1);
    for (size_t i = 0; i < n; i++)
        atomic_fetch_sub(&crowd->inside[which[i]], 1);
}

static int go_round(struct one *one)
{
    struct relock_lock *members[N_NAMES];
    struct relock_lock *lock;
    unsigned which[N_NAMES];
    size_t n = draw(one, which);
    int r;

    for (size_t i = 0; i < n; i++)
        members[i] = one->crowd->locks[which[i]];
    r = relock_multilock_new(members, n, &lock);
    if (r != RELOCK_OK)
        return r;
    r = relock_timedlock(lock, (int64_t)slow_ms(SOON_MS) / 2);
    if (r == RELOCK_OK) {
        be_inside(one, which, n);
        r = relock_unlock(lock);
    }
    relock_lock_free(lock);
    return r;
}

static int go_round_and_round(void *arg)
{
    struct one *one = arg;
    int r = RELOCK_OK;

    while (r == RELOCK_OK && (now_ms() < one->crowd->until_ms || one->n_rounds < FEWEST_ROUNDS)) {
        r = go_round(one);
        one->n_rounds++;
    }
    return r;
}

static bool make_locks(struct crowd *crowd)
{
    static const char *const names[N_NAMES] = {"delta", "alpha", "charlie", "bravo"};
    fixture_constructor_fn *const kinds[N_NAMES] = {relock_lock_new, relock_fairlock_new,
                                                    relock_wrlock_new, relock_lock_new};

    for (size_t i = 0; i < 2; i++) {
        struct relock_options options = {.url = crowd->urls[i],
                                         .connect_timeout_ms = slow_ms(SOON_MS),
                                         .command_timeout_ms = slow_ms(SOON_MS) / 2};

        if (relock_client_new(&options, &crowd->clients[i]) != RELOCK_OK)
            return false;
    }
    for (size_t i = 0; i < N_NAMES; i++)
        if (kinds[i](crowd->clients[i % 2], names[i], &crowd->locks[i]) != RELOCK_OK)
            return false;
    return true;
}

static void free_locks(struct crowd *crowd)
{
    for (size_t i = 0; i < N_NAMES; i++)
        relock_lock_free(crowd->locks[i]);
    for (size_t i = 0; i < 2; i++)
        relock_client_free(crowd->clients[i]);
}

/* In a process of its own. Sends the rounds of the slowest thread; none if one did not get in. */
static int be_a_crowd(struct child *parent, void *arg)
{
    struct crowd *crowd = arg;
    struct actor *actors[N_THREADS];
    struct one ones[N_THREADS];
    unsigned fewest = UINT32_MAX;

    child_must(make_locks(crowd));
    crowd->until_ms = deadline_in(STORM_MS);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ones[i] = (struct one){.crowd = crowd, .seed = 100 * i + (unsigned)getpid()};
        ones[i].is_alone = true;
        actors[i] = actor_start();
        actor_begin(actors[i], go_round_and_round, &ones[i]);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        int r = actor_result_within(actors[i], 3 * (uint64_t)SOON_MS);

        if (r != RELOCK_OK)
            fprintf(stderr, "after %u rounds: %s\n", ones[i].n_rounds, relock_strerror(r));
        if (r != RELOCK_OK || !ones[i].is_alone)
            fewest = 0;
        else if (ones[i].n_rounds < fewest)
            fewest = ones[i].n_rounds;
    }
    actor_end_all();
    free_locks(crowd);
    child_must(child_send(parent, fewest));
    return EXIT_SUCCESS;
}

static void clients_that_want_the_same_members_in_any_order_do_not_deadlock(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd = {.urls = {f->server->unix_url, beside_server(0)->unix_url}};
    struct child *children[N_PROCESSES];

    if (!child_can_have_threads())
        skip();
    for (int i = 0; i < N_PROCESSES; i++)
        children[i] = child_start(be_a_crowd, &crowd);
    for (int i = 0; i < N_PROCESSES; i++) {
        int64_t fewest;

        assert_true(child_receive_within(children[i], &fewest, 4 * (uint64_t)SOON_MS));
        assert_true(fewest >= FEWEST_ROUNDS);
        assert_int_equal(child_wait(children[i], SOON_MS), EXIT_SUCCESS);
    }
}

/* In this process alone: for ThreadSanitizer, too. */
static void threads_that_want_the_same_members_in_any_order_do_not_deadlock(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd = {.urls = {f->server->unix_url, beside_server(0)->unix_url}};
    struct one ones[N_THREADS];
    struct actor *actors[N_THREADS];

    assert_true(make_locks(&crowd));
    crowd.until_ms = deadline_in(STORM_MS);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ones[i] = (struct one){.crowd = &crowd, .seed = i, .is_alone = true};
        actors[i] = actor_start();
        actor_begin(actors[i], go_round_and_round, &ones[i]);
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        assert_result(actor_result_within(actors[i], 3 * (uint64_t)SOON_MS), RELOCK_OK);
    for (unsigned i = 0; i < N_THREADS; i++)
        assert_true(ones[i].is_alone);
    free_locks(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MULTI_TEST(members_are_taken_by_name_and_then_by_server),
        MULTI_TEST(clients_that_want_the_same_members_in_any_order_do_not_deadlock),
        MULTI_TEST(threads_that_want_the_same_members_in_any_order_do_not_deadlock),
    };
    return MULTI_TESTS_RUN(tests);
}
