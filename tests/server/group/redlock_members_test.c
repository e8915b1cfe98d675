/* Red locks: the locks that can be members. */
#include "support/actor.h"
#include "support/keeping.h"
#include "support/red.h"

#define N_CLIENTS 11

/* ---- refused members ----------------------------------------------------------------------- */

static void the_number_of_members_is_odd_and_from_3_to_9(void **state)
{
    struct servers *s = *state;
    struct relock_lock *members[N_CLIENTS];
    struct relock_lock *untouched = (struct relock_lock *)s;
    struct relock_lock *lock = untouched;
    static const size_t wrong[] = {0, 1, 2, 4, 6, 8, 10, 11};
    static const size_t right[] = {3, 5, 7, 9};

    for (size_t i = 0; i < N_CLIENTS; i++)
        members[i] = fixture_lock(s->f, servers_client(s, i % s->n, NULL), RED_NAME);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_result(relock_redlock_new(members, wrong[i], &lock), RELOCK_E_INVALID);
    assert_ptr_equal(lock, untouched);
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
        assert_result(relock_redlock_new(members, right[i], &lock), RELOCK_OK);
        assert_string_equal(relock_lock_name(lock), RED_NAME);
        lock = relock_lock_free(lock);
    }
    assert_result(relock_redlock_new(NULL, 3, &lock), RELOCK_E_INVALID);
    assert_result(relock_redlock_new(members, 3, NULL), RELOCK_E_INVALID);
    members[1] = NULL;
    assert_result(relock_redlock_new(members, 3, &lock), RELOCK_E_INVALID);
}

static void each_member_has_a_client_of_its_own(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *lock;
    struct relock_lock *members[] = {red.members[0], red.members[1],
                                     fixture_lock(s->f, red.clients[0], "other")};

    assert_result(relock_redlock_new(members, 3, &lock), RELOCK_E_INVALID);
    members[2] = red.members[0];
    assert_result(relock_redlock_new(members, 3, &lock), RELOCK_E_INVALID);
}

static void a_multi_or_red_lock_is_refused_as_a_member(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *lock, *multi;
    struct relock_lock *members[] = {red.members[0], red.members[1], red.lock};

    assert_result(relock_redlock_new(members, 3, &lock), RELOCK_E_INVALID);
    assert_result(relock_multilock_new(&red.members[2], 1, &multi), RELOCK_OK);
    members[2] = multi;
    assert_result(relock_redlock_new(members, 3, &lock), RELOCK_E_INVALID);
    multi = relock_lock_free(multi);
}

static void a_red_lock_is_not_freed_by_force(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    assert_result(relock_force_unlock(red.lock), RELOCK_E_UNSUPPORTED);
}

/* ---- possible members ---------------------------------------------------------------------- */

static void member_handles_may_be_freed_once_the_red_lock_is_made(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    for (size_t i = 0; i < red.n; i++)
        fixture_free_lock(s->f, red.members[i]);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
}

static void members_may_have_different_names_and_any_order(void **state)
{
    static const char *const names[] = {"c", "a", "b"};
    struct servers *s = *state;
    struct relock_lock *members[3], *turned[3];
    struct relock_lock *a, *b;

    for (size_t i = 0; i < 3; i++) {
        members[i] = fixture_lock(s->f, servers_client(s, i, NULL), names[i]);
        turned[2 - i] = members[i];
    }
    a = red_lock_of(s->f, members, 3);
    b = red_lock_of(s->f, turned, 3);
    assert_string_equal(relock_lock_name(a), "c");
    assert_string_equal(relock_lock_name(b), "b");
    assert_result(relock_lock(a), RELOCK_OK);
    assert_result(relock_unlock(a), RELOCK_OK);
    assert_result(relock_lock(b), RELOCK_OK);
    assert_result(relock_unlock(b), RELOCK_OK);
}

static void a_red_lock_of_plain_locks_interoperates_with_redlock(void **state)
{
    struct servers *s = *state;
    struct red red = red_new_of(s, NULL, relock_plainlock_new);

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(probe_int(s->probe[i], "SET " RED_NAME " theirs NX PX 60000"), 0);
    assert_result(relock_trylock(red.lock), RELOCK_BUSY);
    assert_result(fixture_timedlock(red.lock, 20), RELOCK_TIMEOUT);
    assert_true(red_wait_keys(s, 3));
    assert_int_equal(probe_int(s->probe[1], "DEL " RED_NAME), 1);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_true(red_wait_keys(s, s->n));
    for (size_t i = 0; i < 3; i += 2)
        assert_string_equal(probe_text(s->probe[i], "GET " RED_NAME), "theirs");
    for (size_t i = 1; i < s->n; i += 2) {
        assert_string_equal(probe_text(s->probe[i], "TYPE " RED_NAME), "string");
        assert_int_equal(probe_int(s->probe[i], "STRLEN " RED_NAME), 40);
    }
    red_unlock(&red);
    assert_true(red_wait_keys(s, 2));
    for (size_t i = 0; i < 3; i += 2)
        assert_int_equal(probe_int(s->probe[i], "DEL " RED_NAME), 1);
}

static void exclude_each_other(struct servers *s, fixture_constructor_fn *one,
                               fixture_constructor_fn *other)
{
    struct red a = red_new_of(s, NULL, one), b = red_new_of(s, NULL, other);
    struct actor *actor = actor_start();

    red_settle(s, &a, s->n);
    red_settle(s, &b, s->n);
    assert_result(relock_lock(a.lock), RELOCK_OK);
    assert_result(relock_trylock(b.lock), RELOCK_BUSY);
    actor_begin_lock(actor, b.lock);
    assert_true(wait_for_waiters(b.clients[0], 1));
    red_unlock(&a);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(relock_trylock(a.lock), RELOCK_BUSY);
    red_unlock_by(actor, &b);
    actor_end(actor);
}

static void members_may_be_plain(void **state)
{
    exclude_each_other(*state, relock_plainlock_new, relock_plainlock_new);
}

static void members_may_be_writers(void **state)
{
    exclude_each_other(*state, relock_wrlock_new, relock_wrlock_new);
}

static void members_may_be_readers_against_writers(void **state)
{
    exclude_each_other(*state, relock_rdlock_new, relock_wrlock_new);
}

static void members_may_be_spin_locks(void **state)
{
    exclude_each_other(*state, relock_spinlock_new, relock_spinlock_new);
}

static void members_may_be_fair(void **state)
{
    exclude_each_other(*state, relock_fairlock_new, relock_fairlock_new);
}

/* The counters of tokens stay by their nature. A vote that comes late makes one again, so they are
 * deleted when no client is left. */
static void members_may_be_fenced(void **state)
{
    struct servers *s = *state;

    exclude_each_other(s, relock_fencedlock_new, relock_fencedlock_new);
    for (size_t i = 0; i < FIXTURE_MAX_CLIENTS; i++) {
        if (s->f->clients[i])
            fixture_free_client(s->f, s->f->clients[i]);
    }
    for (size_t i = 0; i < s->n; i++)
        probe_int(s->probe[i], "FLUSHALL");
}

static void readers_share_a_red_lock(void **state)
{
    struct servers *s = *state;
    struct red a = red_new_of(s, NULL, relock_rdlock_new);
    struct red b = red_new_of(s, NULL, relock_rdlock_new);

    red_settle(s, &a, s->n);
    red_settle(s, &b, s->n);
    assert_result(relock_lock(a.lock), RELOCK_OK);
    assert_result(relock_trylock(b.lock), RELOCK_OK);
    assert_result(relock_unlock(a.lock), RELOCK_OK);
    assert_true(relock_is_mine(b.lock));
    assert_result(relock_unlock(b.lock), RELOCK_OK);
}

/* A member that is kept is nobody's, so it does not refuse the vote. Votes are not kept. */
static void a_kept_member_is_released_for_a_vote(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &(struct relock_options){.keep_ms = NEVER_MS});

    for (size_t i = 0; i < red.n; i++) {
        keeping_await(red.clients[i]);
        keeping_fill(red.clients[i], red.members[i]);
    }
    assert_result(relock_trylock(red.lock), RELOCK_OK);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    for (size_t i = 0; i < red.n; i++)
        assert_true(keeping_wait(red.clients[i], 0));
    assert_true(red_wait_keys(s, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(the_number_of_members_is_odd_and_from_3_to_9),
        SERVERS_TEST(each_member_has_a_client_of_its_own),
        SERVERS_TEST(a_multi_or_red_lock_is_refused_as_a_member),
        SERVERS_TEST(a_red_lock_is_not_freed_by_force),
        SERVERS_TEST(a_kept_member_is_released_for_a_vote),
        SERVERS_TEST(member_handles_may_be_freed_once_the_red_lock_is_made),
        SERVERS_TEST(members_may_have_different_names_and_any_order),
        SERVERS_TEST(a_red_lock_of_plain_locks_interoperates_with_redlock),
        SERVERS_TEST(members_may_be_plain),
        SERVERS_TEST(members_may_be_writers),
        SERVERS_TEST(members_may_be_readers_against_writers),
        SERVERS_TEST(members_may_be_spin_locks),
        SERVERS_TEST(members_may_be_fair),
        SERVERS_TEST(members_may_be_fenced),
        SERVERS_TEST(readers_share_a_red_lock),
    };
    return SERVERS_TESTS_RUN(tests);
}
