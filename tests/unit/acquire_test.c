/* Waits in a queue: two things that end one at the same moment, for which the test has the mutex
 * until both have come; and a head that must not ask yet. */
#include "lock/acquire.h"

#include "base/clock.h"
#include "base/fork.h"
#include "kind/reentrant.h"
#include "lock/holds.h"
#include "lock/resources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wthread-safety" /* the fields that are read have come to rest \
                                                    */
#endif

#define LEASE_MS 30000
#define WAITING_OWNER 7
#define WAIT_MS 100

/* A client without connections and I/O thread: nothing of what follows asks or wakes one. */
static struct relock_client client;
static struct relock_lock lock;
static struct relock_hold *hold; /* of another owner; the test has a reference */

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
    memset(&client, 0, sizeof(client));
    relock_mutex_init(&client.mutex);
    relock_cond_init(&client.changed);
    client.generation = relock_fork_generation();
    client.guarded.turn_at_ms = 0; /* there is no I/O thread to be woken */
    client.options.watchdog_timeout_ms = LEASE_MS;
    client.options.recheck_ms = LEASE_MS;
    client.options.handoff_ms = LEASE_MS;

    lock.client = &client;
    assert_int_equal(relock_resources_get(&client, &relock_kind_reentrant, "orders",
                                          strlen("orders"), &lock.resource, &(const char *){NULL}),
                     RELOCK_OK);
    hold = relock_holds_new(&client, lock.resource, 1);
    assert_non_null(hold);
    hold->lease_ms = LEASE_MS;
    relock_gate_init(&first.gate);
    relock_resource_enqueue(lock.resource, &first);
    relock_holds_begin(&client, relock_holds_ref(hold), &first, relock_clock_now_ms());
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_holds_leave(&client, hold);
    relock_resource_released(lock.resource, false, 0);
    relock_holds_end(&client, hold);
    relock_holds_unref(&client, hold);
    relock_resources_unref(&client, lock.resource);
    relock_cond_deinit(&client.changed);
    relock_mutex_deinit(&client.mutex);
    return client.guarded.resources || client.guarded.holds ? -1 : 0;
}

/* Another thread waits behind the hold, at its gate. The mutex is held then. A wait that was over
 * before this thread came by is begun anew. */
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

/* What the other thread makes of it all, once it may look. */
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
    assert_true(relock_holds_hand_off(&client, hold, relock_clock_now_ms()));
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
    assert_true(relock_holds_hand_off(&client, hold, relock_clock_now_ms()));
    has_been_granted(&wait);
}

static void a_grant_beats_a_shutdown_of_the_same_moment(void **state)
{
    struct wait wait = {.how.wait_ms = RELOCK_FOREVER};

    (void)state;

    begin_to_wait(&wait);
    assert_true(relock_holds_hand_off(&client, hold, relock_clock_now_ms()));
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

/* It polls each millisecond or so, and its time to do so has come; but it may not ask yet. */
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
    lock.resource->asked_ms = relock_clock_now_ms() - LEASE_MS;
    lock.resource->yields_until_ms = relock_clock_now_ms() + LEASE_MS;
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

#define ACQUIRE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACQUIRE_TEST(a_grant_beats_a_cancel_of_the_same_moment),
        ACQUIRE_TEST(a_grant_beats_a_deadline_of_the_same_moment),
        ACQUIRE_TEST(a_grant_beats_a_shutdown_of_the_same_moment),
        ACQUIRE_TEST(a_polling_waiter_sleeps_while_others_go_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
