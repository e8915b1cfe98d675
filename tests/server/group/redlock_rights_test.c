/*
 * The line of `relock acl` for the kind of the members suffices for a red lock, on each of
 * its servers.
 */
#include "support/red_line.h"
#include "support/rights.h"

#define LEASE_MS 2000

static void give_rights(struct servers *s, const char *kind)
{
    for (size_t i = 0; i < s->n; i++) {
        struct fixture there = {.probe = s->probe[i]};

        rights_give(&there, kind, NULL);
    }
}

/* Acquired, nested, renewed, queried, waited for and released. */
static void live(struct servers *s, const char *kind, fixture_constructor_fn *member,
                 unsigned flags, bool has_line)
{
    struct relock_options options = {.user = "locker",
                                     .password = "secret",
                                     .watchdog_timeout_ms = outlast_ms(LEASE_MS),
                                     .flags = flags};
    struct actor *waiting = actor_start();
    struct relock_holder holder;
    struct red red, other;

    give_rights(s, kind);
    red = red_new_of(s, &options, member);
    other = red_new_of(s, &options, member);
    red_lock_on_all(s, &red);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_who_holds(red.lock, &holder), RELOCK_OK);
    actor_begin(waiting, actor_take_turn, other.lock);
    assert_true(wait_for_waiters(other.clients[0], 1));
    assert_true(!has_line || red_line_wait(s, 1));
    assert_true(wait_for_renewals(red.clients[0], 0, 1));
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    red_unlock(&red);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(log_count(s->f->log, "NOPERM"), 0);
    assert_int_equal(log_count(s->f->log, "each release of this lock wakes"), 0);
}

static void the_rights_of_reentrant_members_suffice(void **state)
{
    live(*state, "reentrant", relock_lock_new, 0, true);
}

static void the_rights_of_plain_members_suffice(void **state)
{
    live(*state, "plain", relock_plainlock_new, 0, false);
    assert_true(wait_for_no_keys(((struct servers *)*state)->probe[0]));
    live(*state, "announced-plain", relock_plainlock_new, RELOCK_ANNOUNCE_PLAIN, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(the_rights_of_reentrant_members_suffice),
        SERVERS_TEST(the_rights_of_plain_members_suffice),
    };

    return THREE_SERVERS_TESTS_RUN(tests);
}
