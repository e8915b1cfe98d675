/* Multi locks: several locks as one, all or none. */
#include "support/actor.h"
#include "support/multi.h"
#include "support/peer.h"

#include <string.h>

#define WAIT_MS 1500 /* Redis answers within this time, also on a slow machine */

/* ---- making -------------------------------------------------------------------------------- */

static void the_same_lock_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *again = fixture_lock(f, client, "a");
    struct relock_lock *read = fixture_lock_of(f, client, "page", relock_rdlock_new);
    struct relock_lock *write = fixture_lock_of(f, client, "page", relock_wrlock_new);
    struct relock_lock *both = fixture_multi(f, a, b, NULL);
    struct relock_lock *lock = a;

    assert_result(relock_multilock_new((struct relock_lock *[]){a, b, a}, 3, &lock),
                  RELOCK_E_INVALID);
    assert_result(relock_multilock_new((struct relock_lock *[]){a, b, again}, 3, &lock),
                  RELOCK_E_INVALID);
    assert_result(relock_multilock_new((struct relock_lock *[]){read, b, write}, 3, &lock),
                  RELOCK_E_INVALID);
    assert_result(relock_multilock_new((struct relock_lock *[]){both, b}, 2, &lock),
                  RELOCK_E_INVALID);
    assert_ptr_equal(lock, a);
}

static void a_multi_lock_without_members_is_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *a = fixture_lock(f, fixture_client(f, NULL), "a");
    struct relock_lock *lock = a;

    assert_result(relock_multilock_new(&a, 0, &lock), RELOCK_E_INVALID);
    assert_result(relock_multilock_new(NULL, 1, &lock), RELOCK_E_INVALID);
    assert_result(relock_multilock_new(&a, 1, NULL), RELOCK_E_INVALID);
    assert_result(relock_multilock_new((struct relock_lock *[]){a, NULL}, 2, &lock),
                  RELOCK_E_INVALID);
    assert_ptr_equal(lock, a);
}

static void a_member_whose_client_is_freed_is_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *other = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, other, "b");
    struct relock_lock *lock = a;

    fixture_free_client(f, other);
    assert_result(relock_multilock_new((struct relock_lock *[]){a, b}, 2, &lock), RELOCK_E_CLOSED);
    assert_result(relock_multilock_new((struct relock_lock *[]){b, a}, 2, &lock), RELOCK_E_CLOSED);
    assert_ptr_equal(lock, a);
}

static void a_multi_lock_has_the_name_of_its_first_given_member(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *c = fixture_lock(f, client, "c");
    struct relock_lock *inner = fixture_multi(f, c, a, NULL);
    struct relock_lock *outer = fixture_multi(f, inner, b, NULL);

    assert_string_equal(relock_lock_name(inner), "c");
    assert_string_equal(relock_lock_name(outer), "c");
    assert_string_equal(relock_lock_name(fixture_multi(f, a, c, NULL)), "a");
    assert_string_equal(relock_lock_name(inner), "c");
}

static void a_multi_lock_may_have_one_member(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *a = fixture_lock(f, fixture_client(f, NULL), "a");
    struct relock_lock *alone = fixture_multi(f, a, NULL);

    assert_result(relock_lock(alone), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "a"), 1);
    assert_result(relock_unlock(alone), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* The handles that it was made of are not needed any more. */
static void a_multi_lock_outlives_the_handles_of_its_members(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));

    fixture_free_lock(f, t.a);
    assert_result(relock_lock(t.both), RELOCK_OK);
    fixture_free_lock(f, t.b);
    assert_string_equal(relock_lock_name(t.both), "b");
    assert_int_equal(probe_n_keys(f->probe), 2);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_int_equal(log_count(f->log, "last handle"), 0);
}

/* ---- acquiring and releasing --------------------------------------------------------------- */

static void all_members_are_held_and_released_together(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *other = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, other, "b");
    struct relock_lock *stranger = fixture_lock(f, fixture_client(f, NULL), "b");
    struct relock_lock *both = fixture_multi(f, a, b, NULL);
    struct relock_grant grant;

    assert_result(relock_acquire(both, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 1);
    assert_true(grant.valid_ms > 0);
    assert_true(relock_is_mine(a) && relock_is_mine(b) && relock_is_mine(both));
    assert_result(relock_trylock(stranger), RELOCK_BUSY);
    assert_result(relock_lock(both), RELOCK_OK);
    assert_result(relock_check(both, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_unlock(both), RELOCK_OK);
    assert_result(relock_trylock(stranger), RELOCK_BUSY);
    assert_result(relock_unlock(both), RELOCK_OK);
    assert_result(relock_unlock(both), RELOCK_NOT_OWNER);
    assert_result(relock_trylock(stranger), RELOCK_OK);
    assert_result(relock_unlock(stranger), RELOCK_OK);
}

static bool has_one_key(void *probe)
{
    return probe_n_keys(probe) == 1;
}

static void acquired_members_are_released_when_another_is_busy(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *c = fixture_lock(f, client, "c");
    struct relock_lock *all = fixture_multi(f, c, b, a, NULL);
    struct relock_grant grant;

    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    assert_result(relock_acquire(all, NULL, &grant), RELOCK_BUSY);
    assert_string_equal(grant.failed_member, "b");
    assert_int_equal(grant.owner, 0);
    assert_int_equal(grant.hold_count, 0);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_WARNING), 0);

    /* At the end of the time, the releases of the member and of the line may be late. */
    assert_result(relock_timedlock(all, (int64_t)outlast_ms(WAIT_MS)), RELOCK_TIMEOUT);
    assert_true(wait_until(has_one_key, f->probe, SOON_MS));
    assert_result(relock_check(all, 0, NULL), RELOCK_NOT_OWNER);
    assert_true(peer_unlock(f->probe, "b", PEER));

    assert_result(relock_acquire(all, NULL, &grant), RELOCK_OK);
    assert_null(grant.failed_member);
    assert_result(relock_unlock(all), RELOCK_OK);
}

static void members_are_of_any_kind_client_and_server(void **state)
{
    struct fixture *f = *state;
    struct relock_client *here = fixture_client(f, NULL);
    struct relock_client *there = beside_client(f, 0, NULL);
    struct relock_lock *members[] = {
        fixture_lock_of(f, here, "spin", relock_spinlock_new),
        fixture_lock_of(f, there, "fenced", relock_fencedlock_new),
        fixture_lock_of(f, here, "read", relock_rdlock_new),
        fixture_lock_of(f, there, "write", relock_wrlock_new),
        fixture_lock_of(f, here, "fair", relock_fairlock_new),
        fixture_lock(f, there, "plain"),
        fixture_lock(f, here, "plain"),
    };
    size_t n = sizeof(members) / sizeof(*members);
    struct relock_lock *all;
    struct relock_grant grant;

    assert_result(relock_multilock_new(members, n, &all), RELOCK_OK);
    for (int round = 0; round < 3; round++) {
        assert_result(relock_timedlock(all, SOON_MS), RELOCK_OK);
        for (size_t i = 0; i < n; i++)
            assert_result(relock_check(members[i], 0, NULL), RELOCK_OK);
        assert_result(relock_check(members[1], 0, &grant), RELOCK_OK);
        assert_true(grant.fencing_token > 0);
        assert_result(relock_unlock(all), RELOCK_OK);
        for (size_t i = 0; i < n; i++)
            assert_result(relock_check(members[i], 0, NULL), RELOCK_NOT_OWNER);
    }
    assert_null(relock_lock_free(all));
}

/* Readers of one name hold it together, each beside a member of its own. */
static void readers_hold_a_member_together(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *page = fixture_lock_of(f, client, "page", relock_rdlock_new);
    struct relock_lock *ours = fixture_multi(f, page, fixture_lock(f, client, "a"), NULL);
    struct relock_lock *theirs = fixture_multi(f, page, fixture_lock(f, client, "b"), NULL);
    struct relock_lock *write =
        fixture_multi(f, fixture_lock_of(f, client, "page", relock_wrlock_new),
                      fixture_lock(f, client, "c"), NULL);
    struct actor *other = actor_start();
    struct relock_grant grant;

    assert_result(relock_lock(ours), RELOCK_OK);
    assert_result(actor_trylock(other, theirs), RELOCK_OK);
    assert_result(relock_acquire(write, NULL, &grant), RELOCK_E_DEADLOCK);
    assert_string_equal(grant.failed_member, "page");
    assert_int_equal(probe_int(f->probe, "EXISTS c"), 0);
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(relock_trylock(write), RELOCK_BUSY);
    assert_result(actor_unlock(other, theirs), RELOCK_OK);
    assert_result(relock_trylock(write), RELOCK_OK);
    assert_result(relock_unlock(write), RELOCK_OK);
}

static void a_multi_lock_among_the_members_stands_for_its_own(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *c = fixture_lock(f, client, "c");
    struct relock_lock *inner = fixture_multi(f, c, a, NULL);
    struct relock_lock *outer = fixture_multi(f, b, inner, NULL);

    /* In the order of all three: b is not waited for with c in hand. */
    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    fixture_free_lock(f, inner);
    assert_result(relock_trylock(outer), RELOCK_BUSY);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_true(peer_unlock(f->probe, "b", PEER));
    assert_result(relock_lock(outer), RELOCK_OK);
    assert_true(relock_is_mine(a) && relock_is_mine(b) && relock_is_mine(c));
    assert_result(relock_unlock(outer), RELOCK_OK);
}

static void a_multi_lock_is_as_certain_as_its_least_certain_member(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *brief = watchful_client(f, 5000);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, brief, "b");
    struct relock_lock *both = fixture_multi(f, a, b, NULL);
    struct relock_grant grant;

    assert_result(relock_acquire(both, NULL, &grant), RELOCK_OK);
    assert_in_range(grant.valid_ms, 1, slow_ms(5000));
    assert_true(relock_valid_ms(a) > slow_ms(5000));
    assert_in_range(relock_valid_ms(both), 1, slow_ms(5000));
    assert_result(relock_extend(both, 0, 90000), RELOCK_OK);
    assert_true(relock_valid_ms(both) > 60000);
    assert_true(relock_valid_ms(a) > 60000 && relock_valid_ms(b) > 60000);
    assert_result(relock_unlock(both), RELOCK_OK);
    assert_int_equal(relock_valid_ms(both), 0);
}

/* ---- refused ------------------------------------------------------------------------------- */

static void a_multi_lock_is_not_freed_by_force(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_force_unlock(t.both), RELOCK_E_UNSUPPORTED);
    assert_true(relock_is_mine(t.both));
    assert_result(relock_unlock(t.both), RELOCK_OK);
}

static void arguments_are_checked_as_for_any_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *alone =
        fixture_multi(f, fixture_lock(f, fixture_client(f, NULL), "a"), NULL);

    assert_result(relock_acquire(alone, &(struct relock_how){.reserved = {1}}, NULL),
                  RELOCK_E_INVALID);
    assert_result(relock_acquire(alone, &(struct relock_how){.flags = 2}, NULL), RELOCK_E_INVALID);
    assert_result(acquire_for(alone, UINT64_MAX), RELOCK_E_INVALID);
    assert_result(relock_lock(alone), RELOCK_OK);
    assert_result(relock_extend(alone, 0, 0), RELOCK_E_INVALID);
    assert_result(relock_extend(alone, 0, UINT64_MAX), RELOCK_E_INVALID);
    assert_result(relock_unlock(alone), RELOCK_OK);
    assert_result(relock_extend(alone, 0, 1000), RELOCK_NOT_OWNER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MULTI_TEST(the_same_lock_twice_is_refused),
        MULTI_TEST(a_multi_lock_without_members_is_refused),
        MULTI_TEST(a_member_whose_client_is_freed_is_refused),
        MULTI_TEST(a_multi_lock_has_the_name_of_its_first_given_member),
        MULTI_TEST(a_multi_lock_may_have_one_member),
        MULTI_TEST(a_multi_lock_outlives_the_handles_of_its_members),
        MULTI_TEST(all_members_are_held_and_released_together),
        MULTI_TEST(acquired_members_are_released_when_another_is_busy),
        MULTI_TEST(members_are_of_any_kind_client_and_server),
        MULTI_TEST(readers_hold_a_member_together),
        MULTI_TEST(a_multi_lock_among_the_members_stands_for_its_own),
        MULTI_TEST(a_multi_lock_is_as_certain_as_its_least_certain_member),
        MULTI_TEST(a_multi_lock_is_not_freed_by_force),
        MULTI_TEST(arguments_are_checked_as_for_any_lock),
    };
    return MULTI_TESTS_RUN(tests);
}
