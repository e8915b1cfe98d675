/* Red locks of servers that refuse: their words reach the caller and the log. */
#include "support/red.h"

#define COMMAND_MS 1300 /* outlives a second in which a machine stands still */

static void on_each(struct servers *s, const char *command)
{
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(probe_int(s->probe[i], command), 0);
}

static struct red of_user(struct servers *s)
{
    return red_new(s, &(struct relock_options){.command_timeout_ms = slow_ms(COMMAND_MS),
                                               .user = "guest",
                                               .password = "secret"});
}

static void a_right_that_most_do_not_give_is_named(void **state)
{
    struct servers *s = *state;
    struct red red;

    on_each(s, "ACL SETUSER guest on >secret ~* &* +@all -hset");
    red = of_user(s);
    assert_result(relock_trylock(red.lock), RELOCK_E_AUTH);
    assert_true(
        log_wait(s->f->log, "may not run 'hset', which the script lock.lua needs", SOON_MS));
    on_each(s, "ACL SETUSER guest +hset");
    red_settle(s, &red, s->n);
}

/* The result is RELOCK_E_CONN if the last attempt got no reply before the deadline. */
static int try_until_refused(const struct red *red)
{
    int r = RELOCK_E_CONN;

    for (int i = 0; i < 10 && r == RELOCK_E_CONN; i++)
        r = relock_trylock(red->lock);
    return r;
}

static void a_server_that_refuses_for_now_is_retried_and_then_named(void **state)
{
    struct servers *s = *state;
    struct red red =
        red_new(s, &(struct relock_options){.command_timeout_ms = slow_ms(COMMAND_MS)});

    red_settle(s, &red, s->n);
    on_each(s, "CONFIG SET maxmemory 1");
    assert_result(try_until_refused(&red), RELOCK_E_SERVER);
    assert_true(log_wait(s->f->log, "OOM", SOON_MS));
    on_each(s, "CONFIG SET maxmemory 0");
    assert_result(relock_trylock(red.lock), RELOCK_OK);
    red_unlock(&red);
}

static void a_refusing_minority_costs_only_votes(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(probe_int(s->probe[i], "CONFIG SET maxmemory 1"), 0);
    assert_result(relock_trylock(red.lock), RELOCK_OK);
    red_unlock(&red);
    on_each(s, "CONFIG SET maxmemory 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_right_that_most_do_not_give_is_named),
        SERVERS_TEST(a_server_that_refuses_for_now_is_retried_and_then_named),
        SERVERS_TEST(a_refusing_minority_costs_only_votes),
    };
    return SERVERS_TESTS_RUN(tests);
}
