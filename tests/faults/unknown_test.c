/*
 * A server that does not know commands without which scripts cannot run: an old one, one restricted
 * by a provider, or one behind a proxy that admits only some.
 *
 *     unknown_fault_test EVALSHA | SCRIPT
 */
#include "faults.h"

#include <string.h>

static const struct server_options evalsha = {.args = {"--rename-command", "EVALSHA", ""}};

/* One of SCRIPT LOAD and EVAL suffices. */
static const struct server_options scripts = {
    .args = {"--rename-command", "SCRIPT", "", "--rename-command", "EVAL", ""}};

static const struct server_options *unknown = &evalsha;

static int start_without(void **state)
{
    return faults_start_with(state, unknown, false);
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
    assert_no_later(actor_took_ms(owner), slow_ms(SOON_MS) / 2);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(an_unknown_command_is_refused_at_once),
    };

    if (argc > 1 && strcmp(argv[1], "SCRIPT") == 0)
        unknown = &scripts;
    return cmocka_run_group_tests(tests, start_without, faults_stop);
}
