/*
 * Waits in a queue: two events that end a wait at the same moment, and a head that must not ask
 * yet. The test holds the mutex until both events have happened.
 */
#include "lock/hold/acquire.h"

#include "base/clock.h"
#include "kind/kinds.h"
#include "lock/hold/holds.h"
#include "unit/common/offline.h"

#include <time.h>
#include <unistd.h>

#define WAITING_OWNER 7
#define WAIT_MS 100

static struct relock_lock lock;
static struct relock_hold *hold; /* of owner 1 */

struct wait {
    pthread_t thread;
    struct relock_how how;
    struct relock_grant grant;
    int result;
};

static void *wait_for_lock(void *arg)
{
    struct wait *wait = arg;

    wait->result = relock_acquire(&lock, &wait->how, &wait->grant);
    return NULL;
}

static int begin(void **state)
{
    struct relock_waiter first = {.owner = 1, .renewed = true};

    (void)state;
    offline_begin();
    client.options.handoff_ms = LEASE_MS;
    lock = (struct relock_lock){.client = &client, .resource = resource};
    hold = offline_acquire(&first, relock_clock_now_ms());
    return 0;
}

static int end(void **state)
{
    (void)state;
    offline_release(hold, 0);
    relock_holds_unref(&client, hold);
    return offline_end();
}

/* Returns with the mutex held and another thread waiting at its gate. If the wait ended too early,
 * another one begins. */
static void begin_to_wait(struct wait *wait)
{
    bool waits = false, begins = true;

    wait->how.owner = WAITING_OWNER;
    while (!waits) {
        if (begins)
            assert_int_equal(pthread_create(&wait->thread, NULL, wait_for_lock, wait), 0);
        relock_mutex_lock(&client.mutex);
        waits = client.guarded.stats.waiters > 0;
        if (!waits)
            relock_mutex_unlock(&client.mutex);
        begins = !waits && pthread_tryjoin_np(wait->thread, NULL) == 0;
    }
}

/* Releases the mutex. Then the other thread must return with the lock. */
static void has_been_granted(struct wait *wait)
{
    relock_mutex_unlock(&client.mutex);
    assert_int_equal(pthread_join(wait->thread, NULL), 0);
    assert_int_equal(wait->result, RELOCK_OK);
    assert_int_equal(wait->grant.hold_count, 1);
    assert_int_equal(hold->owner, WAITING_OWNER);
    assert_ptr_equal(lock.resource->holder, hold);
    assert_null(lock.resource->queue);
}

static void a_grant_beats_a_cancel_of_the_same_moment(void **state)
{
    struct wait wait = {.how.wait_ms = RELOCK_FOREVER};

    (void)state;

    assert_int_equal(relock_cancel_new(&wait.how.cancel), RELOCK_OK);
    begin_to_wait(&wait);
    relock_cancel_fire(wait.how.cancel);
    assert_true(relock_cache_hand_off(&client, hold, relock_clock_now_us()));
    has_been_granted(&wait);
    relock_cancel_free(wait.how.cancel);
}

static void a_grant_beats_a_deadline_of_the_same_moment(void **state)
{
    struct wait wait = {.how.wait_ms = WAIT_MS};

    (void)state;

    begin_to_wait(&wait);
    for (uint64_t over_ms = relock_clock_now_ms() + WAIT_MS; relock_clock_now_ms() <= over_ms;)
        ;
    assert_true(relock_cache_hand_off(&client, hold, relock_clock_now_us()));
    has_been_granted(&wait);
}

static void a_grant_beats_a_shutdown_of_the_same_moment(void **state)
{
    struct wait wait = {.how.wait_ms = RELOCK_FOREVER};

    (void)state;

    begin_to_wait(&wait);
    assert_true(relock_cache_hand_off(&client, hold, relock_clock_now_us()));
    client.guarded.state = RELOCK_CLIENT_SHUT_DOWN;
    relock_resource_wake_all(lock.resource);
    has_been_granted(&wait);
}

/* ---- letting others go first --------------------------------------------------------------- */

static uint64_t cpu_ms(pthread_t thread)
{
    clockid_t clock;
    struct timespec used;

    assert_int_equal(pthread_getcpuclockid(thread, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

/* Its time to poll has come, but it may not ask yet. */
static void a_polling_waiter_sleeps_while_others_go_first(void **state)
{
    struct relock_kind polled = relock_kind_reentrant;
    struct wait wait = {.how.wait_ms = RELOCK_FOREVER};
    uint64_t used_ms;

    (void)state;
    polled.is_polled = true;
    assert_int_equal(relock_cancel_new(&wait.how.cancel), RELOCK_OK);
    begin_to_wait(&wait);
    lock.resource->kind = &polled;
    lock.resource->holder = NULL;
    lock.resource->contention->asked_ms = relock_clock_now_ms() - LEASE_MS;
    lock.resource->contention->yields_until_ms = relock_clock_now_ms() + LEASE_MS;
    relock_resource_wake_all(lock.resource);
    relock_mutex_unlock(&client.mutex);

    used_ms = cpu_ms(wait.thread);
    assert_int_equal(usleep(4 * WAIT_MS * 1000), 0);
    used_ms = cpu_ms(wait.thread) - used_ms;
    relock_cancel_fire(wait.how.cancel);
    assert_int_equal(pthread_join(wait.thread, NULL), 0);
    assert_int_equal(wait.result, RELOCK_CANCELLED);
    assert_in_range(used_ms, 0, WAIT_MS / 2);
    lock.resource->holder = hold;
    lock.resource->kind = &relock_kind_reentrant;
    relock_cancel_free(wait.how.cancel);
}

/* All within a millisecond: Redis names an owner, and is silent from the next attempt on. */
static void a_holder_that_was_named_during_the_wait_is_known(void **state)
{
    struct relock_acquire acquire = {
        .client = &client,
        .resource = resource,
        .waiter = {.queues_on = resource},
    };

    (void)state;
    relock_mutex_lock(&client.mutex);
    relock_resource_doubt(resource);
    acquire.waiter.joined_at = ++client.guarded.moment;
    relock_resource_doubt(resource);
    assert_int_equal(relock_acquire_be_late(&acquire), RELOCK_TIMEOUT); /* nobody has asked */
    resource->silent_ms = 1;
    assert_int_equal(relock_acquire_be_late(&acquire), RELOCK_E_CONN);
    relock_resource_learn(resource);
    relock_resource_doubt(resource);
    assert_int_equal(relock_acquire_be_late(&acquire), RELOCK_TIMEOUT);
    relock_resource_learn(resource);
    resource->silent_ms = 0;
    relock_mutex_unlock(&client.mutex);
}

#define ACQUIRE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACQUIRE_TEST(a_grant_beats_a_cancel_of_the_same_moment),
        ACQUIRE_TEST(a_grant_beats_a_deadline_of_the_same_moment),
        ACQUIRE_TEST(a_grant_beats_a_shutdown_of_the_same_moment),
        ACQUIRE_TEST(a_holder_that_was_named_during_the_wait_is_known),
        ACQUIRE_TEST(a_polling_waiter_sleeps_while_others_go_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
