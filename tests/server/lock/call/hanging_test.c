/* Deadlines while Redis hangs: it stands still, its connections stay, and nothing answers. */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/multi.h"
#include "support/peer.h"

#define WAIT_MS 300
#define LATE_MS 6000  /* how late a call may be on a shared machine */
#define HANG_MS 60000 /* which nobody waits for here */

/* Nothing ends by itself, but by the time limits that the test is about. */
static const struct relock_options patient = {
    .watchdog_timeout_ms = 10 * HANG_MS,
    .command_timeout_ms = HANG_MS,
    .release_timeout_ms = HANG_MS,
    .recheck_ms = HANG_MS,
};
static const struct relock_options brief_release = {
    .watchdog_timeout_ms = 10 * HANG_MS,
    .command_timeout_ms = HANG_MS,
    .release_timeout_ms = WAIT_MS,
};

static uint64_t began_ms;

static void pause_server(struct fixture *f)
{
    server_pause(f->server);
    began_ms = now_ms();
}

/* Redis may run the command that was given up or not: nothing stays held. */
static void resume_server(struct fixture *f, const char *name)
{
    server_resume(f->server);
    assert_true(probe_wait_no_key(f->probe, name, SOON_MS));
}

/* Connects, and loads the scripts. */
static void use_once(struct relock_lock *lock)
{
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void times_out(struct fixture *f, struct relock_lock *lock, const char *name)
{
    use_once(lock);
    pause_server(f);
    assert_result(relock_timedlock(lock, WAIT_MS), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    resume_server(f, name);
    use_once(lock);
}

/* ---- acquiring ----------------------------------------------------------------------------- */

static void a_wait_ends_in_time(void **state)
{
    struct fixture *f = *state;

    times_out(f, kind_lock(f, fixture_client(f, &patient), "orders"), "orders");
}

static void a_wait_for_either_side_ends_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &patient);

    times_out(f, fixture_lock_of(f, client, "orders", relock_rdlock_new), "orders");
    times_out(f, fixture_lock_of(f, client, "orders", relock_wrlock_new), "orders");
}

static void a_wait_for_a_multi_lock_ends_in_time(void **state)
{
    struct fixture *f = *state;

    times_out(f, multi_pair_of(f, fixture_client(f, &patient)).both, "a");
    assert_int_equal(probe_pttl(f->probe, "b"), -2);
}

/* The call does not wait for the release of the members that it acquired. */
static void a_multi_lock_releases_its_members_in_time(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, &patient));
    struct actor *actor = actor_start();

    assert_true(peer_lock(f->probe, "b", PEER, HANG_MS));
    actor_begin_timedlock(actor, t.both, 4 * WAIT_MS);
    assert_true(wait_for_waiters(t.client, 1));
    while (probe_pttl(f->probe, "a") < 0 && actor_is_busy(actor))
        let_pass(1);
    pause_server(f);
    assert_int_not_equal(actor_result_within(actor, LATE_MS), RELOCK_OK);
    assert_false(actor_is_busy(actor));
    server_resume(f->server);
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
    assert_true(peer_unlock(f->probe, "b", PEER));
}

/* Another thread of the owner adds a level to a member meanwhile, and its command hangs. */
static void a_multi_lock_waits_for_no_other_command_about_a_member(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, &patient));
    struct relock_how how = {.lease_ms = HANG_MS, .owner = relock_owner_new()};
    struct relock_how waits = {4 * WAIT_MS, how.lease_ms, .owner = how.owner};
    struct actor *collector = actor_start(), *other = actor_start();
    int r;

    assert_true(peer_lock(f->probe, "b", PEER, HANG_MS));
    actor_begin_acquire(collector, t.both, &waits);
    assert_true(wait_for_waiters(t.client, 1));
    while (relock_check(t.a, how.owner, NULL) != RELOCK_OK && actor_is_busy(collector))
        let_pass(1);
    assert_result(relock_acquire(t.a, &how, NULL), RELOCK_OK);
    pause_server(f);
    actor_begin_acquire(other, t.a, &how);
    r = actor_result_within(collector, LATE_MS);
    server_resume(f->server);
    assert_result(actor_result(other), RELOCK_OK);
    assert_int_not_equal(r, RELOCK_OK);
    assert_int_not_equal(r, ACTOR_BUSY);
    assert_result(relock_release(t.a, how.owner), RELOCK_OK);
    assert_result(relock_release(t.a, how.owner), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
    assert_true(peer_unlock(f->probe, "b", PEER));
}

static void a_further_level_is_refused_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, &patient), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    pause_server(f);
    assert_result(relock_timedlock(lock, WAIT_MS), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    server_resume(f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

/* The second thread acts for the same owner, and the command of the first hangs. */
static void another_thread_of_the_owner_is_refused_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, &patient), "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct relock_how brief = {.wait_ms = WAIT_MS, .owner = how.owner};
    struct actor *actor = actor_start();

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    pause_server(f);
    actor_begin_acquire(actor, lock, &how);
    assert_result(relock_acquire(lock, &brief, NULL), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    server_resume(f->server);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
}

static int release(void *arg)
{
    const struct relock_grant *grant = ((void **)arg)[1];

    return relock_release(((void **)arg)[0], grant->owner);
}

/* The same for a try, which has the time of one command. */
static void a_try_of_another_thread_of_the_owner_is_refused_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = patient;
    struct relock_how how = {.owner = relock_owner_new()};
    struct actor *actor = actor_start();
    struct relock_grant grant;
    struct relock_lock *lock;

    options.command_timeout_ms = outlast_ms(2000);
    lock = fixture_lock(f, fixture_client(f, &options), "orders");
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, &grant), RELOCK_OK);
    pause_server(f);
    actor_begin(actor, release, (void *[]){lock, &grant});
    let_pass(50); /* so that it is most likely in flight */
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_E_CONN);
    assert_took(began_ms, options.command_timeout_ms, slow_ms(LATE_MS));
    server_resume(f->server);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

/* The lock is free, and the actor's attempt to acquire it is not answered. */
static void begin_unanswered(struct fixture *f, struct relock_client *client,
                             struct relock_lock *lock, struct actor *actor)
{
    use_once(lock);
    pause_server(f);
    actor_begin_lock(actor, lock);
    assert_true(wait_for_waiters(client, 1));
}

static void a_wait_behind_an_unanswered_attempt_does_not_report_a_holder(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &patient);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *first = actor_start();

    begin_unanswered(f, client, lock, first);
    began_ms = now_ms();
    assert_result(relock_timedlock(lock, WAIT_MS), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    server_resume(f->server);
    assert_gets_in(first, lock);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void a_try_behind_an_unanswered_attempt_does_not_report_a_holder(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = outlast_ms(2000)});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *first = actor_start();

    begin_unanswered(f, client, lock, first);
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    assert_result(actor_result(first), RELOCK_E_CONN);
    resume_server(f, "orders");
}

/* Redis named the holder, and has been silent since. */
static void a_wait_for_a_known_holder_times_out(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &patient);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *actor = actor_start();

    assert_true(kind_peer_lock(f, "orders"));
    actor_begin_timedlock(actor, lock, 4 * WAIT_MS);
    while (stats_of(client).waits == 0 && actor_is_busy(actor))
        let_pass(1);
    pause_server(f);
    assert_result(actor_result(actor), RELOCK_TIMEOUT);
    server_resume(f->server);
    assert_true(kind_peer_unlock(f, "orders"));
}

/* ---- others on the connection -------------------------------------------------------------- */

static void a_command_given_up_breaks_no_other(void **state)
{
    struct relock_options one = patient;
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *a, *b;
    struct actor *first = actor_start(), *second = actor_start();
    uint64_t reconnects;

    one.connections = 1;
    client = fixture_client(f, &one);
    a = fixture_lock(f, client, "a");
    b = fixture_lock(f, client, "b");
    use_once(a);
    reconnects = stats_of(client).reconnects;
    pause_server(f);
    actor_begin_timedlock(first, a, 4 * WAIT_MS);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_timedlock(second, b, HANG_MS); /* is sent when the first command is given up */
    assert_result(actor_result(first), RELOCK_E_CONN);
    assert_true(actor_is_busy(second));
    server_resume(f->server);
    assert_result(actor_result(second), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
    assert_result(actor_unlock(second, b), RELOCK_OK);
    assert_int_equal(stats_of(client).reconnects, reconnects);
}

/* ---- releasing ----------------------------------------------------------------------------- */

static void a_release_returns_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, &brief_release), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    pause_server(f);
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    resume_server(f, "orders");
}

static void a_release_of_a_level_returns_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, &brief_release), "orders");
    int r;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    pause_server(f);
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    server_resume(f->server);
    r = relock_unlock(lock); /* its reply may be late, too */
    assert_true(r == RELOCK_OK || r == RELOCK_E_CONN);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void a_release_of_a_multi_lock_returns_in_time(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, &brief_release));

    assert_result(relock_lock(t.both), RELOCK_OK);
    pause_server(f);
    assert_result(relock_unlock(t.both), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    resume_server(f, "a");
    assert_true(probe_wait_no_key(f->probe, "b", SOON_MS));
}

static void a_release_returns_in_time_while_another_command_of_the_owner_hangs(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, &brief_release), "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *actor = actor_start();

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    pause_server(f);
    actor_begin_acquire(actor, lock, &how);
    let_pass(50); /* so that it is most likely in flight */
    began_ms = now_ms();
    assert_result(relock_release(lock, how.owner), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    server_resume(f->server);
    if (actor_result(actor) == RELOCK_OK)
        assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_wait_ends_in_time),
        SERVER_TEST(a_wait_for_either_side_ends_in_time),
        SERVER_TEST(a_wait_for_a_multi_lock_ends_in_time),
        SERVER_TEST(a_multi_lock_releases_its_members_in_time),
        SERVER_TEST(a_multi_lock_waits_for_no_other_command_about_a_member),
        KINDS_TEST(a_further_level_is_refused_in_time),
        SERVER_TEST(another_thread_of_the_owner_is_refused_in_time),
        SERVER_TEST(a_try_of_another_thread_of_the_owner_is_refused_in_time),
        KINDS_TEST(a_wait_behind_an_unanswered_attempt_does_not_report_a_holder),
        KINDS_TEST(a_try_behind_an_unanswered_attempt_does_not_report_a_holder),
        KINDS_TEST(a_wait_for_a_known_holder_times_out),
        SERVER_TEST(a_command_given_up_breaks_no_other),
        KINDS_TEST(a_release_returns_in_time),
        SERVER_TEST(a_release_of_a_level_returns_in_time),
        SERVER_TEST(a_release_of_a_multi_lock_returns_in_time),
        SERVER_TEST(a_release_returns_in_time_while_another_command_of_the_owner_hangs),
    };

    return SERVER_TESTS_RUN(tests);
}
