/* Red locks: deadlines while all servers hang. */
#include "support/actor.h"
#include "support/red.h"

#define WAIT_MS 300
#define LATE_MS 6000  /* how late a call may be on a shared machine */
#define HANG_MS 60000 /* which nobody waits for here */

/* The lease is so long that a server has a second for its vote, more than the time limits here. */
static const struct relock_options patient = {
    .watchdog_timeout_ms = 10 * HANG_MS,
    .command_timeout_ms = HANG_MS,
    .release_timeout_ms = WAIT_MS,
};

static uint64_t began_ms;

static void pause_all(struct servers *s)
{
    for (size_t i = 0; i < s->n; i++)
        server_pause(s->server[i]);
    began_ms = now_ms();
}

static void resume_all(struct servers *s)
{
    for (size_t i = 0; i < s->n; i++)
        server_resume(s->server[i]);
}

static void a_wait_ends_in_time(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &patient);

    red_settle(s, &red, s->n);
    pause_all(s);
    assert_result(relock_timedlock(red.lock, WAIT_MS), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    resume_all(s);
    assert_true(red_wait_keys(s, 0));
}

static void a_release_returns_in_time(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &patient);

    red_settle(s, &red, s->n);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    pause_all(s);
    assert_result(relock_unlock(red.lock), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    resume_all(s);
    assert_true(red_wait_keys(s, 0));
}

static void a_further_level_is_refused_in_time(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &patient);
    struct relock_how how = {.wait_ms = WAIT_MS, .lease_ms = 20 * HANG_MS};

    red_settle(s, &red, s->n);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    pause_all(s);
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_E_CONN);
    assert_took(began_ms, WAIT_MS, slow_ms(LATE_MS));
    resume_all(s);
    red_unlock(&red);
    assert_true(red_wait_keys(s, 0));
}

struct extension {
    struct relock_lock *lock;
    uint64_t owner;
};

/* A server has 50 ms to vote for a lease as short as this. */
static int extend(void *arg)
{
    const struct extension *extension = arg;

    return relock_extend(extension->lock, extension->owner, 2000);
}

static void an_extension_waits_for_slow_servers(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &patient);
    struct relock_how how = {.owner = relock_owner_new()};
    struct extension extension = {red.lock, how.owner};
    struct actor *actor = actor_start();

    red_settle(s, &red, s->n);
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    pause_all(s);
    actor_begin(actor, extend, &extension);
    let_pass(400);
    assert_true(actor_is_busy(actor));
    resume_all(s);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(relock_release(red.lock, how.owner), RELOCK_OK);
    assert_true(red_wait_keys(s, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_wait_ends_in_time),
        SERVERS_TEST(a_release_returns_in_time),
        SERVERS_TEST(a_further_level_is_refused_in_time),
        SERVERS_TEST(an_extension_waits_for_slow_servers),
    };

    return SERVERS_TESTS_RUN(tests);
}
