/* Red locks whose clients, threads or processes end. */
#include "support/actor.h"
#include "support/child.h"
#include "support/red.h"

#include <stdlib.h>

#define LEASE_MS 3000 /* outlives more than a second in which a machine stands still */
#define LONG_MS 600000

static struct red red_of(struct servers *s)
{
    struct red red = red_new(s, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});

    red_settle(s, &red, s->n);
    return red;
}

/* ---- clients of members -------------------------------------------------------------------- */

static void freeing_a_members_client_costs_one_vote(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    red_wait_votes(&red);
    for (size_t i = 3; i < 5; i++) {
        fixture_free_client(s->f, red.clients[i]);
        assert_false(red_has_key(s, i));
        assert_true(red_wait_keys(s, s->n - (i - 2)));
    }
    let_pass(slow_ms(LEASE_MS * 6 / 5));
    assert_true(relock_is_mine(red.lock));
    red_unlock(&red);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_int_equal(red_n_keys(s), 3);
    fixture_free_client(s->f, red.clients[1]);
    assert_true(losses_wait(s->f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(s->f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_int_equal(relock_valid_ms(red.lock), 0);
    assert_true(red_wait_keys(s, 0));
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_int_equal(losses_count(s->f->losses), 1);
    fixture_free_client(s->f, red.clients[2]);
}

static void a_quorum_needs_enough_clients(void **state)
{
    struct servers *s = *state;
    struct relock_options options = {.command_timeout_ms = slow_ms(1300)};
    struct red red = red_new(s, &options);

    red_settle(s, &red, s->n);
    for (size_t i = 2; i < 5; i++)
        fixture_free_client(s->f, red.clients[i]);
    assert_result(relock_trylock(red.lock), RELOCK_E_CONN);
    assert_true(red_wait_keys(s, 0));
}

static void a_members_client_that_is_shut_down_keeps_its_vote_and_grants_no_other(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    for (size_t i = 3; i < 5; i++)
        relock_client_shutdown(red.clients[i]);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    let_pass(slow_ms(LEASE_MS * 6 / 5));
    assert_true(red_wait_keys(s, s->n));
    red_unlock(&red);
    red_unlock(&red);
    assert_true(red_wait_keys(s, 0));
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_int_equal(red_n_keys(s), 3);
    red_unlock(&red);
}

static void a_wait_goes_on_when_a_members_client_is_freed(void **state)
{
    struct servers *s = *state;
    struct red a = red_of(s), b = red_of(s);
    struct actor *actor = actor_start();

    assert_result(relock_lock(a.lock), RELOCK_OK);
    actor_begin_lock(actor, b.lock);
    assert_true(wait_for_waiters(b.clients[0], 1));
    for (size_t i = 3; i < 5; i++)
        fixture_free_client(s->f, b.clients[i]);
    assert_true(actor_is_busy(actor));
    red_unlock(&a);
    red_assert_gets_in(actor, &b);
}

static void votes_are_renewed_where_no_further_connection_is_accepted(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    red_wait_votes(&red);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(probe_int(s->probe[i], "CONFIG SET maxclients 1"), 0);
        assert_true(probe_kill_newest(s->probe[i]));
    }
    let_pass(slow_ms(LEASE_MS * 5 / 2));
    assert_true(relock_is_mine(red.lock));
    assert_int_equal(red_n_keys(s), s->n);
    assert_int_equal(losses_count(s->f->losses), 0);
    red_unlock(&red);
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(probe_int(s->probe[i], "CONFIG SET maxclients 10000"), 0);
}

/* ---- the client of the whole --------------------------------------------------------------- */

static void the_first_members_client_releases_it_everywhere_when_it_is_freed(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s), other = red_of(s);
    uint64_t owner = relock_owner_new();

    assert_result(relock_lock(red.lock), RELOCK_OK);
    red_lock_on_all(s, &red);
    fixture_free_client(s->f, red.clients[0]);
    assert_true(red_wait_keys(s, 0));
    assert_result(relock_unlock(red.lock), RELOCK_E_CLOSED);
    assert_result(relock_trylock(red.lock), RELOCK_E_CLOSED);
    assert_result(relock_check(red.lock, owner, NULL), RELOCK_E_CLOSED);
    assert_int_equal(relock_valid_ms(red.lock), 0);
    assert_int_equal(losses_count(s->f->losses), 0);
    assert_result(relock_trylock(other.lock), RELOCK_OK);
    red_unlock(&other);
}

/* Each of them needs the vote that it has there, as two servers grant none. */
static void freeing_the_first_members_client_is_no_loss(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s), other = red;
    struct relock_lock *single = fixture_lock(s->f, red.clients[1], "single");
    struct relock_how how = {0};

    for (size_t i = 0; i < s->n; i++)
        other.members[i] = fixture_lock(s->f, red.clients[i], "other");
    other.lock = red_lock_of(s->f, other.members, s->n);
    for (size_t i = 3; i < s->n; i++)
        fixture_free_client(s->f, red.clients[i]);
    assert_result(relock_cancel_new(&how.cancel_on_lost), RELOCK_OK);
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(other.lock, &how, NULL), RELOCK_OK);
    fixture_free_client(s->f, red.clients[0]);

    how.cancel = how.cancel_on_lost; /* it has not fired */
    assert_result(relock_acquire(single, &how, NULL), RELOCK_OK);
    assert_result(relock_unlock(single), RELOCK_OK);
    assert_int_equal(losses_count(s->f->losses), 0);
    relock_cancel_free(how.cancel_on_lost);
}

static void an_owner_may_still_act_when_it_is_shut_down(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    assert_result(relock_lock(red.lock), RELOCK_OK);
    relock_client_shutdown(red.clients[0]);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_extend(red.lock, 0, LONG_MS), RELOCK_OK);
    red_unlock(&red);
    red_unlock(&red);
    assert_result(relock_trylock(red.lock), RELOCK_E_CLOSED);
}

static void an_owner_with_a_hold_acquires_it_when_all_clients_are_shut_down(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    struct relock_lock *from = fixture_lock(s->f, red.clients[0], "from");
    struct actor *other = actor_start();

    assert_result(relock_lock(from), RELOCK_OK);
    for (size_t i = 0; i < s->n; i++)
        relock_client_shutdown(red.clients[i]);
    assert_result(actor_lock(other, red.lock), RELOCK_E_CLOSED);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_unlock(from), RELOCK_OK);
    assert_result(relock_lock(from), RELOCK_OK); /* it has the red lock */
    red_unlock(&red);
    assert_result(relock_unlock(from), RELOCK_OK);
    assert_result(relock_lock(red.lock), RELOCK_E_CLOSED);
}

static void a_wait_of_an_owner_with_a_hold_goes_on_when_all_clients_are_shut_down(void **state)
{
    struct servers *s = *state;
    struct red a = red_of(s), b = red_of(s);
    struct relock_lock *from = fixture_lock(s->f, b.clients[0], "from");
    struct actor *actor = actor_start();

    assert_result(relock_lock(a.lock), RELOCK_OK);
    assert_result(actor_lock(actor, from), RELOCK_OK);
    actor_begin_lock(actor, b.lock);
    assert_true(wait_for_waiters(b.clients[0], 1));
    for (size_t i = 0; i < s->n; i++)
        relock_client_shutdown(b.clients[i]);
    red_unlock(&a);
    red_assert_gets_in(actor, &b);
    assert_result(actor_unlock(actor, from), RELOCK_OK);
}

static void a_wait_ends_when_the_first_members_client_is_freed(void **state)
{
    struct servers *s = *state;
    struct red a = red_of(s), b = red_of(s);
    struct actor *actor = actor_start();

    assert_result(relock_lock(a.lock), RELOCK_OK);
    actor_begin_lock(actor, b.lock);
    assert_true(wait_for_waiters(b.clients[0], 1));
    fixture_free_client(s->f, b.clients[0]);
    assert_result(actor_result(actor), RELOCK_E_CLOSED);
    red_unlock(&a);
}

static void a_held_red_lock_may_be_freed_and_released_by_another_handle(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    struct relock_lock *again;

    assert_result(relock_lock(red.lock), RELOCK_OK);
    fixture_free_lock(s->f, red.lock);
    assert_true(
        log_wait(s->f->log, "its last handle was freed while this process holds it", SOON_MS));
    again = red_lock_of(s->f, red.members, red.n);
    assert_true(relock_is_mine(again));
    red.lock = again;
    red_unlock(&red);
    assert_true(red_wait_keys(s, 0));
}

/* ---- threads and processes ----------------------------------------------------------------- */

static void a_red_lock_is_released_when_its_thread_ends(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    struct actor *actor = actor_start();

    assert_result(actor_lock(actor, red.lock), RELOCK_OK);
    assert_result(actor_lock(actor, red.lock), RELOCK_OK);
    assert_true(red_wait_keys(s, s->n));
    actor_end(actor);
    assert_true(log_wait(s->f->log, "ended while it held the lock", SOON_MS));
    assert_true(red_wait_keys(s, 0));
    assert_result(relock_trylock(red.lock), RELOCK_OK);
    red_unlock(&red);
    assert_int_equal(losses_count(s->f->losses), 0);
}

static int use_everything(struct child *parent, void *arg)
{
    struct red *red = arg;
    struct relock_lock *lock;

    (void)parent;
    child_must(relock_lock(red->lock) == RELOCK_E_FORKED);
    child_must(relock_unlock(red->lock) == RELOCK_E_FORKED);
    child_must(relock_extend(red->lock, 0, LONG_MS) == RELOCK_E_FORKED);
    child_must(relock_check(red->lock, 0, NULL) == RELOCK_E_FORKED);
    child_must(relock_valid_ms(red->lock) == 0);
    child_must(relock_redlock_new(red->members, red->n, &lock) == RELOCK_E_FORKED);
    child_must(relock_lock_free(red->lock) == NULL);
    for (size_t i = 0; i < red->n; i++) {
        child_must(relock_lock_free(red->members[i]) == NULL);
        child_must(relock_client_free(red->clients[i]) == NULL);
    }
    return EXIT_SUCCESS;
}

static void a_forked_child_leaves_the_lock_alone(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    assert_int_equal(child_wait(child_start(use_everything, &red), SOON_MS), EXIT_SUCCESS);
    let_pass(slow_ms(LEASE_MS));
    assert_true(red_wait_keys(s, s->n));
    assert_true(relock_is_mine(red.lock));
    red_unlock(&red);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(freeing_a_members_client_costs_one_vote),
        SERVERS_TEST(votes_are_renewed_where_no_further_connection_is_accepted),
        SERVERS_TEST(a_quorum_needs_enough_clients),
        SERVERS_TEST(a_members_client_that_is_shut_down_keeps_its_vote_and_grants_no_other),
        SERVERS_TEST(a_wait_goes_on_when_a_members_client_is_freed),
        SERVERS_TEST(the_first_members_client_releases_it_everywhere_when_it_is_freed),
        SERVERS_TEST(freeing_the_first_members_client_is_no_loss),
        SERVERS_TEST(an_owner_may_still_act_when_it_is_shut_down),
        SERVERS_TEST(an_owner_with_a_hold_acquires_it_when_all_clients_are_shut_down),
        SERVERS_TEST(a_wait_of_an_owner_with_a_hold_goes_on_when_all_clients_are_shut_down),
        SERVERS_TEST(a_wait_ends_when_the_first_members_client_is_freed),
        SERVERS_TEST(a_held_red_lock_may_be_freed_and_released_by_another_handle),
        SERVERS_TEST(a_red_lock_is_released_when_its_thread_ends),
        SERVERS_TEST(a_forked_child_leaves_the_lock_alone),
    };
    return SERVERS_TESTS_RUN(tests);
}
