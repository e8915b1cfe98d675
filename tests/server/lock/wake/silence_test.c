/* Waits end when Redis has been silent for `command_timeout_ms`, also behind a local holder. */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/multi.h"
#include "support/peer.h"

#include <stdio.h>

#define SILENCE_MS 2000
#define LATE_MS 6000 /* how late a wait may end on a shared machine */
#define N_WAITERS 1000
#define N_IDLE 8
#define BRIEF_LEASE_MS 300
#define N_LOCKS 10

static struct actor *waiting[N_WAITERS];
static uint64_t silent_at_ms;

/* No lease ends, and no waiter rechecks. */
static struct relock_client *new_client(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){
                                 .watchdog_timeout_ms = NEVER_MS,
                                 .command_timeout_ms = outlast_ms(SILENCE_MS),
                                 .recheck_ms = NEVER_MS,
                             });
}

static void fall_silent(struct fixture *f)
{
    server_pause(f->server);
    silent_at_ms = now_ms();
}

static void end_unreached(int n)
{
    for (int i = 0; i < n; i++) {
        assert_result(actor_result_within(waiting[i], SILENCE_MS + 2 * LATE_MS), RELOCK_E_CONN);
        assert_true(actor_took_ms(waiting[i]) >= outlast_ms(SILENCE_MS));
    }
    assert_no_later(now_ms() - silent_at_ms, 2 * outlast_ms(SILENCE_MS) + slow_ms(LATE_MS));
}

/* The head has been refused for the last time, and has no command in flight. */
static void wait_and_sleep(struct relock_client *client, struct relock_lock *lock, uint64_t waits)
{
    waiting[0] = actor_start();
    actor_begin_lock(waiting[0], lock);
    while (stats_of(client).waits < waits && actor_is_busy(waiting[0]))
        let_pass(1);
    let_pass(50);
}

static void a_wait_for_another_client_ends(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);

    assert_true(kind_peer_lock(f, "orders"));
    wait_and_sleep(client, kind_lock(f, client, "orders"), 2);
    fall_silent(f);
    end_unreached(1);
    server_resume(f->server);
    assert_true(kind_peer_unlock(f, "orders"));
}

/* The connection for renewals ends early, and is replaced by one of the idle ones for calls, which
 * say nothing either. */
static void a_wait_ends_although_there_are_idle_connections(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){
                              .watchdog_timeout_ms = BRIEF_LEASE_MS,
                              .command_timeout_ms = outlast_ms(SILENCE_MS),
                              .recheck_ms = NEVER_MS,
                          });
    const struct relock_how outlasting = {.wait_ms = RELOCK_FOREVER, .lease_ms = NEVER_MS};
    struct actor *actors[N_IDLE];
    struct relock_lock *locks[N_IDLE];

    server_pause(f->server);
    for (int i = 0; i < N_IDLE; i++) {
        char name[16];

        snprintf(name, sizeof(name), "idle%d", i);
        actors[i] = actor_start();
        locks[i] = fixture_lock(f, client, name);
        actor_begin_acquire(actors[i], locks[i], &outlasting);
    }
    let_pass(200);
    server_resume(f->server);
    for (int i = 0; i < N_IDLE; i++) {
        assert_result(actor_result(actors[i]), RELOCK_OK);
        assert_result(actor_unlock(actors[i], locks[i]), RELOCK_OK);
    }
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    wait_and_sleep(client, fixture_lock(f, client, "orders"), 1);
    fall_silent(f);
    end_unreached(1);
    server_resume(f->server);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_wait_for_another_thread_ends(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    waiting[0] = actor_start();
    actor_begin_lock(waiting[0], lock);
    assert_true(wait_for_waiters(client, 1));
    let_pass(50);
    fall_silent(f);
    end_unreached(1);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK); /* whose lease goes on */
    server_resume(f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_wait_for_a_member_ends(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *a = fixture_lock(f, client, "a"), *b = fixture_lock(f, client, "b");

    assert_result(relock_lock(b), RELOCK_OK);
    waiting[0] = actor_start();
    actor_begin_lock(waiting[0], fixture_multi(f, a, b, NULL));
    assert_true(wait_for_waiters(client, 1));
    let_pass(50);
    fall_silent(f);
    end_unreached(1);
    server_resume(f->server);
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
    assert_result(relock_unlock(b), RELOCK_OK);
}

static void a_thousand_waits_end_together(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *locks[N_LOCKS];

    for (int i = 0; i < N_LOCKS; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "orders:%d", i);
        locks[i] = fixture_lock(f, client, name);
        if (i % 2 == 0)
            assert_result(relock_lock(locks[i]), RELOCK_OK);
        else
            assert_true(peer_lock(f->probe, name, PEER, NEVER_MS));
    }
    for (int i = 0; i < N_WAITERS; i++) {
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], locks[i % N_LOCKS]);
    }
    assert_true(wait_for_waiters(client, N_WAITERS));
    fall_silent(f);
    end_unreached(N_WAITERS);
    server_resume(f->server);
    for (int i = 0; i < N_LOCKS; i++) {
        if (i % 2 == 0)
            assert_result(relock_unlock(locks[i]), RELOCK_OK);
        else
            assert_true(peer_unlock(f->probe, relock_lock_name(locks[i]), PEER));
    }
}

/* Its own wait has seen only a part of the silence. */
static void a_wait_that_begins_during_the_silence_lasts_as_long(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    fall_silent(f);
    for (int i = 0; i < 3; i++) {
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], lock);
        let_pass(SILENCE_MS / 4);
    }
    end_unreached(3);
    server_resume(f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_wait_outlasts_a_shorter_silence(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    waiting[0] = actor_start();
    actor_begin_lock(waiting[0], lock);
    assert_true(wait_for_waiters(client, 1));
    for (int i = 0; i < 4; i++) {
        server_pause(f->server);
        let_pass(outlast_ms(SILENCE_MS) / 4);
        server_resume(f->server);
        let_pass(outlast_ms(SILENCE_MS) / 2);
        assert_true(actor_is_busy(waiting[0]));
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting[0], lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_wait_for_another_client_ends),
        KINDS_TEST(a_wait_for_another_thread_ends),
        SEMAPHORE_TEST(a_wait_for_another_thread_ends),
        SERVER_TEST(a_wait_ends_although_there_are_idle_connections),
        SERVER_TEST(a_wait_for_a_member_ends),
        SERVER_TEST(a_thousand_waits_end_together),
        SERVER_TEST(a_wait_that_begins_during_the_silence_lasts_as_long),
        SERVER_TEST(a_wait_outlasts_a_shorter_silence),
    };

    return SERVER_TESTS_RUN(tests);
}
