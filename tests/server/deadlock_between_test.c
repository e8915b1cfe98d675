/*
 * Owners of several clients that wait for each other: when all their waits have lasted for
 * `deadlock_ms`, the youngest is refused, and the others go on.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/kinds.h"
#include "support/peer.h"
#include "support/reactor.h"
#include "support/rights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MOST 4
#define DEADLOCK_MS 200

/* Each actor is of a client of its own, holds the lock of its number, and wants the next one. */
struct ring {
    struct relock_client *clients[N_MOST];
    struct relock_lock *has[N_MOST], *wants[N_MOST];
    struct actor *actors[N_MOST];
    int n;
};

static struct relock_client *client_of(struct fixture *f, int n, uint64_t deadlock_ms)
{
    char name[32];

    snprintf(name, sizeof(name), "shop-%d", n);
    return fixture_client(f, &(struct relock_options){
                                 .client_name = name,
                                 .watchdog_timeout_ms = slow_ms(NEVER_MS),
                                 .recheck_ms = slow_ms(NEVER_MS),
                                 .deadlock_ms = deadlock_ms,
                             });
}

static struct ring ring_of(struct fixture *f, int n)
{
    struct ring ring = {.n = n};
    char name[16];

    for (int i = 0; i < n; i++) {
        ring.clients[i] = client_of(f, i, DEADLOCK_MS);
        snprintf(name, sizeof(name), "ring:%d", i);
        ring.has[i] = kind_lock(f, ring.clients[i], name);
        snprintf(name, sizeof(name), "ring:%d", (i + 1) % n);
        ring.wants[i] = kind_lock(f, ring.clients[i], name);
        ring.actors[i] = actor_start();
        assert_result(actor_lock(ring.actors[i], ring.has[i]), RELOCK_OK);
    }
    return ring;
}

static bool one_has_ended(void *arg)
{
    const struct ring *ring = arg;
    int n_busy = 0;

    for (int i = 0; i < ring->n; i++)
        n_busy += actor_is_busy(ring->actors[i]);
    return n_busy < ring->n;
}

static uint64_t deadlocks_of(const struct ring *ring)
{
    uint64_t n = 0;

    for (int i = 0; i < ring->n; i++)
        n += stats_of(ring->clients[i]).deadlocks;
    return n;
}

/* From the victim backwards: each is given the lock of the one that was served before. */
static int assert_that_one_is_refused_and_the_others_are_served(struct ring *ring)
{
    int victim = 0;

    assert_true(wait_until(one_has_ended, ring, SOON_MS));
    while (actor_is_busy(ring->actors[victim]))
        victim++;
    assert_result(actor_result(ring->actors[victim]), RELOCK_E_DEADLOCK);
    assert_result(actor_check(ring->actors[victim], ring->has[victim]), RELOCK_OK);
    assert_result(actor_unlock(ring->actors[victim], ring->has[victim]), RELOCK_OK);
    for (int i = 1; i < ring->n; i++) {
        int served = (victim - i + ring->n) % ring->n;

        assert_result(actor_result(ring->actors[served]), RELOCK_OK);
        assert_result(actor_unlock(ring->actors[served], ring->wants[served]), RELOCK_OK);
        assert_result(actor_unlock(ring->actors[served], ring->has[served]), RELOCK_OK);
    }
    assert_int_equal(deadlocks_of(ring), 1);
    return victim;
}

static void play_ring(struct fixture *f, int n)
{
    struct ring ring = ring_of(f, n);

    for (int i = 0; i < n; i++)
        actor_begin_lock(ring.actors[i], ring.wants[i]);
    assert_that_one_is_refused_and_the_others_are_served(&ring);
    assert_true(log_wait_n(f->log, "this call would deadlock: this owner holds ring:", 1, SOON_MS));
    forget_counters(f->probe);
    assert_true(wait_for_no_keys(f->probe));
}

static void one_of_two_clients_is_refused(void **state)
{
    play_ring(*state, 2);
}

static void one_of_three_clients_is_refused(void **state)
{
    play_ring(*state, 3);
}

static void one_of_four_clients_is_refused(void **state)
{
    play_ring(*state, 4);
}

static void the_log_names_the_locks_and_clients_of_the_cycle(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of(f, 2);
    int victim;

    actor_begin_lock(ring.actors[0], ring.wants[0]);
    actor_begin_lock(ring.actors[1], ring.wants[1]);
    victim = assert_that_one_is_refused_and_the_others_are_served(&ring);
    assert_int_equal(log_count(f->log, victim == 0
                                           ? "this owner holds ring:0, for which client shop-1 "
                                             "waits, who holds ring:1; release that"
                                           : "this owner holds ring:1, for which client shop-0 "
                                             "waits, who holds ring:0; release that"),
                     1);
    assert_int_equal(log_count(f->log, "deadlock"), 1);
}

/* ---- who takes part ------------------------------------------------------------------------ */

/* Two owners of one client and one of another: the chain goes through the memory of the first. */
static void owners_of_one_client_are_followed_in_its_memory(void **state)
{
    struct fixture *f = *state;
    struct ring ring = {.n = 3};
    static const char *const names[] = {"ring:0", "ring:1", "ring:2"};

    ring.clients[0] = ring.clients[1] = client_of(f, 0, DEADLOCK_MS);
    ring.clients[2] = client_of(f, 1, DEADLOCK_MS);
    for (int i = 0; i < 3; i++) {
        ring.has[i] = fixture_lock(f, ring.clients[i], names[i]);
        ring.wants[i] = fixture_lock(f, ring.clients[i], names[(i + 1) % 3]);
        ring.actors[i] = actor_start();
        assert_result(actor_lock(ring.actors[i], ring.has[i]), RELOCK_OK);
    }
    ring.clients[1] = ring.clients[2]; /* counted once */
    for (int i = 0; i < 3; i++)
        actor_begin_lock(ring.actors[i], ring.wants[i]);
    assert_true(wait_until(one_has_ended, &ring, SOON_MS));
    ring.clients[1] = ring.clients[0];
    for (int i = 0; i < 3; i++) {
        if (actor_is_busy(ring.actors[i]))
            continue;
        assert_result(actor_result(ring.actors[i]), RELOCK_E_DEADLOCK);
        for (int n = 0; n < 3; n++) {
            int at = (i - n + 3) % 3;

            if (n > 0) {
                assert_result(actor_result(ring.actors[at]), RELOCK_OK);
                assert_result(actor_unlock(ring.actors[at], ring.wants[at]), RELOCK_OK);
            }
            assert_result(actor_unlock(ring.actors[at], ring.has[at]), RELOCK_OK);
        }
        return;
    }
    fail_msg("nobody was refused");
}

static void calls_without_a_thread_take_part(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[] = {client_of(f, 0, DEADLOCK_MS), client_of(f, 1, DEADLOCK_MS)};
    static const char *const names[] = {"a", "b"};
    struct relock_lock *has[2], *wants[2];
    struct relock_events *events[2];
    struct outcome outcomes[2];
    uint64_t owners[2];
    int victim, other;

    for (int i = 0; i < 2; i++) {
        has[i] = fixture_lock(f, clients[i], names[i]);
        wants[i] = fixture_lock(f, clients[i], names[1 - i]);
        events[i] = reactor_events(clients[i]);
        owners[i] = relock_owner_new();
        assert_result(relock_acquire(has[i], &(struct relock_how){.owner = owners[i]}, NULL),
                      RELOCK_OK);
    }
    for (int i = 0; i < 2; i++) {
        struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = owners[i]};

        assert_result(outcome_acquire(wants[i], &how, events[i], &outcomes[i]), RELOCK_OK);
    }
    for (uint64_t end_ms = now_ms() + SOON_MS; now_ms() < end_ms; let_pass(1)) {
        assert_true(relock_events_dispatch(events[0]) >= 0);
        assert_true(relock_events_dispatch(events[1]) >= 0);
        if (outcomes[0].n_times + outcomes[1].n_times > 0)
            break;
    }
    victim = outcomes[0].n_times > 0 ? 0 : 1;
    other = 1 - victim;
    assert_result(outcomes[victim].result, RELOCK_E_DEADLOCK);
    assert_int_equal(outcomes[other].n_times, 0);
    assert_result(relock_release(has[victim], owners[victim]), RELOCK_OK);
    assert_result(reactor_await(events[other], &outcomes[other]), RELOCK_OK);
    assert_result(relock_release(wants[other], owners[other]), RELOCK_OK);
    assert_result(relock_release(has[other], owners[other]), RELOCK_OK);
    assert_null(relock_events_free(events[0]));
    assert_null(relock_events_free(events[1]));
}

/* Two readers, of whom the second wants what the writer holds. */
static void a_writer_waits_for_each_of_the_readers(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[3];
    struct relock_lock *read[2], *write, *has, *wants;
    struct actor *actors[3];

    for (int i = 0; i < 3; i++) {
        clients[i] = client_of(f, i, DEADLOCK_MS);
        actors[i] = actor_start();
        if (i < 2) {
            read[i] = fixture_lock_of(f, clients[i], "shelf", relock_rdlock_new);
            assert_result(actor_lock(actors[i], read[i]), RELOCK_OK);
        }
    }
    write = fixture_lock_of(f, clients[2], "shelf", relock_wrlock_new);
    has = fixture_lock(f, clients[2], "orders");
    wants = fixture_lock(f, clients[1], "orders");
    assert_result(actor_lock(actors[2], has), RELOCK_OK);
    actor_begin_lock(actors[2], write);
    actor_begin_lock(actors[1], wants);
    while (actor_is_busy(actors[1]) && actor_is_busy(actors[2]))
        let_pass(1);
    if (actor_is_busy(actors[2])) {
        assert_result(actor_result(actors[1]), RELOCK_E_DEADLOCK);
        assert_result(actor_unlock(actors[1], read[1]), RELOCK_OK);
        assert_true(actor_is_busy(actors[2]));
        assert_result(actor_unlock(actors[0], read[0]), RELOCK_OK);
        assert_result(actor_result(actors[2]), RELOCK_OK);
        assert_result(actor_unlock(actors[2], write), RELOCK_OK);
        assert_result(actor_unlock(actors[2], has), RELOCK_OK);
    } else {
        assert_result(actor_result(actors[2]), RELOCK_E_DEADLOCK);
        assert_result(actor_unlock(actors[2], has), RELOCK_OK);
        assert_result(actor_result(actors[1]), RELOCK_OK);
        assert_result(actor_unlock(actors[1], wants), RELOCK_OK);
        assert_result(actor_unlock(actors[1], read[1]), RELOCK_OK);
        assert_result(actor_unlock(actors[0], read[0]), RELOCK_OK);
    }
}

/* ---- what is no deadlock ------------------------------------------------------------------- */

/* Of two clients, each holds a lock; both wait, but the second one for a time. */
static void play_two(struct fixture *f, const struct relock_how *first_holds, uint64_t deadlock_ms,
                     int result_of_first)
{
    struct relock_client *clients[] = {client_of(f, 0, DEADLOCK_MS), client_of(f, 1, deadlock_ms)};
    struct relock_lock *a[2], *b[2];
    struct actor *one = actor_start(), *two = actor_start();

    for (int i = 0; i < 2; i++) {
        a[i] = fixture_lock(f, clients[i], "a");
        b[i] = fixture_lock(f, clients[i], "b");
    }
    assert_result(actor_acquire(one, a[0], first_holds), RELOCK_OK);
    assert_result(actor_lock(two, b[1]), RELOCK_OK);
    actor_begin_lock(one, b[0]);
    actor_begin_timedlock(two, a[1], slow_ms(5 * DEADLOCK_MS));
    assert_result(actor_result(two), RELOCK_TIMEOUT);
    assert_true(actor_is_busy(one));
    assert_result(actor_unlock(two, b[1]), RELOCK_OK);
    assert_result(actor_result(one), RELOCK_OK);
    assert_result(actor_unlock(one, b[0]), RELOCK_OK);
    assert_result(actor_unlock(one, a[0]), result_of_first);
    assert_int_equal(stats_of(clients[0]).deadlocks + stats_of(clients[1]).deadlocks, 0);
}

static void a_fixed_lease_ends_the_chain(void **state)
{
    play_two(*state, &(struct relock_how){.lease_ms = 60000}, DEADLOCK_MS, RELOCK_OK);
}

static void a_client_may_stay_out_of_it(void **state)
{
    play_two(*state, &(struct relock_how){0}, RELOCK_FOREVER, RELOCK_OK);
}

/* The key of the record is that of a client that does not exist. */
static void a_hold_of_another_library_ends_the_chain(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, 0, DEADLOCK_MS);
    struct relock_lock *mine = fixture_lock(f, client, "mine");
    struct relock_lock *foreign = kind_lock(f, client, "foreign");

    assert_result(relock_lock(mine), RELOCK_OK);
    assert_true(kind_peer_lock(f, "foreign"));
    assert_result(relock_timedlock(foreign, (int64_t)slow_ms(4 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_true(kind_peer_unlock(f, "foreign"));
    assert_result(relock_unlock(mine), RELOCK_OK);
    assert_int_equal(stats_of(client).deadlocks, 0);
    forget_counters(f->probe);
    assert_true(wait_for_no_keys(f->probe));
}

/* It ends by itself before a look could prove it: nobody is refused. */
static void a_cycle_that_dissolves_is_none(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of(f, 2);

    actor_begin_lock(ring.actors[0], ring.wants[0]);
    actor_begin_timedlock(ring.actors[1], ring.wants[1], DEADLOCK_MS / 2);
    assert_result(actor_result(ring.actors[1]), RELOCK_TIMEOUT);
    let_pass(2 * DEADLOCK_MS);
    assert_true(actor_is_busy(ring.actors[0]));
    assert_result(actor_unlock(ring.actors[1], ring.has[1]), RELOCK_OK);
    assert_result(actor_result(ring.actors[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.wants[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.has[0]), RELOCK_OK);
    assert_int_equal(deadlocks_of(&ring), 0);
}

/* What another client claims by hand, and does not confirm: it has died, say. */
static void a_record_that_nobody_confirms_proves_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, 0, DEADLOCK_MS);
    struct relock_lock *mine = fixture_lock(f, client, "mine");
    struct relock_lock *theirs = fixture_lock(f, client, "theirs");
    static const char peer[] = "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10";
    static const char claim[] =
        "local\t_blank=string.char(32);"
        "return(redis.call('hset',KEYS[1],'41','5'.._blank..'500'.._blank..'3'.._blank..'hash'.."
        "_blank..'mine','client',ARGV[1].._blank..'peer','beat',ARGV[2]))";
    char record[80];

    assert_result(relock_lock(mine), RELOCK_OK);
    assert_true(peer_lock(f->probe, "theirs", PEER, PEER_LEASE_MS));
    snprintf(record, sizeof(record), "relock_waits:{%s}", peer);
    assert_int_equal(probe_int(f->probe, "EVAL %s 1 %s %s 7", claim, record, peer), 3);
    assert_result(relock_timedlock(theirs, (int64_t)slow_ms(6 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_int_equal(probe_int(f->probe, "HEXISTS %s looked", record), 1);
    probe_int(f->probe, "DEL %s", record);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_result(relock_unlock(mine), RELOCK_OK);
    assert_int_equal(stats_of(client).deadlocks, 0);
    assert_true(wait_for_no_keys(f->probe));
}

/* ---- records ------------------------------------------------------------------------------- */

/* A lock of ours that a foreign owner holds, and a wait for it. */
struct waiting {
    struct relock_client *client;
    struct relock_lock *mine, *theirs;
    struct actor *actor;
    char record[64];
};

static struct waiting wait_for_a_peer(struct fixture *f)
{
    struct waiting w = {.client = client_of(f, 0, DEADLOCK_MS)};

    w.mine = fixture_lock(f, w.client, "mine");
    w.theirs = fixture_lock(f, w.client, "theirs");
    w.actor = actor_start();
    snprintf(w.record, sizeof(w.record), "relock_waits:{%s}", relock_client_id(w.client));
    assert_true(peer_lock(f->probe, "theirs", PEER, PEER_LEASE_MS));
    assert_result(actor_lock(w.actor, w.mine), RELOCK_OK);
    return w;
}

struct key {
    struct probe *probe;
    const char *name;
    long long exists;
};

static bool is_there(void *arg)
{
    const struct key *key = arg;

    return probe_int(key->probe, "EXISTS %s", key->name) == key->exists;
}

static bool wait_for_record(struct fixture *f, const struct waiting *w, bool exists)
{
    return wait_until(is_there, &(struct key){f->probe, w->record, exists}, SOON_MS);
}

static void end_waiting(struct fixture *f, const struct waiting *w)
{
    assert_true(wait_for_record(f, w, false));
    assert_result(actor_unlock(w->actor, w->mine), RELOCK_OK);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

static void a_record_shows_what_the_owner_of_a_hold_waits_for(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f);
    char field[64];
    const char *value;

    snprintf(field, sizeof(field), "%s",
             probe_only_field(f->probe, "mine") + strlen(relock_client_id(w.client)) + 1);
    actor_begin_timedlock(w.actor, w.theirs, slow_ms(8 * DEADLOCK_MS));
    assert_true(wait_for_record(f, &w, true));
    value = probe_text(f->probe, "HGET %s %s", w.record, field);
    assert_true(strlen(value) > 12);
    assert_string_equal(value + strlen(value) - 12, " hash theirs");
    assert_int_equal(probe_int(f->probe, "HLEN %s", w.record), 3);
    assert_in_range(probe_pttl(f->probe, w.record), 1, 5000);
    assert_result(actor_result(w.actor), RELOCK_TIMEOUT);
    end_waiting(f, &w);
}

static void a_record_goes_with_a_cancelled_wait(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(w.actor, w.theirs, &how);
    assert_true(wait_for_record(f, &w, true));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(w.actor), RELOCK_CANCELLED);
    end_waiting(f, &w);
    relock_cancel_free(how.cancel);
}

static void a_record_goes_with_its_client(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f);

    actor_begin_lock(w.actor, w.theirs);
    assert_true(wait_for_record(f, &w, true));
    fixture_free_client(f, w.client);
    assert_int_equal(probe_int(f->probe, "EXISTS %s", w.record), 0);
    assert_result(actor_result(w.actor), RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

static int free_inherited(struct child *parent, void *arg)
{
    (void)parent;
    child_must(relock_client_free(arg) == NULL);
    return EXIT_SUCCESS;
}

static void a_forked_child_leaves_the_record_alone(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f);

    actor_begin_timedlock(w.actor, w.theirs, slow_ms(10 * DEADLOCK_MS));
    assert_true(wait_for_record(f, &w, true));
    assert_int_equal(child_wait(child_start(free_inherited, w.client), SOON_MS), EXIT_SUCCESS);
    assert_true(wait_for_record(f, &w, true));
    assert_result(actor_result(w.actor), RELOCK_TIMEOUT);
    end_waiting(f, &w);
}

static void a_wait_of_an_owner_without_locks_is_not_recorded(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f);
    long long n_calls;

    assert_result(actor_unlock(w.actor, w.mine), RELOCK_OK);
    actor_begin_timedlock(w.actor, w.theirs, 3 * DEADLOCK_MS);
    assert_true(wait_for_waiters(w.client, 1));
    let_pass(DEADLOCK_MS / 2);
    n_calls = probe_script_calls(f->probe);
    assert_result(actor_result(w.actor), RELOCK_TIMEOUT);
    assert_in_range(probe_script_calls(f->probe) - n_calls, 0, 1); /* it leaves the line */
    assert_int_equal(probe_int(f->probe, "EXISTS %s", w.record), 0);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

/* Without the right to the key, and one line in the log. */
static void a_user_without_the_right_is_told_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *mine, *theirs;

    rights_give(f, WIRE_PAGE, "reentrant", "~relock_waits:");
    client = rights_client(f, slow_ms(NEVER_MS), 0);
    mine = fixture_lock(f, client, "orders:1");
    theirs = fixture_lock(f, client, "orders:2");
    assert_true(peer_lock(f->probe, "orders:2", PEER, PEER_LEASE_MS));
    assert_result(relock_lock(mine), RELOCK_OK);
    for (int i = 0; i < 2; i++)
        assert_result(relock_timedlock(theirs, (int64_t)slow_ms(1500)), RELOCK_TIMEOUT);
    assert_true(log_wait_n(f->log, "waits are not recorded, so deadlocks with other processes", 1,
                           SOON_MS));
    assert_int_equal(log_count(f->log, "waits are not recorded"), 1);
    assert_result(relock_unlock(mine), RELOCK_OK);
    assert_true(peer_unlock(f->probe, "orders:2", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(one_of_two_clients_is_refused),
        SERVER_TEST(one_of_three_clients_is_refused),
        SERVER_TEST(one_of_four_clients_is_refused),
        SERVER_TEST(the_log_names_the_locks_and_clients_of_the_cycle),
        SERVER_TEST(owners_of_one_client_are_followed_in_its_memory),
        SERVER_TEST(calls_without_a_thread_take_part),
        SERVER_TEST(a_writer_waits_for_each_of_the_readers),
        SERVER_TEST(a_fixed_lease_ends_the_chain),
        SERVER_TEST(a_client_may_stay_out_of_it),
        KINDS_TEST(a_hold_of_another_library_ends_the_chain),
        SERVER_TEST(a_cycle_that_dissolves_is_none),
        SERVER_TEST(a_record_that_nobody_confirms_proves_nothing),
        SERVER_TEST(a_record_shows_what_the_owner_of_a_hold_waits_for),
        SERVER_TEST(a_record_goes_with_a_cancelled_wait),
        SERVER_TEST(a_record_goes_with_its_client),
        SERVER_TEST(a_forked_child_leaves_the_record_alone),
        SERVER_TEST(a_wait_of_an_owner_without_locks_is_not_recorded),
        SERVER_TEST(a_user_without_the_right_is_told_once),
    };

    return SERVER_TESTS_RUN(tests);
}
