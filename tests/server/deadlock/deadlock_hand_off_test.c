/*
 * An owner waits in one thread, and another thread of it releases what it holds. That goes to
 * another owner of the client with the same number, and is in nobody's way any more.
 */
#include "support/actor.h"
#include "support/fixture.h"

#include <stdio.h>
#include <string.h>

#define DEADLOCK_MS 200

static struct relock_client *client_of(struct fixture *f, uint64_t deadlock_ms)
{
    return fixture_client(f, &(struct relock_options){
                                 .watchdog_timeout_ms = slow_ms(NEVER_MS),
                                 .recheck_ms = slow_ms(NEVER_MS),
                                 .handoff_ms = slow_ms(NEVER_MS),
                                 .deadlock_ms = deadlock_ms,
                             });
}

struct scene {
    struct relock_client *clients[2];
    struct relock_lock *a[2], *b[2];
    struct actor *waiter, *heir, *other; /* the last one is of the second client */
    uint64_t owner;                      /* of the waiter */
    char field[128];                     /* of the lock a */
};

/* The owner holds `a`, for which the heir waits, and waits for `b`, which the other one holds. */
static struct scene set(struct fixture *f)
{
    struct scene s = {.owner = relock_owner_new()};
    char hash[64];

    for (int i = 0; i < 2; i++) {
        s.clients[i] = client_of(f, i == 0 ? DEADLOCK_MS : 1);
        s.a[i] = fixture_lock(f, s.clients[i], "a");
        s.b[i] = fixture_lock(f, s.clients[i], "b");
    }
    s.waiter = actor_start();
    s.heir = actor_start();
    s.other = actor_start();
    assert_result(actor_lock(s.other, s.b[1]), RELOCK_OK);
    assert_result(relock_acquire(s.a[0], &(struct relock_how){.owner = s.owner}, NULL), RELOCK_OK);
    snprintf(s.field, sizeof(s.field), "%s", probe_only_field(f->probe, "a"));
    actor_begin_lock(s.heir, s.a[0]);
    assert_true(wait_for_waiters(s.clients[0], 1));
    actor_begin_acquire(s.waiter, s.b[0],
                        &(struct relock_how){.owner = s.owner, .wait_ms = RELOCK_FOREVER});
    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(s.clients[0]));
    assert_true(probe_wait_key(f->probe, hash));
    return s;
}

static void a_hold_that_was_handed_off_is_no_longer_that_of_the_waiter(void **state)
{
    struct fixture *f = *state;
    struct scene s = set(f);

    assert_result(relock_release(s.a[0], s.owner), RELOCK_OK);
    assert_result(actor_result(s.heir), RELOCK_OK);
    assert_string_equal(probe_only_field(f->probe, "a"), s.field);

    assert_result(actor_wait_out(s.other, s.a[1], slow_ms(4 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_true(actor_is_busy(s.waiter));
    assert_result(actor_unlock(s.other, s.b[1]), RELOCK_OK);
    assert_result(actor_result(s.waiter), RELOCK_OK);
    assert_result(relock_release(s.b[0], s.owner), RELOCK_OK);
    assert_result(actor_unlock(s.heir, s.a[0]), RELOCK_OK);
    assert_int_equal(stats_of(s.clients[0]).deadlocks + stats_of(s.clients[1]).deadlocks, 0);
}

/* As long as the owner holds it, the same waits are a deadlock. */
static void a_hold_of_an_owner_that_waits_closes_a_cycle(void **state)
{
    struct fixture *f = *state;
    struct scene s = set(f);

    assert_result(actor_lock(s.other, s.a[1]), RELOCK_E_DEADLOCK);
    assert_result(actor_unlock(s.other, s.b[1]), RELOCK_OK);
    assert_result(actor_result(s.waiter), RELOCK_OK);
    assert_result(relock_release(s.b[0], s.owner), RELOCK_OK);
    assert_result(relock_release(s.a[0], s.owner), RELOCK_OK);
    assert_result(actor_result(s.heir), RELOCK_OK);
    assert_result(actor_unlock(s.heir, s.a[0]), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_hold_that_was_handed_off_is_no_longer_that_of_the_waiter),
        SERVER_TEST(a_hold_of_an_owner_that_waits_closes_a_cycle),
    };

    return SERVER_TESTS_RUN(tests);
}
