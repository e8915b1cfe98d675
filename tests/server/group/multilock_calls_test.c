/*
 * Calls about one hold of a multi lock at the same time: a level, a release, a loss, a check and
 * the end of the client meet while one of them stands still in the middle.
 */
#include "stopping.h"
#include "support/multi.h"
#include "support/servers.h"

/* ---- a level that is collected when the composite ends ------------------------------------- */

struct nesting {
    struct relock_client *client;
    struct relock_lock *a, *b, *both;
    struct relock_how how;
    int stops_at;
};

static struct nesting multi_of(struct servers *s, const struct relock_options *options)
{
    struct nesting n = {.client = servers_client(s, 0, options),
                        .how = {.owner = relock_owner_new()}};

    n.a = fixture_lock(s->f, n.client, "a");
    n.b = fixture_lock(s->f, n.client, "b");
    n.both = fixture_multi(s->f, n.a, n.b, NULL);
    return n;
}

static struct nesting nesting_of(struct servers *s, const struct relock_options *options)
{
    struct nesting n = multi_of(s, options);

    assert_result(relock_acquire(n.both, &n.how, NULL), RELOCK_OK);
    return n;
}

static int nest_in_multi_and_stop(void *arg)
{
    struct nesting *n = arg;
    int r;

    stops_at = n->stops_at;
    r = relock_acquire(n->both, &n->how, NULL);
    stops_at = 0;
    return r;
}

static void begin_to_nest(struct nesting *n, struct actor *actor, int at)
{
    n->stops_at = at;
    actor_begin(actor, nest_in_multi_and_stop, n);
    assert_true(stopping_wait(actor));
}

static bool is_composite_reported(void *arg)
{
    return losses_count(((struct servers *)arg)->f->losses) > 0;
}

/* The thread stops before it looks at "b", after it has found "a" held. */
static void a_level_that_ends_with_a_lost_composite_is_released(void **state)
{
    struct servers *s = *state;
    struct nesting n = nesting_of(s, NULL);
    struct actor *actor = actor_start();

    begin_to_nest(&n, actor, 6);
    probe_int(s->probe[0], "DEL a");
    assert_result(relock_extend(n.a, n.how.owner, 60000), RELOCK_LOST);
    assert_true(wait_until(is_composite_reported, s, SOON_MS));
    stopping_go_on();
    assert_result(actor_result(actor), RELOCK_LOST);
    assert_result(relock_release(n.both, n.how.owner), RELOCK_LOST);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.a, n.how.owner, NULL), RELOCK_NOT_OWNER);
}

/* The thread stops before it nests in "a". */
static void a_release_that_cannot_wait_for_a_level_releases_the_members(void **state)
{
    struct servers *s = *state;
    struct nesting n = nesting_of(s, &(struct relock_options){.release_timeout_ms = 50});
    struct actor *actor = actor_start();

    begin_to_nest(&n, actor, 3);
    assert_result(relock_release(n.both, n.how.owner), RELOCK_E_CONN);
    stopping_go_on();
    if (actor_result(actor) == RELOCK_OK)
        assert_result(relock_release(n.both, n.how.owner), RELOCK_OK);
    assert_result(relock_check(n.both, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.a, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_true(wait_for_no_keys(s->probe[0]));
}

static void such_a_release_of_one_level_of_two_releases_one_of_each_member(void **state)
{
    struct servers *s = *state;
    struct nesting n = nesting_of(s, &(struct relock_options){.release_timeout_ms = 50});
    struct actor *actor = actor_start();
    struct relock_grant grant;

    assert_result(relock_acquire(n.both, &n.how, NULL), RELOCK_OK);
    begin_to_nest(&n, actor, 3);
    assert_result(relock_release(n.both, n.how.owner), RELOCK_E_CONN);
    stopping_go_on();
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(relock_check(n.both, n.how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_check(n.a, n.how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_check(n.b, n.how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    (void)relock_release(n.both, n.how.owner);
    (void)relock_release(n.both, n.how.owner);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
}

/* ---- a multi lock that begins ---------------------------------------------------------------- */

/* It stops when both members are acquired, and "b" does not belong to the multi lock yet. */
static void a_multi_lock_that_begins_is_busy(void **state)
{
    struct servers *s = *state;
    struct nesting n = multi_of(s, &(struct relock_options){.release_timeout_ms = 50});
    struct actor *actor = actor_start();
    int checked, released;

    begin_to_nest(&n, actor, 8);
    checked = relock_check(n.both, n.how.owner, NULL);
    released = relock_release(n.both, n.how.owner);
    stopping_go_on();
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(checked, RELOCK_OK);
    assert_result(released, RELOCK_E_CONN);
    assert_result(relock_check(n.both, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.a, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(n.b, n.how.owner, NULL), RELOCK_NOT_OWNER);
    assert_true(wait_for_no_keys(s->probe[0]));
}

/* It stops at the same place. No call notices the loss. */
static void a_member_released_while_a_multi_lock_begins_is_a_loss(void **state)
{
    struct servers *s = *state;
    struct nesting n = multi_of(s, NULL);
    struct actor *actor = actor_start();
    int released;

    begin_to_nest(&n, actor, 8);
    released = relock_release(n.b, n.how.owner);
    stopping_go_on();
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(released, RELOCK_OK);
    assert_true(wait_until(is_composite_reported, s, SOON_MS));
    assert_result(relock_release(n.both, n.how.owner), RELOCK_LOST);
    assert_true(wait_for_no_keys(s->probe[0]));
}

/* ---- a check while the client is freed ------------------------------------------------------- */

struct freeing {
    struct fixture *f;
    struct nesting n;
};

/* It stops before it looks at "a". */
static int check_and_stop(void *arg)
{
    const struct nesting *n = arg;
    int r;

    stops_at = 2;
    r = relock_check(n->both, n->how.owner, NULL);
    stops_at = 0;
    return r;
}

static int free_client(void *arg)
{
    struct freeing *freeing = arg;

    fixture_free_client(freeing->f, freeing->n.client);
    return RELOCK_OK;
}

static bool is_closed(void *arg)
{
    const struct nesting *n = arg;

    return relock_check(n->a, n->how.owner, NULL) == RELOCK_E_CLOSED;
}

static void a_check_while_the_client_is_freed_reports_no_loss(void **state)
{
    struct servers *s = *state;
    struct freeing freeing = {s->f, nesting_of(s, NULL)};
    struct actor *checks = actor_start(), *frees = actor_start();

    actor_begin(checks, check_and_stop, &freeing.n);
    assert_true(stopping_wait(checks));
    actor_begin(frees, free_client, &freeing);
    assert_true(wait_until(is_closed, &freeing.n, SOON_MS));
    stopping_go_on();
    assert_result(actor_result(checks), RELOCK_E_CLOSED);
    assert_result(actor_result(frees), RELOCK_OK);
}

/* ---- the program --------------------------------------------------------------------------- */

static int start(void **state)
{
    return servers_start_with(state, 1, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_level_that_ends_with_a_lost_composite_is_released),
        SERVERS_TEST(a_release_that_cannot_wait_for_a_level_releases_the_members),
        SERVERS_TEST(such_a_release_of_one_level_of_two_releases_one_of_each_member),
        SERVERS_TEST(a_multi_lock_that_begins_is_busy),
        SERVERS_TEST(a_member_released_while_a_multi_lock_begins_is_a_loss),
        SERVERS_TEST(a_check_while_the_client_is_freed_reports_no_loss),
    };

    return cmocka_run_group_tests(tests, start, servers_stop);
}
