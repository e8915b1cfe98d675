/*
 * The first client in line listens to the channel of the lock, so it learns of releases by clients
 * that know of no line: those of Redisson, and older ones of this library.
 */
#include "support/line.h"
#include "support/peer.h"

#define CHANNEL "redisson_lock__channel:{orders}"
#define LEASE_MS 1000 /* the second has joined the line before its end */

/* A holder whose number is as long as ours, of a program that tells nobody in the line. */
#define OLDER "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:1000000041"

static void peer_gives_way(struct fixture *f, const char *holder, struct relock_client *client,
                           struct actor *waiting, struct relock_lock *lock)
{
    assert_true(peer_unlock(f->probe, "orders", holder));
    assert_gets_in(waiting, lock);
    assert_int_equal(stats_of(client).rechecks, 0);
}

static void the_first_hears_the_release_of_an_older_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    char entry[LINE_ENTRY_MAX];
    struct actor *waiting;

    assert_true(peer_lock(f->probe, "orders", OLDER, NEVER_MS));
    waiting = line_begin(f, lock, 1);
    line_entry(f, 0, entry);
    assert_true(line_wait_listener(f, entry));
    peer_gives_way(f, OLDER, client, waiting, lock);
}

/* It asks as soon as it listens. */
static void a_release_before_the_first_listens_is_not_missed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting;

    assert_true(peer_lock(f->probe, "orders", OLDER, NEVER_MS));
    waiting = line_begin(f, lock, 1);
    peer_gives_way(f, OLDER, client, waiting, lock);
}

static void the_first_listens_at_once_to_a_client_of_another_library(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    uint64_t fastest_ms = NEVER_MS;

    for (int i = 0; i < 5; i++) {
        struct actor *waiting = actor_start();
        uint64_t began_ms = now_ms(), took_ms;

        assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
        actor_begin_lock(waiting, lock);
        assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
        took_ms = now_ms() - began_ms;
        fastest_ms = took_ms < fastest_ms ? took_ms : fastest_ms;
        peer_gives_way(f, PEER, client, waiting, lock);
        assert_true(probe_wait_subscribers(f->probe, CHANNEL, 0));
    }
    assert_true(fastest_ms < LINE_RESERVED_MS);
}

/* The others are woken by their turn alone. */
static void only_the_first_listens(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[3];
    struct relock_lock *locks[3];
    struct actor *waiting[3];
    char entry[LINE_ENTRY_MAX];

    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    for (int i = 0; i < 3; i++) {
        clients[i] = line_client(f);
        locks[i] = kind_lock(f, clients[i], "orders");
        waiting[i] = line_begin(f, locks[i], i + 1);
    }
    line_entry(f, 0, entry);
    assert_true(line_wait_listener(f, entry));
    assert_int_equal(probe_subscribers(f->probe, CHANNEL), 1);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    for (int i = 0; i < 3; i++)
        assert_gets_in(waiting[i], locks[i]);
}

/* No release told it. */
static void a_grant_tells_the_next_client_that_it_is_first(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct listener *next;
    struct actor *waiting;

    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    waiting = line_begin(f, lock, 1);
    next = line_join_silent(f, SILENT);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_true(line_hears_first(next));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 0)); /* else it counts as another */
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
    assert_true(line_hears_now(next));
    assert_int_equal(probe_int(f->probe, "DEL " LINE " " LINE_TURN), 2);
    listener_close(next);
}

/* It has no line: it asks and gets the lock, though another client was told. */
static void a_client_of_another_library_may_overtake(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct listener *told;
    struct actor *waiting;

    assert_result(relock_lock(lock), RELOCK_OK);
    told = line_join_silent(f, SILENT);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(line_hears_now(told));
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    waiting = line_begin(f, lock, 2);
    peer_gives_way(f, PEER, client, waiting, lock);
    listener_close(told);
}

/* The lease ends, which the second acts on later than the first: that is no recheck. */
static void the_second_gets_in_after_a_lease_without_a_recheck(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct listener *first;
    struct actor *waiting;

    assert_true(peer_lock(f->probe, "orders", PEER, slow_ms(LEASE_MS)));
    first = line_join_silent(f, SILENT);
    waiting = line_begin(f, lock, 2);
    assert_gets_in(waiting, lock);
    assert_int_equal(stats_of(client).rechecks, 0);
    probe_int(f->probe, "DEL " LINE " " LINE_TURN);
    listener_close(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(the_first_hears_the_release_of_an_older_client, reentrant),
        KINDS_TEST_OF(the_first_hears_the_release_of_an_older_client, fenced),
        KINDS_TEST_OF(a_release_before_the_first_listens_is_not_missed, reentrant),
        KINDS_TEST_OF(a_release_before_the_first_listens_is_not_missed, fenced),
        KINDS_TEST_OF(the_first_listens_at_once_to_a_client_of_another_library, reentrant),
        KINDS_TEST_OF(the_first_listens_at_once_to_a_client_of_another_library, fenced),
        KINDS_TEST_OF(only_the_first_listens, reentrant),
        KINDS_TEST_OF(a_grant_tells_the_next_client_that_it_is_first, reentrant),
        KINDS_TEST_OF(a_grant_tells_the_next_client_that_it_is_first, fenced),
        KINDS_TEST_OF(a_client_of_another_library_may_overtake, reentrant),
        KINDS_TEST_OF(the_second_gets_in_after_a_lease_without_a_recheck, reentrant),
        KINDS_TEST_OF(the_second_gets_in_after_a_lease_without_a_recheck, fenced),
    };

    return SERVER_TESTS_RUN(tests);
}
