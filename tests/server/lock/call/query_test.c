/* Queries about a lock and a client, from memory and from Redis. */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <stddef.h>
#include <string.h>

#define LEASE_MS 30000

static void a_strangers_hold_is_seen_and_not_ours(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_holder holder;
    unsigned count = 7;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.id, PEER);
    assert_int_equal(holder.hold_count, 2);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 0);
    assert_false(relock_is_mine(lock));
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void the_count_is_that_of_the_calling_thread(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.owner = relock_owner_new()};
    unsigned count = 7;

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 0);
    assert_false(relock_is_mine(lock));
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
}

static void the_count_of_any_owner_is_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_how how = {.owner = relock_owner_new()};
    unsigned count = 7;

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_hold_count_of(lock, how.owner, &count), RELOCK_OK);
    assert_int_equal(count, 2);
    assert_result(relock_hold_count_of(lock, 0, &count), RELOCK_OK);
    assert_int_equal(count, 0);
    assert_result(relock_hold_count_of(lock, relock_owner_new(), &count), RELOCK_OK);
    assert_int_equal(count, 0);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
}

/* So a thread can pass its number on before it has a hold. */
static void a_thread_knows_its_number_without_a_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_how how = {.owner = relock_owner_self()};
    struct actor *other = actor_start();
    unsigned count = 7;

    assert_result(actor_acquire(other, lock, &how), RELOCK_OK);
    assert_true(actor_grant(other).owner == how.owner);
    assert_true(relock_is_mine(lock));
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(relock_owner_self() == how.owner);
    actor_end(other);
}

static void only_the_forced_side_counts_as_held(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *reading = fixture_lock_of(f, client, "orders", relock_rdlock_new);
    struct relock_lock *writing = fixture_lock_of(f, client, "orders", relock_wrlock_new);
    bool held = true;

    assert_result(relock_lock(reading), RELOCK_OK);
    assert_result(relock_force_unlock_held(writing, &held), RELOCK_OK);
    assert_false(held);
    assert_result(relock_force_unlock_held(reading, &held), RELOCK_OK);
    assert_true(held);
    assert_result(relock_unlock(reading), RELOCK_LOST);
}

static void a_hold_without_a_lease_is_reported_as_such(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_holder holder;
    int64_t ttl_ms;

    probe_int(f->probe, "HSET orders %s 3", PEER);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms, -1);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_int_equal(holder.ttl_ms, -1);
    assert_int_equal(holder.hold_count, 3);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
}

/* Other programs' fields need not be as long as ours. */
static void a_holder_with_a_very_long_name_does_no_harm(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_holder holder;
    char field[300];

    memset(field, 'h', sizeof(field) - 1);
    field[sizeof(field) - 1] = '\0';
    probe_int(f->probe, "HSET orders %s 1", field);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_true(strnlen(holder.id, sizeof(holder.id)) < sizeof(holder.id));
    assert_int_equal(strncmp(holder.id, field, strlen(holder.id)), 0);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static void check_reports_the_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant, checked;

    memset(&checked, 0x55, sizeof(checked));
    assert_result(relock_check(lock, 0, &checked), RELOCK_NOT_OWNER);
    assert_memory_equal(&checked, &(struct relock_grant){0}, sizeof(checked));

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_result(relock_check(lock, 0, &checked), RELOCK_OK);
    assert_int_equal(checked.hold_count, 2);
    assert_true(checked.owner == grant.owner);
    assert_true(checked.valid_ms > 0 && checked.valid_ms <= grant.valid_ms);
    assert_int_equal(checked.fencing_token, 0);
    assert_int_equal(checked.acked_replicas, 0);
    assert_true(relock_valid_ms(lock) <= checked.valid_ms);
    assert_true(relock_is_mine(lock));
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void queries_of_local_state_send_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(f->server);
    for (int i = 0; i < 1000; i++) {
        assert_true(relock_is_mine(lock));
        assert_true(relock_valid_ms(lock) > 0);
        assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
        assert_int_equal(stats_of(client).holds, 1);
        assert_string_equal(relock_lock_name(lock), "orders");
    }
    server_resume(f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static bool is_connected(void *client)
{
    return stats_of(client).connected == 1;
}

static void stats_fit_into_older_and_newer_structs(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    unsigned char bytes[2 * sizeof(struct relock_stats)];
    struct relock_stats now;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_until(is_connected, client, SOON_MS)); /* no number but the age changes now */
    now = stats_of(client);

    memset(bytes, 0x55, sizeof(bytes));
    assert_result(relock_client_stats(client, (void *)bytes, 2 * sizeof(uint64_t)), RELOCK_OK);
    assert_memory_equal(bytes, &now, 2 * sizeof(uint64_t));
    assert_int_equal(bytes[2 * sizeof(uint64_t)], 0x55);

    memset(bytes, 0x55, sizeof(bytes));
    assert_result(relock_client_stats(client, (void *)bytes, sizeof(bytes)), RELOCK_OK);
    assert_memory_equal(bytes, &now, offsetof(struct relock_stats, oldest_hold_us));
    for (size_t i = sizeof(now); i < sizeof(bytes); i++)
        assert_int_equal(bytes[i], 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_strangers_hold_is_seen_and_not_ours),
        SERVER_TEST(the_count_is_that_of_the_calling_thread),
        SERVER_TEST(the_count_of_any_owner_is_reported),
        SERVER_TEST(a_thread_knows_its_number_without_a_hold),
        SERVER_TEST(only_the_forced_side_counts_as_held),
        SERVER_TEST(a_hold_without_a_lease_is_reported_as_such),
        SERVER_TEST(a_holder_with_a_very_long_name_does_no_harm),
        SERVER_TEST(check_reports_the_hold),
        SERVER_TEST(queries_of_local_state_send_nothing),
        SERVER_TEST(stats_fit_into_older_and_newer_structs),
    };

    return SERVER_TESTS_RUN(tests);
}
