/*
 * Connections that end after any number of bytes: in the middle of a reply or, over TLS, of a
 * record or of the handshake. A call goes on over the next connection.
 */
#include "faults.h"

#include <stdlib.h>

#define LEASE_MS 20000
#define LAST 3000 /* more bytes than come until a lock is acquired */
#define STEP 13
#define PLAIN_LAST 400

static size_t last(void)
{
    return getenv("RELOCK_TEST_TLS") ? LAST : PLAIN_LAST;
}

static void a_connection_that_breaks_after_any_byte_costs_no_call_an_error(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *held = fixture_lock(t->f, client, "held");
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (size_t after = 1; after < last(); after += STEP) {
        proxy_break(t->proxy, 1, after);
        proxy_cut(t->proxy, "lock 1 orders"); /* the connection of callers */
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    proxy_break(t->proxy, 0, 1);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 0);
}

/* Its connection for messages breaks again and again. */
static void a_waiter_outlasts_connections_that_break_after_any_byte(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS, .recheck_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting = faults_blocked(t, lock);
    uint64_t before;

    for (size_t after = 1; after < last(); after += 20 * STEP) {
        assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
        before = stats_of(client).reconnects;
        proxy_break(t->proxy, 1, after);
        proxy_cut(t->proxy, "SUBSCRIBE");
        assert_true(wait_for_reconnects(client, before + 1));
    }
    proxy_break(t->proxy, 0, 1);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_connection_that_breaks_after_any_byte_costs_no_call_an_error),
        FAULT_TEST(a_waiter_outlasts_connections_that_break_after_any_byte),
    };

    return FAULT_TESTS_RUN(tests);
}
