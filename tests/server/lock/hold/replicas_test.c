/* A client with min_replicas holds only locks that so many replicas acknowledged, and only for as
 * long as they acknowledge its renewals. */
#include "support/fixture.h"
#include "support/keeping.h"
#include "support/reactor.h"

#include <stdio.h>

#define REPLICA_MS 200
#define ACK_MS 3000
#define LEASE_MS 1500
#define LONG_MS 6000 /* a lease that outlasts several renewals */

/* One for all cases, because it takes seconds until a new one is in sync. */
static struct server *replica;

/* The replica acknowledges, whatever the case before has done to it. */
static int begin(void **state)
{
    struct fixture *f = *state;

    if (!replica) {
        replica = server_start_replica(f->server);
        assert_true(probe_wait_replica(f->probe));
        f->neighbours = "flags=S";
    }
    if (fixture_begin(state) != 0)
        return -1;
    assert_int_equal(probe_int(f->probe, "WAIT 1 %d", SOON_MS), 1);
    return 0;
}

static int end(void **state)
{
    struct fixture *f = *state;

    server_resume(replica);
    if (fixture_end(state) != 0)
        return -1;
    assert_int_equal(probe_n_channels(f->probe), 0); /* fixture_end() ignores those of neighbours */
    return 0;
}

static int end_fenced(void **state)
{
    forget_counters(((struct fixture *)*state)->probe);
    return end(state);
}

static struct relock_client *careful_client(struct fixture *f, uint64_t timeout_ms)
{
    return fixture_client(
        f, &(struct relock_options){.min_replicas = 1, .replica_timeout_ms = timeout_ms});
}

static void a_hold_says_how_many_replicas_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, careful_client(f, slow_ms(5000)), "orders");
    struct relock_grant grant;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* It is granted by a token, not by nothing. */
static void a_fenced_hold_says_how_many_replicas_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock =
        fixture_lock_of(f, careful_client(f, slow_ms(5000)), "orders", relock_fencedlock_new);
    struct relock_grant grant;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_true(grant.fencing_token > 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Only the acquire waits for replicas, so it needs a thread. */
static void what_a_thread_has_acquired_is_released_without_blocking(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = careful_client(f, slow_ms(5000));
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_new()};
    struct outcome outcome;

    assert_result(outcome_acquire(lock, &how, events, &outcome), RELOCK_E_UNSUPPORTED);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_OK);
    assert_result(relock_check(lock, how.owner, NULL), RELOCK_OK);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_OK);
    assert_result(relock_check(lock, how.owner, NULL), RELOCK_NOT_OWNER);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_null(relock_events_free(events));
}

static const char *channel_of(struct relock_client *client)
{
    static char name[80];

    snprintf(name, sizeof(name), "relock_client:{%s}", relock_client_id(client));
    return name;
}

static void without_a_replica_nothing_is_held(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = careful_client(f, REPLICA_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_grant grant = {.hold_count = 7};

    for (int i = 0; i < 3; i++) {
        struct relock_how how = {.wait_ms = RELOCK_FOREVER};

        assert_result(relock_acquire(lock, &how, &grant), RELOCK_E_REPLICAS);
        assert_int_equal(grant.hold_count, 0);
    }
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_int_equal(stats_of(client).holds, 0);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void a_replica_that_hangs_does_not_count(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, careful_client(f, REPLICA_MS), "orders");

    server_pause(replica);
    assert_result(relock_lock(lock), RELOCK_E_REPLICAS);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

/* ---- locks that are kept ------------------------------------------------------------------- */

static void a_kept_lock_counts_as_acknowledged_until_it_is_released(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct relock_grant grant;
    long long n_waits;

    client = keeping_client(f, &(struct relock_options){.min_replicas = 1,
                                                        .watchdog_timeout_ms = NEVER_MS,
                                                        .replica_timeout_ms = slow_ms(5000)});
    lock = fixture_lock(f, client, "orders");
    keeping_fill(client, lock);
    n_waits = probe_calls(f->probe, "wait");
    server_pause(replica);

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_int_equal(probe_calls(f->probe, "wait"), n_waits);
    assert_result(relock_unlock(lock), RELOCK_OK);

    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_E_REPLICAS);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void a_lock_that_no_replica_acknowledged_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){
               .min_replicas = 1, .replica_timeout_ms = REPLICA_MS, .keep_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_true(probe_wait_subscribers(f->probe, channel_of(client), 1));
    for (int i = 0; i < 2; i++)
        assert_result(relock_lock(lock), RELOCK_E_REPLICAS);
    assert_int_equal(stats_of(client).kept, 0);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

/* ---- renewals ------------------------------------------------------------------------------ */

static struct relock_client *renewing_client(struct fixture *f, uint64_t lease_ms)
{
    return fixture_client(f, &(struct relock_options){.min_replicas = 1,
                                                      .replica_timeout_ms = slow_ms(ACK_MS),
                                                      .watchdog_timeout_ms = slow_ms(lease_ms)});
}

static bool is_counting(void *arg)
{
    return probe_n_clients(arg, "flags=b") > 0; /* blocked, by WAIT */
}

static bool has_failed_renewals(void *arg)
{
    return stats_of(arg).renewal_failures > 0;
}

static bool has_renewed(void *arg)
{
    return stats_of(arg).renewed >= 4;
}

static void acknowledged_renewals_keep_a_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = renewing_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_until(has_renewed, client, SOON_MS)); /* more than a lease */
    assert_true(relock_valid_ms(lock) > 0);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void assert_renewals_need_replicas(struct fixture *f, fixture_constructor_fn *make)
{
    struct relock_client *client = renewing_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", make);
    uint64_t paused_ms, valid_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(replica);
    paused_ms = now_ms();
    valid_ms = relock_valid_ms(lock);

    assert_true(losses_wait(f->losses, 1, LEASE_MS + SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_REPLICAS);
    assert_true(losses_get(f->losses, 0).at_ms + TWO_CLOCKS_MS >= paused_ms + valid_ms);
    assert_true(log_wait(f->log, "renewal not acknowledged: 0 replicas have it", SOON_MS));
    assert_true(log_wait(f->log, "fewer than min_replicas replicas acknowledged", SOON_MS));
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS)); /* the owner has not released it */
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void a_hold_is_lost_after_a_lease_without_acknowledged_renewals(void **state)
{
    assert_renewals_need_replicas(*state, relock_lock_new);
}

static void a_read_hold_is_lost_after_a_lease_without_acknowledged_renewals(void **state)
{
    assert_renewals_need_replicas(*state, relock_rdlock_new);
}

static void a_plain_hold_is_lost_after_a_lease_without_acknowledged_renewals(void **state)
{
    assert_renewals_need_replicas(*state, relock_plainlock_new);
}

/* Redis releases it at once: the lease would block others for most of its time. */
static void a_hold_that_replicas_do_not_acknowledge_is_free_for_others(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, renewing_client(f, LONG_MS), "orders");
    struct relock_lock *others = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.wait_ms = NEVER_MS};
    uint64_t lost_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(replica);
    assert_result(relock_acquire(others, &how, NULL), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    lost_ms = losses_get(f->losses, 0).at_ms;
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_REPLICAS);
    assert_true(now_ms() - lost_ms < slow_ms(LONG_MS) / 4);
    assert_result(relock_unlock(others), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* It has nothing in Redis: its members have. */
static void a_multi_lock_is_lost_with_a_member_that_replicas_do_not_acknowledge(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = renewing_client(f, LEASE_MS);
    struct relock_lock *member = fixture_lock(f, client, "orders");
    struct relock_lock *multi = NULL;

    assert_result(relock_multilock_new(&member, 1, &multi), RELOCK_OK);
    assert_result(relock_lock(multi), RELOCK_OK);
    server_pause(replica);
    assert_true(losses_wait(f->losses, 1, LEASE_MS + SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_REPLICAS);
    assert_string_equal(losses_get(f->losses, 0).name, "orders");
    assert_result(relock_unlock(multi), RELOCK_LOST);
    relock_lock_free(multi);
}

struct certainty {
    struct relock_lock *lock;
    uint64_t until_ms; /* as it was */
};

static bool is_longer_certain(void *arg)
{
    const struct certainty *was = arg;

    return now_ms() + relock_valid_ms(was->lock) > was->until_ms + TWO_CLOCKS_MS;
}

static void a_replica_that_returns_in_time_keeps_the_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = renewing_client(f, LONG_MS);
    struct certainty was = {.lock = fixture_lock(f, client, "orders")};

    assert_result(relock_lock(was.lock), RELOCK_OK);
    was.until_ms = now_ms() + relock_valid_ms(was.lock);
    server_pause(replica);
    assert_true(wait_until(has_failed_renewals, client, LONG_MS));
    assert_int_equal(losses_count(f->losses), 0);
    assert_false(is_longer_certain(&was));

    server_resume(replica);
    assert_true(wait_until(is_longer_certain, &was, LONG_MS));
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_unlock(was.lock), RELOCK_OK);
}

#define TRIES 5 /* WAIT may end while a release is under way: then the next one is tried */

/* Whether both kinds of release end while the server is counting. */
static bool is_released_meanwhile(struct fixture *f, struct relock_lock *locks[2], uint64_t owner,
                                  struct relock_events *events)
{
    long long n_waits;

    assert_true(wait_until(is_counting, f->probe, LONG_MS));
    n_waits = probe_calls(f->probe, "wait");
    assert_result(reactor_release(locks[0], owner, events), RELOCK_OK);
    assert_result(relock_unlock(locks[1]), RELOCK_OK);
    return is_counting(f->probe) && probe_calls(f->probe, "wait") == n_waits;
}

static void no_release_stands_behind_wait(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = renewing_client(f, LONG_MS);
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_new()};
    struct relock_lock *locks[TRIES][2];
    bool was_released = false;

    for (int i = 0; i < TRIES * 2; i++) {
        char name[16];

        snprintf(name, sizeof(name), "orders:%d", i);
        locks[i / 2][i % 2] = fixture_lock(f, client, name);
        assert_result(relock_acquire(locks[i / 2][i % 2], i % 2 ? NULL : &how, NULL), RELOCK_OK);
    }
    server_pause(replica);
    for (int i = 0; i < TRIES && !was_released; i++)
        was_released = is_released_meanwhile(f, locks[i], how.owner, events);
    assert_true(was_released);

    server_resume(replica);
    relock_client_shutdown(client);
    assert_null(relock_events_free(events));
    fixture_free_client(f, client); /* releases those that were not tried */
}

static void a_client_that_waits_for_replicas_is_freed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = renewing_client(f, LONG_MS);

    assert_result(relock_lock(fixture_lock(f, client, "orders")), RELOCK_OK);
    server_pause(replica);
    assert_true(wait_until(is_counting, f->probe, LONG_MS));
    fixture_free_client(f, client);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_int_equal(losses_count(f->losses), 0);
}

static void an_extension_without_acknowledgement_leaves_the_hold_as_certain_as_before(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, renewing_client(f, NEVER_MS), "orders");
    uint64_t until_ms;

    assert_result(acquire_for(lock, slow_ms(LONG_MS)), RELOCK_OK);
    until_ms = now_ms() + relock_valid_ms(lock);
    server_pause(replica);
    assert_result(relock_extend(lock, 0, NEVER_MS), RELOCK_E_REPLICAS);
    assert_true(relock_valid_ms(lock) > 0);
    assert_true(now_ms() + relock_valid_ms(lock) <= until_ms + TWO_CLOCKS_MS);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);

    server_resume(replica);
    assert_result(relock_extend(lock, 0, NEVER_MS / 2), RELOCK_OK);
    assert_true(relock_valid_ms(lock) > NEVER_MS / 4);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_level_prolongs_a_hold_only_if_replicas_acknowledge_it(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, renewing_client(f, NEVER_MS), "orders");
    struct relock_grant grant;
    uint64_t until_ms;

    assert_result(acquire_for(lock, slow_ms(LONG_MS)), RELOCK_OK);
    until_ms = now_ms() + relock_valid_ms(lock);
    server_pause(replica);
    assert_result(acquire_for(lock, NEVER_MS), RELOCK_E_REPLICAS);
    assert_result(acquire_for(lock, LEASE_MS), RELOCK_OK);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_true(now_ms() + grant.valid_ms <= until_ms + TWO_CLOCKS_MS);

    server_resume(replica);
    assert_result(acquire_for(lock, NEVER_MS), RELOCK_OK);
    assert_true(relock_valid_ms(lock) > NEVER_MS / 2);
    for (int i = 0; i < 3; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

/* The watchdog's next renewal would come too late. */
static void a_renewed_level_keeps_a_hold_with_a_short_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, renewing_client(f, NEVER_MS), "orders");

    assert_result(acquire_for(lock, slow_ms(LEASE_MS)), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(relock_valid_ms(lock) > NEVER_MS / 2);
    for (int i = 0; i < 2; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
}

struct writes {
    struct probe *probe;
    long long n;
};

static bool has_written(void *arg)
{
    const struct writes *before = arg;

    return probe_calls(before->probe, "pexpire") > before->n;
}

/* On some servers, a connection without a write of its own finds all of its writes acknowledged. */
static void assert_writes(struct fixture *f, fixture_constructor_fn *make)
{
    struct relock_lock *lock = fixture_lock_of(f, watchful_client(f, LEASE_MS), "orders", make);
    struct writes before = {.probe = f->probe};

    assert_result(acquire_for(lock, NEVER_MS), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    before.n = probe_calls(f->probe, "pexpire");
    assert_true(wait_until(has_written, &before, SOON_MS));
    before.n = probe_calls(f->probe, "pexpire");
    assert_result(relock_extend(lock, 0, 1), RELOCK_OK);
    assert_true(has_written(&before));
    assert_true(probe_pttl(f->probe, "orders") > NEVER_MS / 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_renewal_within_a_longer_lease_writes(void **state)
{
    assert_writes(*state, relock_lock_new);
}

static void a_read_renewal_within_a_longer_lease_writes(void **state)
{
    assert_writes(*state, relock_rdlock_new);
}

static void a_plain_renewal_within_a_longer_lease_writes(void **state)
{
    assert_writes(*state, relock_plainlock_new);
}

static bool keeps_nothing(void *arg)
{
    return stats_of(arg).kept == 0;
}

static void a_kept_lock_is_released_when_replicas_stop_to_acknowledge(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.min_replicas = 1,
                                                   .replica_timeout_ms = slow_ms(ACK_MS),
                                                   .watchdog_timeout_ms = slow_ms(ACK_MS)});

    keeping_fill(client, fixture_lock(f, client, "orders"));
    server_pause(replica);
    assert_true(wait_until(keeps_nothing, client, slow_ms(ACK_MS) + SOON_MS));
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_int_equal(losses_count(f->losses), 0);
}

static void a_client_without_min_replicas_waits_for_none(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 0);
    assert_int_equal(probe_calls(f->probe, "wait"), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static int stop(void **state)
{
    replica = server_stop(replica);
    return fixture_stop(state);
}

#define REPLICA_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* without a replica */
        SERVER_TEST(a_client_without_min_replicas_waits_for_none),
        SERVER_TEST(without_a_replica_nothing_is_held),
        SERVER_TEST(a_lock_that_no_replica_acknowledged_is_not_kept),
        SERVER_TEST(a_renewal_within_a_longer_lease_writes),
        SERVER_TEST(a_read_renewal_within_a_longer_lease_writes),
        SERVER_TEST(a_plain_renewal_within_a_longer_lease_writes),
        /* with one */
        REPLICA_TEST(a_hold_says_how_many_replicas_acknowledged),
        cmocka_unit_test_setup_teardown(a_fenced_hold_says_how_many_replicas_acknowledged, begin,
                                        end_fenced),
        REPLICA_TEST(what_a_thread_has_acquired_is_released_without_blocking),
        REPLICA_TEST(a_replica_that_hangs_does_not_count),
        REPLICA_TEST(a_kept_lock_counts_as_acknowledged_until_it_is_released),
        REPLICA_TEST(acknowledged_renewals_keep_a_hold),
        REPLICA_TEST(a_hold_is_lost_after_a_lease_without_acknowledged_renewals),
        REPLICA_TEST(a_read_hold_is_lost_after_a_lease_without_acknowledged_renewals),
        REPLICA_TEST(a_plain_hold_is_lost_after_a_lease_without_acknowledged_renewals),
        REPLICA_TEST(a_hold_that_replicas_do_not_acknowledge_is_free_for_others),
        REPLICA_TEST(a_multi_lock_is_lost_with_a_member_that_replicas_do_not_acknowledge),
        REPLICA_TEST(a_replica_that_returns_in_time_keeps_the_hold),
        REPLICA_TEST(no_release_stands_behind_wait),
        REPLICA_TEST(a_client_that_waits_for_replicas_is_freed),
        REPLICA_TEST(an_extension_without_acknowledgement_leaves_the_hold_as_certain_as_before),
        REPLICA_TEST(a_level_prolongs_a_hold_only_if_replicas_acknowledge_it),
        REPLICA_TEST(a_renewed_level_keeps_a_hold_with_a_short_lease),
        REPLICA_TEST(a_kept_lock_is_released_when_replicas_stop_to_acknowledge),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, stop);
}
