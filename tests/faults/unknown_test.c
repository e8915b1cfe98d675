/*
 * A server that does not know a command: an old one, one restricted by a provider, or one behind a
 * proxy that admits only some.
 *
 *     unknown_fault_test EVALSHA | SCRIPT | SUBSCRIBE
 */
#include "faults.h"

#include <string.h>

static const char *unknown = "EVALSHA";

static int start_without(void **state)
{
    return faults_start_with(
        state, &(struct server_options){.args = {"--rename-command", unknown, ""}}, false);
}

static struct relock_client *client_of(struct faults *t)
{
    return faults_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                     .recheck_ms = slow_ms(200),
                                                     .command_timeout_ms = slow_ms(SOON_MS)});
}

/* At once, because a retry would not help; the log has the words of the server, which repeat the
 * name. */
static void an_unknown_command_is_refused_at_once(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_of(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders\x85\xc2\x85\nforged");
    struct actor *owner = actor_start();
    bool locked;

    assert_result(actor_lock(owner, lock), RELOCK_E_SERVER);
    assert_true(actor_took_ms(owner) < slow_ms(SOON_MS) / 2);
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_result(relock_is_locked(lock, &locked), RELOCK_E_SERVER);
    assert_result(relock_force_unlock(lock), RELOCK_E_SERVER);
    assert_result(actor_unlock(owner, lock), RELOCK_NOT_OWNER);
    assert_true(log_wait(t->f->log, "orders", SOON_MS));
    assert_true(log_wait(t->f->log, "ERR unknown command", SOON_MS));
    assert_int_equal(log_count(t->f->log, "\n"), 0);
    assert_int_equal(log_count(t->f->log, "\x85"), 0);
    assert_int_equal(stats_of(client).holds, 0);
}

/* Without messages, waiters poll. */
static void without_the_subscribe_command_a_waiter_polls(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_of(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting = faults_blocked(t, lock);

    assert_true(log_wait(t->f->log, "not subscribed", SOON_MS));
    assert_true(wait_for_rechecks(client, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest scripts[] = {
        FAULT_TEST(an_unknown_command_is_refused_at_once),
    };
    const struct CMUnitTest messages[] = {
        FAULT_TEST(without_the_subscribe_command_a_waiter_polls),
    };

    if (argc > 1)
        unknown = argv[1];
    if (strcmp(unknown, "SUBSCRIBE") == 0)
        return cmocka_run_group_tests(messages, start_without, faults_stop);
    return cmocka_run_group_tests(scripts, start_without, faults_stop);
}
