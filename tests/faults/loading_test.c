/* A server that was killed and restarts with its data, which takes a while to load; and one that is
 * slow when a client is made. */
#include "faults.h"

#include <stdio.h>

#define N_KEYS 80
#define KEY_BYTES 524288

/* 50 ms for each key, 4 s in all; commands are answered, with LOADING, after every 2 MiB. */
static int start_slow_reader(void **state)
{
    return faults_start_with(
        state,
        &(struct server_options){.args = {"--key-load-delay", "50000", "--rdbcompression", "no"}},
        false);
}

static void save_much(struct faults *t)
{
    assert_int_equal(probe_int(t->f->probe, "EVAL %s 0 %d %d",
                               "for i = 1, ARGV[1] do "
                               "redis.call('set', 'fill:' .. i, string.rep('x', ARGV[2])) "
                               "end return 0",
                               N_KEYS, KEY_BYTES),
                     0);
    assert_int_equal(probe_int(t->f->probe, "SAVE"), 0);
}

static void save_nothing(struct faults *t)
{
    for (int i = 1; i <= N_KEYS; i++)
        assert_int_equal(probe_int(t->f->probe, "DEL fill:%d", i), 1);
    assert_int_equal(probe_int(t->f->probe, "SAVE"), 0);
}

static void holds_and_waits_outlive_a_server_that_loads_its_data(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = slow_ms(12000),
                                                  .connect_timeout_ms = slow_ms(3000),
                                                  .command_timeout_ms = slow_ms(20000),
                                                  .recheck_ms = slow_ms(500)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *contended = fixture_lock(t->f, client, "invoices");
    struct actor *owner = actor_start();
    struct actor *waiting = actor_start();

    assert_result(actor_lock(owner, lock), RELOCK_OK);
    assert_true(peer_lock(t->f->probe, "invoices", PEER, LONG_MS));
    actor_begin_lock(waiting, contended);
    assert_true(wait_for_waiters(client, 1));
    save_much(t);
    server_kill(t->f->server);
    actor_begin_lock(owner, lock);
    server_restart(t->f->server); /* returns when all data are loaded */

    assert_result(actor_result(owner), RELOCK_OK);
    assert_true(proxy_count(t->proxy, "-LOADING") > 0);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 2);
    assert_true(actor_is_busy(waiting));
    assert_true(peer_unlock(t->f->probe, "invoices", PEER));
    assert_gets_in(waiting, contended);

    assert_true(wait_for_renewals(client, stats_of(client).renewed, 1));
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    save_nothing(t);
}

#define N_OWNERS 6
#define COMMAND_MS 1200 /* a slow machine does not load more slowly */

/* Until the server is connected and answers: while loading it answers only at times, and a try
 * may time out. */
static int try_until_answered(void *lock)
{
    int r = RELOCK_E_CONN;

    for (uint64_t until_ms = deadline_in(SOON_MS); r == RELOCK_E_CONN && now_ms() < until_ms;)
        r = relock_trylock(lock);
    return r;
}

/* Several owners try at different moments, so that at least one gets -LOADING. */
static void a_server_that_loads_for_longer_than_the_command_timeout_refuses(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.connections = N_OWNERS,
                                                  .connect_timeout_ms = slow_ms(3000),
                                                  .command_timeout_ms = COMMAND_MS});
    struct relock_lock *locks[N_OWNERS];
    struct actor *owners[N_OWNERS];
    int n_refused = 0;

    save_much(t);
    server_kill(t->f->server);
    for (int i = 0; i < N_OWNERS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "orders:%d", i);
        locks[i] = fixture_lock(t->f, client, name);
        owners[i] = actor_start();
        actor_begin(owners[i], try_until_answered, locks[i]);
        let_pass(COMMAND_MS / N_OWNERS);
    }
    server_restart(t->f->server);
    for (int i = 0; i < N_OWNERS; i++) {
        int r = actor_result(owners[i]);

        n_refused += r == RELOCK_E_SERVER;
        if (r != RELOCK_E_SERVER)
            assert_result(r, RELOCK_OK); /* all data were loaded by then */
        else
            assert_result(actor_trylock(owners[i], locks[i]), RELOCK_OK);
        assert_result(actor_unlock(owners[i], locks[i]), RELOCK_OK);
    }
    assert_true(n_refused > 0);
    assert_true(log_wait(t->f->log, "LOADING", SOON_MS));
    save_nothing(t);
}

static void a_client_is_made_although_its_first_commands_have_no_answer_in_time(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *lost = proxy_next(t->proxy, PROXY_LOSE, "SCRIPT LOAD");
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.connect_timeout_ms = slow_ms(SOON_MS),
                                                  .command_timeout_ms = COMMAND_MS});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    assert_true(proxy_met(lost, 1));
    assert_result(try_until_answered(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(holds_and_waits_outlive_a_server_that_loads_its_data),
        FAULT_TEST(a_server_that_loads_for_longer_than_the_command_timeout_refuses),
        FAULT_TEST(a_client_is_made_although_its_first_commands_have_no_answer_in_time),
    };

    return cmocka_run_group_tests(tests, start_slow_reader, faults_stop);
}
