/*
 * Another program has written megabytes to the key of a lock. The lock is held as far as locks are
 * concerned. No reply is so long that it ends a connection, which may be the one for renewals.
 */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/plain_peer.h"
#include "support/ring.h"

#include <stdlib.h>
#include <string.h>

#define HUGE_BYTES (2 << 20) /* of a client's longest reply: 1 << 20 */

/* As the holder: the string, or the field of a hash. */
static void put_huge(struct fixture *f, const char *key)
{
    static const char suffix[] = ":write";
    char *bytes = malloc(HUGE_BYTES);

    assert_non_null(bytes);
    memset(bytes, 'h', HUGE_BYTES);
    memcpy(bytes + HUGE_BYTES - strlen(suffix), suffix, strlen(suffix));
    if (kind_now()->is_string)
        assert_int_equal(probe_int(f->probe, "SET %s %b", key, bytes, (size_t)HUGE_BYTES), 0);
    else
        assert_int_equal(probe_int(f->probe, "HSET %s %b 1", key, bytes, (size_t)HUGE_BYTES), 1);
    if (kind_now() == &kinds[KIND_WRITE])
        assert_int_equal(probe_int(f->probe, "HSET %s mode write", key), 1);
    free(bytes);
}

/* The client has replaced no connection. */
static void assert_unbroken(struct fixture *f, struct relock_client *client)
{
    assert_int_equal(log_count(f->log, "longer reply"), 0);
    assert_int_equal(stats_of(client).reconnects, 0);
}

static void a_huge_holder_is_reported_and_left_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_holder holder;
    bool held = true;

    put_huge(f, "orders");
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_int_equal(strspn(holder.id, "h"), sizeof(holder.id) - 1);
    assert_result(relock_force_unlock_held(lock, &held), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "data of another program", SOON_MS));
    assert_true(held); /* untouched */
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_unbroken(f, client);
}

/* It reads the lock to sleep until that changes. */
static void a_waiter_sleeps_until_huge_data_is_deleted(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){
                                                         .recheck_ms = NEVER_MS,
                                                         .command_timeout_ms = slow_ms(10000),
                                                     });
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *other = kind_lock(f, client, "other");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(other), RELOCK_OK);
    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, NEVER_MS));
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    let_pass(300);
    put_huge(f, "orders");
    let_pass(600);
    assert_true(actor_is_busy(waiting));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_gets_in(waiting, lock);
    assert_result(relock_unlock(other), RELOCK_OK);
    assert_unbroken(f, client);
}

/* The owner that waits holds another lock, so its client asks who is in the way. The wait has no
 * deadline: a call whose deadline passes while the reply is on its way gives up its connection. A
 * subscriber gives up its own when a PING has no answer within two rechecks. */
static void a_search_for_deadlocks_passes_over_huge_data(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){
                                                         .recheck_ms = outlast_ms(1000),
                                                         .deadlock_ms = DEADLOCK_MS,
                                                     });
    struct relock_lock *mine = fixture_lock(f, client, "mine");
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    put_huge(f, "orders");
    assert_result(actor_lock(waiting, mine), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    let_pass(slow_ms(4 * DEADLOCK_MS));
    assert_true(actor_is_busy(waiting));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_gets_in(waiting, lock);
    assert_result(actor_unlock(waiting, mine), RELOCK_OK);
    assert_unbroken(f, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_huge_holder_is_reported_and_left_alone),
        KINDS_TEST_OF(a_huge_holder_is_reported_and_left_alone, write),
        KINDS_TEST_OF(a_waiter_sleeps_until_huge_data_is_deleted, plain),
        KINDS_TEST(a_search_for_deadlocks_passes_over_huge_data),
        KINDS_TEST_OF(a_search_for_deadlocks_passes_over_huge_data, write),
    };

    return SERVER_TESTS_RUN(tests);
}
