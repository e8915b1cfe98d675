/*
 * Waiting for a fair lock: a living waiter keeps its place, retries seldom, and leaves nothing
 * behind.
 */
#include "support/actor.h"
#include "support/fair_queue.h"

#include <stdio.h>

#define RECHECK_MS 300
#define PATIENCE_MS (3 * RECHECK_MS)
#define LONG_MS (3 * PATIENCE_MS)
#define CALM_RECHECK_MS 800 /* a waiter delayed for two of these loses its place */
#define CALM_PATIENCE_MS (3 * CALM_RECHECK_MS)
#define N_WAITERS 4
#define ABSENT "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:41"

/* Its holds are not checked: that would be a script beside those of waiters. */
static struct relock_client *client_with(struct fixture *f, uint64_t recheck_ms)
{
    return fixture_client(f, &(struct relock_options){.recheck_ms = recheck_ms,
                                                      .watchdog_timeout_ms = NEVER_MS,
                                                      .flags = RELOCK_NO_TRACKING});
}

static void a_long_waiter_keeps_its_place(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, slow_ms(CALM_RECHECK_MS));
    struct relock_lock *lock = fair_handle(f, client);
    struct relock_lock *other = fair_handle(f, client_with(f, NEVER_MS));
    struct relock_lock *third = fair_handle(f, client_with(f, NEVER_MS));
    struct actor *waiting[N_WAITERS], *asking = actor_start();
    char fields[N_WAITERS][FAIR_FIELD_MAX], field[FAIR_FIELD_MAX];

    assert_result(relock_lock(other), RELOCK_OK);
    fair_queue_line_up(f, waiting, N_WAITERS, lock);
    for (int i = 0; i < N_WAITERS; i++)
        fair_queue_field(f, i, fields[i]);
    /* Each attempt drops the dead. */
    for (uint64_t until_ms = deadline_in(CALM_PATIENCE_MS + 2 * CALM_RECHECK_MS);
         now_ms() < until_ms; let_pass(10)) {
        assert_result(actor_trylock(asking, third), RELOCK_BUSY);
        assert_int_equal(probe_int(f->probe, "LLEN " FAIR_QUEUE), N_WAITERS);
    }
    for (int i = 0; i < N_WAITERS; i++) {
        fair_queue_field(f, i, field);
        assert_string_equal(field, fields[i]);
        assert_true(fair_queue_rest_ms(f, i) > 0);
        assert_true(fair_queue_rest_ms(f, i) <= (long long)slow_ms((i + 1) * CALM_PATIENCE_MS));
    }
    assert_true(stats_of(client).rechecks >= N_WAITERS);
    assert_result(relock_unlock(other), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++)
        assert_gets_in(waiting[i], lock);
}

/* One attempt per interval of each waiter, and a few to begin. */
static void assert_asks_seldom(struct fixture *f, long long before, uint64_t began_ms,
                               const uint64_t every_ms[N_WAITERS])
{
    long long calls = probe_script_calls(f->probe) - before;
    uint64_t took_ms = now_ms() - began_ms;
    long long most = 0;

    for (int i = 0; i < N_WAITERS; i++)
        most += (long long)(took_ms / every_ms[i]) + 5;
    print_message("%llu ms: %lld scripts of %lld\n", (unsigned long long)took_ms, calls, most);
    assert_true(calls <= most);
}

/* Each behind others retries less often: it is told when it is its turn. */
static void waiters_of_a_held_lock_retry_once_per_recheck_and_place(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, client_with(f, slow_ms(RECHECK_MS)));
    struct relock_lock *other = fair_handle(f, client_with(f, NEVER_MS));
    uint64_t every_ms[N_WAITERS];
    struct actor *waiting[N_WAITERS];
    long long before;
    uint64_t began_ms;

    for (int i = 0; i < N_WAITERS; i++)
        every_ms[i] = slow_ms((uint64_t)(i + 1) * RECHECK_MS);
    assert_result(relock_lock(other), RELOCK_OK);
    began_ms = now_ms();
    before = probe_script_calls(f->probe);
    fair_queue_line_up(f, waiting, N_WAITERS, lock);
    let_pass(slow_ms(LONG_MS));
    assert_asks_seldom(f, before, began_ms, every_ms);
    assert_result(relock_unlock(other), RELOCK_OK);
    fair_all_take_turns(lock, waiting, N_WAITERS);
}

/* It is told for how long the lock is held. */
static void a_waiter_that_becomes_first_does_not_ask(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, client_with(f, NEVER_MS));
    struct actor *waiting[N_WAITERS];
    long long before;

    assert_result(relock_lock(lock), RELOCK_OK);
    fair_queue_line_up(f, waiting, N_WAITERS, lock);
    for (int i = 0; i < N_WAITERS; i++)
        assert_true(fair_queue_wait_listens(f, i));
    before = probe_script_calls(f->probe);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(waiting[0]), RELOCK_OK);
    let_pass(50);
    assert_int_equal(probe_script_calls(f->probe) - before, 2);
    assert_result(actor_unlock(waiting[0], lock), RELOCK_OK);
    fair_all_take_turns(lock, waiting + 1, N_WAITERS - 1);
}

/* Redisson's waiters retry without a pause here. Ours retry less often if more are ahead. */
static void waiters_behind_a_dead_first_of_a_free_lock_retry_seldom(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, client_with(f, NEVER_MS));
    const uint64_t every_ms[N_WAITERS] = {100, 200, 300, 400};
    struct actor *waiting[N_WAITERS];
    long long before;
    uint64_t began_ms;

    fair_queue_add_dead(f, ABSENT, NEVER_MS);
    began_ms = now_ms();
    before = probe_script_calls(f->probe);
    fair_queue_line_up(f, waiting, N_WAITERS, lock);
    let_pass(LONG_MS);
    assert_asks_seldom(f, before, began_ms, every_ms);
    fair_queue_remove(f, ABSENT);
    fair_all_take_turns(lock, waiting, N_WAITERS);
}

/* A head that died just before the release: only its deadline shows it. */
static void a_dead_first_waiter_blocks_until_its_deadline(void **state)
{
    struct fixture *f = *state;
    uint64_t patience_ms = 700;
    struct relock_client *client = client_with(f, NEVER_MS);
    struct relock_lock *lock = fair_handle(f, client);
    uint64_t began_ms = now_ms();

    fair_queue_add_dead(f, ABSENT, (long long)patience_ms);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(now_ms() - began_ms >= patience_ms - 5); /* two clocks */
    assert_no_later(now_ms() - began_ms, patience_ms + slow_ms(SOON_MS));
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void each_waiter_has_a_channel_of_its_own_for_as_long_as_it_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, client_with(f, NEVER_MS));
    struct actor *waiting[N_WAITERS];
    char channels[N_WAITERS][FAIR_FIELD_MAX + sizeof(FAIR_CHANNEL)];

    assert_result(relock_lock(lock), RELOCK_OK);
    fair_queue_line_up(f, waiting, N_WAITERS, lock);
    assert_true(probe_wait_lock_channels(f->probe, N_WAITERS));
    for (int i = 0; i < N_WAITERS; i++) {
        char field[FAIR_FIELD_MAX];

        fair_queue_field(f, i, field);
        snprintf(channels[i], sizeof(channels[i]), FAIR_CHANNEL ":%s", field);
        assert_int_equal(probe_subscribers(f->probe, channels[i]), 1);
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++) {
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        assert_true(probe_wait_subscribers(f->probe, channels[i], 0)); /* not at the release */
        assert_result(actor_unlock(waiting[i], lock), RELOCK_OK);
    }
    assert_int_equal(probe_n_lock_channels(f->probe), 0);
}

static void the_keys_of_a_queue_do_not_stay(void **state)
{
    static const char *const keys[] = {FAIR_QUEUE, FAIR_DEADLINES};
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, client_with(f, slow_ms(RECHECK_MS)));
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(lock), RELOCK_OK);
    fair_queue_line_up(f, waiting, N_WAITERS, lock);
    for (int i = 0; i < 2; i++) {
        assert_true(probe_pttl(f->probe, keys[i]) > 0);
        assert_true(probe_pttl(f->probe, keys[i]) <=
                    600000 + (long long)slow_ms(N_WAITERS * PATIENCE_MS));
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    fair_all_take_turns(lock, waiting, N_WAITERS);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* As after a failover: a waiter that retries is queued again, and none sleeps longer than its
 * recheck. */
static void all_waiters_get_the_lock_though_the_queue_is_lost(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, slow_ms(RECHECK_MS));
    struct relock_lock *lock = fair_handle(f, client);
    struct relock_lock *other = fair_handle(f, client_with(f, NEVER_MS));
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(other), RELOCK_OK);
    fair_queue_line_up(f, waiting, N_WAITERS, lock);
    probe_int(f->probe, "DEL " FAIR_QUEUE " " FAIR_DEADLINES);
    assert_true(fair_queue_wait(f, N_WAITERS));
    probe_int(f->probe, "DEL " FAIR_QUEUE);
    assert_true(fair_queue_wait(f, N_WAITERS));
    probe_int(f->probe, "DEL " FAIR_DEADLINES);
    assert_true(fair_queue_wait(f, N_WAITERS));
    probe_int(f->probe, "FLUSHALL");
    fair_all_take_turns(lock, waiting, N_WAITERS);
    assert_result(relock_unlock(other), RELOCK_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_long_waiter_keeps_its_place),
        SERVER_TEST(waiters_of_a_held_lock_retry_once_per_recheck_and_place),
        SERVER_TEST(a_waiter_that_becomes_first_does_not_ask),
        SERVER_TEST(waiters_behind_a_dead_first_of_a_free_lock_retry_seldom),
        SERVER_TEST(a_dead_first_waiter_blocks_until_its_deadline),
        SERVER_TEST(each_waiter_has_a_channel_of_its_own_for_as_long_as_it_waits),
        SERVER_TEST(the_keys_of_a_queue_do_not_stay),
        SERVER_TEST(all_waiters_get_the_lock_though_the_queue_is_lost),
    };

    return SERVER_TESTS_RUN(tests);
}
