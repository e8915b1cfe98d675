/* Questions about multi locks: all members are asked. */
#include "support/actor.h"
#include "support/multi.h"
#include "support/peer.h"
#include "support/red.h"

#include <string.h>

#define LEASE_MS 30000 /* the default */
#define LONG_MS 60000
#define TIMEOUT_MS 1300 /* a login is answered within this time, also on a slow machine */

/* How late a call may end. */
#define LATE_MS 3000

/* Members on two servers. */
struct pair {
    struct relock_lock *a, *b, *multi;
};

static struct pair pair_of(struct fixture *f, const struct relock_options *options)
{
    struct pair pair;

    pair.a = fixture_lock(f, fixture_client(f, options), "a");
    pair.b = fixture_lock(f, beside_client(f, 0, options), "b");
    pair.multi = fixture_multi(f, pair.b, pair.a, NULL);
    return pair;
}

/* Expects this member as holder, "" if free, with the levels of that holder and of the caller. */
static void assert_said(struct relock_lock *lock, const char *member, unsigned levels, unsigned own)
{
    struct relock_holder holder;
    bool is_held = *member != '\0';
    bool locked = !is_held;
    int64_t ttl_ms = 7;
    unsigned count = 7;

    memset(&holder, 0x55, sizeof(holder));
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.member ? holder.member : "", member);
    assert_int_equal(*holder.id != '\0', is_held);
    assert_int_equal(holder.hold_count, levels);
    assert_int_equal(holder.n_holders, is_held);
    assert_false(holder.other_side);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_int_equal(locked, is_held);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms > 0, is_held);
    assert_true(is_held || (ttl_ms == -2 && holder.ttl_ms == -2));
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, own);
}

/* ---- the holder ---------------------------------------------------------------------------- */

static void the_holder_of_a_member_is_the_holder_of_the_multi_lock(void **state)
{
    struct fixture *f = *state;
    struct pair ours = pair_of(f, NULL), theirs = pair_of(f, NULL);
    struct relock_holder holder;

    assert_said(ours.multi, "", 0, 0);
    assert_result(relock_lock(ours.multi), RELOCK_OK);
    assert_result(relock_lock(ours.multi), RELOCK_OK);
    assert_said(ours.multi, "a", 2, 2);
    assert_said(theirs.multi, "a", 2, 0);
    assert_result(relock_unlock(ours.multi), RELOCK_OK);
    assert_said(ours.multi, "a", 1, 1);
    assert_result(relock_unlock(ours.multi), RELOCK_OK);
    assert_said(theirs.multi, "", 0, 0);

    assert_result(relock_lock(theirs.b), RELOCK_OK);
    assert_said(ours.multi, "b", 1, 0);
    assert_result(relock_trylock(ours.multi), RELOCK_BUSY);
    assert_true(peer_lock(f->probe, "a", PEER, LEASE_MS));
    assert_said(ours.multi, "a", 1, 0); /* the first */
    assert_result(relock_who_holds(ours.multi, &holder), RELOCK_OK);
    assert_string_equal(holder.id, PEER);
    assert_true(peer_unlock(f->probe, "a", PEER));
    assert_result(relock_unlock(theirs.b), RELOCK_OK);
}

static void the_levels_of_any_owner_are_reported(void **state)
{
    struct pair pair = pair_of(*state, NULL);
    struct relock_how how = {.owner = relock_owner_new()};
    unsigned count = 7;

    assert_result(relock_acquire(pair.multi, &how, NULL), RELOCK_OK);
    assert_said(pair.multi, "a", 1, 0);
    assert_result(relock_hold_count_of(pair.multi, how.owner, &count), RELOCK_OK);
    assert_int_equal(count, 1);
    assert_result(relock_release(pair.multi, how.owner), RELOCK_OK);
}

static void only_levels_that_all_members_have_count(void **state)
{
    struct fixture *f = *state;
    struct pair ours = pair_of(f, NULL);
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.a), RELOCK_OK);
    assert_result(relock_lock(ours.b), RELOCK_OK);
    assert_said(ours.multi, "a", 1, 0); /* each, but not the whole */
    assert_result(relock_lock(ours.multi), RELOCK_OK);
    assert_said(ours.multi, "a", 2, 1);
    assert_result(relock_unlock(ours.a), RELOCK_OK);
    assert_result(relock_unlock(ours.b), RELOCK_OK);
    assert_said(ours.multi, "a", 1, 1);
    probe_int(beside_probe(0), "DEL b");
    assert_said(ours.multi, "a", 1, 0);
    assert_result(relock_unlock(ours.multi), RELOCK_LOST);

    assert_result(actor_lock(actor, ours.multi), RELOCK_OK);
    assert_said(ours.multi, "a", 1, 0);
    assert_result(actor_unlock(actor, ours.multi), RELOCK_OK);
}

static void the_lease_is_that_of_the_member_that_is_held_longest(void **state)
{
    struct fixture *f = *state;
    struct pair ours = pair_of(f, NULL);
    struct relock_holder holder;
    int64_t ttl_ms;

    assert_result(relock_lock(ours.multi), RELOCK_OK);
    assert_result(relock_extend(ours.b, 0, LONG_MS), RELOCK_OK);
    assert_result(relock_ttl_ms(ours.multi, &ttl_ms), RELOCK_OK);
    assert_in_range(ttl_ms, LEASE_MS + 1, LONG_MS);
    assert_result(relock_who_holds(ours.multi, &holder), RELOCK_OK);
    assert_string_equal(holder.member, "a");
    assert_in_range(holder.ttl_ms, LEASE_MS + 1, LONG_MS);
    probe_int(f->probe, "PERSIST a");
    assert_result(relock_ttl_ms(ours.multi, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms, -1);
    assert_result(relock_unlock(ours.multi), RELOCK_OK);
}

static void members_of_other_kinds_answer_as_they_do_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *plain = fixture_lock_of(f, client, "p", relock_plainlock_new);
    struct relock_lock *reader = fixture_lock_of(f, client, "q", relock_rdlock_new);
    struct relock_lock *writer = fixture_lock_of(f, client, "q", relock_wrlock_new);
    struct relock_lock *multi = fixture_multi(f, plain, reader, NULL);
    struct actor *actor = actor_start();
    struct relock_holder holder;
    bool locked;

    assert_result(relock_lock(multi), RELOCK_OK);
    assert_result(relock_lock(multi), RELOCK_OK);
    assert_said(multi, "p", 2, 2); /* levels that Redis does not know */
    assert_result(relock_unlock(multi), RELOCK_OK);
    assert_result(relock_unlock(multi), RELOCK_OK);
    assert_result(actor_lock(actor, writer), RELOCK_OK);
    assert_result(relock_is_locked(multi, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_who_holds(multi, &holder), RELOCK_OK);
    assert_string_equal(holder.member, "q");
    assert_true(holder.other_side);
    assert_true(holder.ttl_ms > 0);
    assert_result(actor_unlock(actor, writer), RELOCK_OK);
}

/* ---- a red member -------------------------------------------------------------------------- */

/* "r" on all three servers. */
static struct relock_lock *red_of(struct fixture *f)
{
    struct relock_lock *members[1 + N_BESIDE] = {
        fixture_lock(f, fixture_client(f, &(struct relock_options){.flags = RELOCK_LAZY}), "r")};
    for (size_t i = 0; i < N_BESIDE; i++)
        members[1 + i] = fixture_lock(
            f, beside_client(f, i, &(struct relock_options){.flags = RELOCK_LAZY}), "r");
    return red_lock_of(f, members, 1 + N_BESIDE);
}

static bool is_on_all(void *arg)
{
    const struct fixture *f = arg;
    bool is_there = probe_int(f->probe, "EXISTS r") == 1;

    for (size_t i = 0; i < N_BESIDE; i++)
        is_there = is_there && probe_int(beside_probe(i), "EXISTS r") == 1;
    return is_there;
}

static bool is_on_none(void *arg)
{
    const struct fixture *f = arg;
    bool is_there = probe_int(f->probe, "EXISTS r") == 1;

    for (size_t i = 0; i < N_BESIDE; i++)
        is_there = is_there || probe_int(beside_probe(i), "EXISTS r") == 1;
    return !is_there;
}

/* Takes and releases it until each client is connected. */
static void settle(struct fixture *f, struct relock_lock *red)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    bool is_settled = false;

    while (!is_settled) {
        assert_result(relock_lock(red), RELOCK_OK);
        is_settled = wait_until(is_on_all, f, 100);
        (void)relock_unlock(red); /* a majority that is late is forgiven */
        assert_true(wait_until(is_on_none, f, SOON_MS));
        assert_true(now_ms() < deadline_ms);
    }
}

static void a_red_member_answers_by_its_quorum(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *red = red_of(f);
    struct relock_lock *a = fixture_lock(f, fixture_client(f, NULL), "a");
    struct relock_lock *multi = fixture_multi(f, a, red, NULL);

    settle(f, red);
    assert_said(multi, "", 0, 0);
    assert_result(relock_lock(red), RELOCK_OK);
    assert_said(multi, "r", 1, 0);
    assert_result(relock_unlock(red), RELOCK_OK);
    assert_result(relock_lock(multi), RELOCK_OK);
    assert_true(wait_until(is_on_all, f, SOON_MS));
    assert_said(multi, "a", 1, 1);
    server_pause(beside_server(1));
    assert_said(multi, "a", 1, 1);
    server_resume(beside_server(1));
    assert_result(relock_unlock(multi), RELOCK_OK);
}

/* ---- servers that do not answer ------------------------------------------------------------ */

static void each_member_must_answer_in_time(void **state)
{
    struct fixture *f = *state;
    struct pair ours = pair_of(f, NULL);
    struct pair hasty =
        pair_of(f, &(struct relock_options){.command_timeout_ms = outlast_ms(TIMEOUT_MS)});
    uint64_t began_ms;
    bool locked;

    server_pause(beside_server(0));
    began_ms = now_ms();
    assert_result(relock_is_locked(hasty.multi, &locked), RELOCK_E_CONN);
    assert_took(began_ms, outlast_ms(TIMEOUT_MS), LATE_MS);
    server_resume(beside_server(0));
    assert_said(ours.multi, "", 0, 0);
    assert_true(log_wait(f->log, "query failed", SOON_MS));
}

static void a_server_that_refuses_is_the_result_at_once(void **state)
{
    struct fixture *f = *state;
    struct pair ours = pair_of(f, NULL);
    uint64_t began_ms = now_ms();
    bool locked;

    probe_int(beside_probe(0), "SET b text");
    assert_result(relock_is_locked(ours.multi, &locked), RELOCK_E_SERVER);
    assert_no_later(now_ms() - began_ms, slow_ms(LATE_MS));
    probe_int(beside_probe(0), "DEL b");
    fixture_free_client(f, f->clients[0]); /* of "a"; that of "b", the first given, coordinates */
    assert_result(relock_is_locked(ours.multi, &locked), RELOCK_E_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MULTI_TEST(the_holder_of_a_member_is_the_holder_of_the_multi_lock),
        MULTI_TEST(the_levels_of_any_owner_are_reported),
        MULTI_TEST(only_levels_that_all_members_have_count),
        MULTI_TEST(the_lease_is_that_of_the_member_that_is_held_longest),
        MULTI_TEST(members_of_other_kinds_answer_as_they_do_alone),
        MULTI_TEST(a_red_member_answers_by_its_quorum),
        MULTI_TEST(each_member_must_answer_in_time),
        MULTI_TEST(a_server_that_refuses_is_the_result_at_once),
    };

    return MULTI_TESTS_RUN(tests);
}
