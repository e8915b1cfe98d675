/* Multi locks: an acquire that fails names a member with every result. */
#include "support/child.h"
#include "support/multi.h"
#include "support/peer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Redis answers within these times, also on a slow machine. */
#define SHORT_MS 1300
#define WAIT_MS 1500

struct three {
    struct relock_client *client;
    struct relock_lock *a, *b;
    struct relock_lock *all; /* made of "c" first, which is the last in the order of all */
};

static struct three three_of(struct fixture *f, struct relock_client *client)
{
    struct three t = {client, fixture_lock(f, client, "a"), fixture_lock(f, client, "b"), NULL};

    t.all = fixture_multi(f, fixture_lock(f, client, "c"), t.b, t.a, NULL);
    return t;
}

static void fails(const struct three *t, const struct relock_how *how, int result,
                  const char *member)
{
    struct relock_grant grant = {.hold_count = 7};

    assert_result(relock_acquire(t->all, how, &grant), result);
    assert_non_null(grant.failed_member);
    assert_string_equal(grant.failed_member, member);
    assert_int_equal(grant.hold_count, 0);
}

/* ---- a member is in the way ---------------------------------------------------------------- */

static void a_member_that_another_owner_holds_is_named(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));
    struct relock_how how = {.wait_ms = (int64_t)outlast_ms(WAIT_MS)};

    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    fails(&t, NULL, RELOCK_BUSY, "b");
    fails(&t, &how, RELOCK_TIMEOUT, "b");
    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    relock_cancel_fire(how.cancel);
    fails(&t, &how, RELOCK_CANCELLED, "a");
    relock_cancel_free(how.cancel);
    assert_true(peer_unlock(f->probe, "b", PEER));
}

static void a_member_that_redis_refuses_is_named(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));

    assert_string_equal(probe_text(f->probe, "SET b text"), "OK");
    fails(&t, NULL, RELOCK_E_SERVER, "b");
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
}

static void a_member_that_the_user_has_no_right_to_is_named(void **state)
{
    struct fixture *f = *state;
    struct three t;

    assert_string_equal(probe_text(f->probe, "ACL SETUSER some reset on >word +@all &* ~a"), "OK");
    t = three_of(f,
                 fixture_client(f, &(struct relock_options){.user = "some", .password = "word"}));
    fails(&t, NULL, RELOCK_E_AUTH, "b");
    fixture_free_client(f, t.client);
    assert_int_equal(probe_int(f->probe, "ACL DELUSER some"), 1);
}

static void a_member_that_too_few_replicas_have_is_named(void **state)
{
    struct three t =
        three_of(*state, fixture_client(*state, &(struct relock_options){.min_replicas = 1,
                                                                         .replica_timeout_ms = 1}));

    fails(&t, NULL, RELOCK_E_REPLICAS, "a");
}

static void a_member_whose_acquire_cannot_be_sent_is_named(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(
        f, fixture_client(f, &(struct relock_options){.command_timeout_ms = outlast_ms(SHORT_MS)}));

    assert_result(relock_lock(t.a), RELOCK_OK);
    server_pause(f->server);
    fails(&t, NULL, RELOCK_E_CONN, "a");
    server_resume(f->server);
    (void)relock_unlock(t.a);
}

static void a_member_that_the_owner_holds_is_named(void **state)
{
    struct three t = three_of(*state, fixture_client(*state, NULL));
    struct relock_how how = {.flags = RELOCK_NON_REENTRANT, .wait_ms = RELOCK_FOREVER};

    assert_result(relock_lock(t.b), RELOCK_OK);
    fails(&t, &how, RELOCK_E_DEADLOCK, "b");
    assert_result(relock_unlock(t.b), RELOCK_OK);
}

static void a_member_that_a_level_finds_lost_is_named(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.all), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    fails(&t, NULL, RELOCK_LOST, "b");
    assert_result(relock_unlock(t.all), RELOCK_LOST);
}

static void a_member_that_the_owner_lost_is_named(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.b), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    fails(&t, NULL, RELOCK_LOST, "b");
    assert_result(relock_unlock(t.b), RELOCK_LOST);
}

/* The levels of the multi lock must be released first; the named member is the reason. */
static void the_member_with_which_the_multi_lock_was_lost_is_named(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.all), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_result(relock_extend(t.all, 0, NEVER_MS), RELOCK_LOST);
    fails(&t, NULL, RELOCK_LOST, "b");
    assert_result(relock_unlock(t.all), RELOCK_LOST);
}

/* ---- no member in particular: the first that the handle was made with ---------------------- */

static void the_first_member_is_named_if_the_arguments_are_wrong(void **state)
{
    struct three t = three_of(*state, fixture_client(*state, NULL));

    fails(&t, &(struct relock_how){.flags = ~(uint64_t)0}, RELOCK_E_INVALID, "c");
    fails(&t, &(struct relock_how){.reserved = {1}}, RELOCK_E_INVALID, "c");
}

static void the_first_member_is_named_if_the_owner_holds_the_multi_lock(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.all), RELOCK_OK);
    fails(&t, &(struct relock_how){.flags = RELOCK_NON_REENTRANT, .wait_ms = RELOCK_FOREVER},
          RELOCK_E_DEADLOCK, "c");
    assert_result(relock_unlock(t.all), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void the_first_member_is_named_if_the_client_is_shut_down_or_freed(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));

    relock_client_shutdown(t.client);
    fails(&t, NULL, RELOCK_E_CLOSED, "c");
    fixture_free_client(f, t.client);
    fails(&t, NULL, RELOCK_E_CLOSED, "c");
}

struct inside {
    struct relock_lock *both;
    struct relock_grant grant;
    int result;
    atomic_bool over;
};

static void acquire_inside(const struct relock_lost *what, void *arg)
{
    struct inside *inside = arg;

    (void)what;
    inside->result = relock_acquire(inside->both, NULL, &inside->grant);
    atomic_store(&inside->over, true);
}

static bool is_over(void *arg)
{
    return atomic_load(&((struct inside *)arg)->over);
}

static void the_first_member_is_named_to_a_callback(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));
    struct inside inside = {.both = t.all, .result = RELOCK_OK};
    struct relock_lock *d = fixture_lock(f, t.client, "d");
    struct relock_how how = {.on_lost = acquire_inside, .arg = &inside};

    assert_result(relock_acquire(d, &how, NULL), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL d"), 1);
    assert_result(relock_extend(d, 0, NEVER_MS), RELOCK_LOST);
    assert_true(wait_until(is_over, &inside, SOON_MS));
    assert_result(relock_unlock(d), RELOCK_LOST);
    assert_result(inside.result, RELOCK_E_DEADLOCK);
    assert_non_null(inside.grant.failed_member);
    assert_string_equal(inside.grant.failed_member, "c");
}

static int acquire_in_child(struct child *parent, void *arg)
{
    const struct three *t = arg;
    struct relock_grant grant = {0};

    (void)parent;
    child_must(relock_acquire(t->all, NULL, &grant) == RELOCK_E_FORKED);
    child_must(grant.failed_member && strcmp(grant.failed_member, "c") == 0);
    return EXIT_SUCCESS;
}

static void the_first_member_is_named_in_a_forked_child(void **state)
{
    struct three t = three_of(*state, fixture_client(*state, NULL));

    assert_int_equal(child_wait(child_start(acquire_in_child, &t), SOON_MS), EXIT_SUCCESS);
}

/* ---- nothing failed ------------------------------------------------------------------------ */

static void no_member_is_named_if_the_call_succeeds_or_is_for_a_single_lock(void **state)
{
    struct fixture *f = *state;
    struct three t = three_of(f, fixture_client(f, NULL));
    struct relock_grant grant;

    assert_result(relock_acquire(t.all, NULL, &grant), RELOCK_OK);
    assert_null(grant.failed_member);
    assert_result(relock_unlock(t.all), RELOCK_OK);
    assert_true(peer_lock(f->probe, "a", PEER, PEER_LEASE_MS));
    assert_result(relock_acquire(t.a, NULL, &grant), RELOCK_BUSY);
    assert_null(grant.failed_member);
    assert_true(peer_unlock(f->probe, "a", PEER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_member_that_another_owner_holds_is_named),
        SERVER_TEST(a_member_that_redis_refuses_is_named),
        SERVER_TEST(a_member_that_the_user_has_no_right_to_is_named),
        SERVER_TEST(a_member_that_too_few_replicas_have_is_named),
        SERVER_TEST(a_member_whose_acquire_cannot_be_sent_is_named),
        SERVER_TEST(a_member_that_the_owner_holds_is_named),
        SERVER_TEST(a_member_that_a_level_finds_lost_is_named),
        SERVER_TEST(a_member_that_the_owner_lost_is_named),
        SERVER_TEST(the_member_with_which_the_multi_lock_was_lost_is_named),
        SERVER_TEST(the_first_member_is_named_if_the_arguments_are_wrong),
        SERVER_TEST(the_first_member_is_named_if_the_owner_holds_the_multi_lock),
        SERVER_TEST(the_first_member_is_named_if_the_client_is_shut_down_or_freed),
        SERVER_TEST(the_first_member_is_named_to_a_callback),
        SERVER_TEST(the_first_member_is_named_in_a_forked_child),
        SERVER_TEST(no_member_is_named_if_the_call_succeeds_or_is_for_a_single_lock),
    };

    return SERVER_TESTS_RUN(tests);
}
