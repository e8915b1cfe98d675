/* Multi locks with a red member: its lease while others are waited for, and its own levels. */
#include "support/multi.h"
#include "support/red.h"

#include <string.h>

static bool lacks_quorum(void *arg)
{
    struct servers *s = arg;

    return red_n_keys(s) <= s->n / 2;
}

static void a_red_member_with_a_lease_is_kept_while_others_are_waited_for(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *b = fixture_lock(s->f, red.clients[0], "z");
    struct relock_lock *theirs = fixture_lock(s->f, servers_client(s, 0, NULL), "z");
    struct relock_lock *multi = fixture_multi(s->f, red.lock, b, NULL);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .lease_ms = outlast_ms(2000)};
    struct actor *actor = actor_start();
    bool is_kept;

    red_settle(s, &red, s->n);
    assert_result(relock_lock(theirs), RELOCK_OK);
    actor_begin_acquire(actor, multi, &how);
    assert_true(red_wait_keys(s, s->n));
    is_kept = !wait_until(lacks_quorum, s, 4000);
    assert_true(actor_is_busy(actor));
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_gets_in(actor, multi);
    assert_true(is_kept);
}

static bool is_told_of(struct losses *losses, const char *name)
{
    for (size_t i = 0; i < losses_count(losses); i++)
        if (strcmp(losses_get(losses, i).name, name) == 0)
            return true;
    return false;
}

static bool is_told_of_other(void *losses)
{
    return is_told_of(losses, "other");
}

static bool is_lost_by_main(void *lock)
{
    return relock_extend(lock, 0, 60000) == RELOCK_LOST;
}

static void a_level_of_a_red_member_that_outlives_the_composite_is_reported(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *other = fixture_lock(s->f, red.clients[0], "other");
    struct relock_lock *multi = fixture_multi(s->f, red.lock, NULL);

    red_settle(s, &red, s->n);
    assert_result(relock_lock(multi), RELOCK_OK);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_lock(other), RELOCK_OK);
    assert_result(relock_unlock(multi), RELOCK_OK);
    for (size_t i = 0; i < s->n; i++)
        probe_int(s->probe[i], "DEL " RED_NAME);
    assert_true(wait_until(is_lost_by_main, red.lock, SOON_MS));
    probe_int(s->probe[0], "DEL other");
    assert_true(wait_until(is_lost_by_main, other, SOON_MS));
    assert_true(wait_until(is_told_of_other, s->f->losses, SOON_MS)); /* losses come in order */
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_result(relock_unlock(other), RELOCK_LOST);
    assert_true(is_told_of(s->f->losses, RED_NAME));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_red_member_with_a_lease_is_kept_while_others_are_waited_for),
        SERVERS_TEST(a_level_of_a_red_member_that_outlives_the_composite_is_reported),
    };

    return THREE_SERVERS_TESTS_RUN(tests);
}
