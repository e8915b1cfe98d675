/* The bytes that Redis sees, and another library that writes the same: docs/wire.md#reentrant. */
#include "support/listener.h"
#include "support/waiter.h"

#include <stdlib.h>
#include <string.h>

#define LEASE_MS 30000
#define UUID_LEN 36
#define NUMBERS_OF_A_THREAD 1000000000ull

static void the_client_id_is_a_uuid_of_version_4(void **state)
{
    struct fixture *f = *state;
    const char *id = relock_client_id(fixture_client(f, NULL));
    const char *other = relock_client_id(fixture_client(f, NULL));

    assert_int_equal(strlen(id), UUID_LEN);
    for (int i = 0; i < UUID_LEN; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23)
            assert_int_equal(id[i], '-');
        else
            assert_non_null(strchr("0123456789abcdef", id[i]));
    }
    assert_int_equal(id[14], '4');
    assert_non_null(strchr("89ab", id[19]));
    assert_string_not_equal(id, other);
}

static void the_name_is_the_key_of_a_hash_with_a_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_string_equal(probe_text(f->probe, "TYPE orders"), "hash");
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_true(probe_pttl(f->probe, "orders") > LEASE_MS / 2);
    assert_true(probe_pttl(f->probe, "orders") <= LEASE_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* The number of a hold, from its field; 0 if the field is not `<client id>:<number>`. */
static unsigned long long hold_number(struct fixture *f, struct relock_client *client)
{
    const char *field = probe_only_field(f->probe, "orders");
    char *end;
    unsigned long long number;

    if (strlen(field) < UUID_LEN + 2 || strncmp(field, relock_client_id(client), UUID_LEN) != 0 ||
        field[UUID_LEN] != ':')
        return 0;
    number = strtoull(field + UUID_LEN + 1, &end, 10);
    return *end == '\0' ? number : 0;
}

static void the_field_is_the_client_the_owner_and_a_serial(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_how how = {.owner = relock_owner_new()};
    struct relock_grant grant;
    unsigned long long first, second;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    first = hold_number(f, client);
    assert_true(first / NUMBERS_OF_A_THREAD == grant.owner);
    assert_result(relock_unlock(lock), RELOCK_OK);

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_true(hold_number(f, client) / NUMBERS_OF_A_THREAD == how.owner);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);

    assert_result(relock_lock(lock), RELOCK_OK);
    second = hold_number(f, client);
    assert_true(second / NUMBERS_OF_A_THREAD == grant.owner);
    assert_true(second > first);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void all_levels_of_a_hold_have_one_field(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    unsigned long long number;

    assert_result(relock_lock(lock), RELOCK_OK);
    number = hold_number(f, client);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(hold_number(f, client) == number);
    assert_string_equal(
        probe_text(f->probe, "HGET orders %s:%llu", relock_client_id(client), number), "2");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(hold_number(f, client) == number);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_release_is_announced_on(struct fixture *f, const char *name, const char *channel)
{
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, name);
    struct listener *listener = listener_open(f->server->socket, channel);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears_nothing(listener, 20));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(listener, "0", SOON_MS));

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_result(relock_force_unlock(lock), RELOCK_OK); /* already free: no message */
    assert_true(listener_hears_nothing(listener, 20));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(listener_hears_nothing(listener, 20));
    listener_close(listener);
}

static void a_release_publishes_one_zero(void **state)
{
    a_release_is_announced_on(*state, "orders", "redisson_lock__channel:{orders}");
}

static void the_channel_of_a_name_with_a_brace_has_none_of_its_own(void **state)
{
    a_release_is_announced_on(*state, "{shop}:orders", "redisson_lock__channel:{shop}:orders");
    a_release_is_announced_on(*state, "odd{", "redisson_lock__channel:odd{");
}

static void a_closing_brace_alone_is_a_name_like_any(void **state)
{
    a_release_is_announced_on(*state, "odd}", "redisson_lock__channel:{odd}}");
}

/* Nothing but the message of a peer's release wakes it. */
static void a_waiter_listens_on_the_channel_of_the_name(void **state)
{
    static const char *const names[] = {"orders", "{shop}:orders", "with blank"};
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);

    for (size_t i = 0; i < 3; i++) {
        struct relock_lock *lock = fixture_lock(f, client, names[i]);
        struct actor *waiting = actor_start();

        waiter_begin(f, waiting, lock);
        waiter_gets_in(f, waiting, lock);
    }
}

static void a_peer_that_holds_excludes_us(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_peer_is_excluded_while_we_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_false(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_false(peer_unlock(f->probe, "orders", PEER));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_false(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

/* As the peer waits: subscribed, refused once more, and then until the message. */
static void a_peer_that_waits_is_woken_by_our_release(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct listener *peer;

    assert_result(relock_lock(lock), RELOCK_OK);
    peer = listener_open(f->server->socket, "redisson_lock__channel:{orders}");
    assert_false(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(peer, "0", SOON_MS));
    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    listener_close(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_client_id_is_a_uuid_of_version_4),
        SERVER_TEST(the_name_is_the_key_of_a_hash_with_a_lease),
        SERVER_TEST(the_field_is_the_client_the_owner_and_a_serial),
        SERVER_TEST(all_levels_of_a_hold_have_one_field),
        SERVER_TEST(a_release_publishes_one_zero),
        SERVER_TEST(the_channel_of_a_name_with_a_brace_has_none_of_its_own),
        SERVER_TEST(a_closing_brace_alone_is_a_name_like_any),
        SERVER_TEST(a_waiter_listens_on_the_channel_of_the_name),
        SERVER_TEST(a_peer_that_holds_excludes_us),
        SERVER_TEST(a_peer_is_excluded_while_we_hold),
        SERVER_TEST(a_peer_that_waits_is_woken_by_our_release),
    };

    return SERVER_TESTS_RUN(tests);
}
