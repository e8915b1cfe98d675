/*
 * How the subscription of a lock begins and ends, and what an event of its channel costs.
 *
 * The linker replaces the channels of lib/redis and relock_mutex_lock(), which counts its calls.
 */
#include "lock/wake/wake.h"

#include "base/clock.h"
#include "lock/wake/listener.h"
#include "redis/io/io.h"
#include "redis/server/loop.h"
#include "unit/common/offline.h"

#include <errno.h>
#include <string.h>

static struct {
    relock_channel_fn *fn;
    void *arg;
    int n_subscribed, n_unsubscribed;
    bool is_out_of_memory;
} channel;

static unsigned n_mutex_locks;

void __wrap_relock_mutex_lock(struct relock_mutex *mutex);
void __real_relock_mutex_lock(struct relock_mutex *mutex);
struct relock_subscriber *__wrap_relock_pubsub_subscribe(struct relock_pubsub *pubsub,
                                                         const char *name, size_t len,
                                                         relock_channel_fn *fn, void *arg);
void __wrap_relock_pubsub_unsubscribe(struct relock_subscriber *subscriber);
struct relock_pubsub *__wrap_relock_node_io_pubsub(struct relock_topology *topology,
                                                   struct relock_text key);

void __wrap_relock_mutex_lock(struct relock_mutex *mutex)
{
    n_mutex_locks++;
    __real_relock_mutex_lock(mutex);
}

struct relock_subscriber *__wrap_relock_pubsub_subscribe(struct relock_pubsub *pubsub,
                                                         const char *name, size_t len,
                                                         relock_channel_fn *fn, void *arg)
{
    (void)pubsub;
    (void)name;
    (void)len;
    if (channel.is_out_of_memory)
        return NULL;
    channel.n_subscribed++;
    channel.fn = fn;
    channel.arg = arg;
    return (struct relock_subscriber *)&channel;
}

struct relock_pubsub *__wrap_relock_node_io_pubsub(struct relock_topology *topology,
                                                   struct relock_text key)
{
    (void)topology;
    (void)key;
    return NULL;
}

void __wrap_relock_pubsub_unsubscribe(struct relock_subscriber *subscriber)
{
    assert_ptr_equal(subscriber, &channel);
    channel.n_unsubscribed++;
}

static int begin(void **state)
{
    (void)state;
    offline_begin();
    memset(&channel, 0, sizeof(channel));
    return relock_resource_contend(resource) ? 0 : -1;
}

static void sync_all(void)
{
    relock_mutex_lock(&client.mutex);
    relock_client_run_tasks(&client);
    relock_mutex_unlock(&client.mutex);
}

/* The linger is over. */
static void be_unwanted(void)
{
    struct relock_timer *timer;

    relock_subscription_idle(&client, resource);
    timer = relock_timers_pop(&client.guarded.timers, RELOCK_NEVER);
    assert_non_null(timer);
    timer->fire(timer, 0);
}

/* Ends the subscription; then only the test refers to the resource. */
static int end(void **state)
{
    unsigned refs;

    (void)state;
    if (relock_timers_next_ms(&client.guarded.timers) != RELOCK_NEVER)
        (void)relock_timers_pop(&client.guarded.timers, RELOCK_NEVER);
    if (resource->contention->subscription.state != RELOCK_SUBSCRIPTION_OFF)
        be_unwanted();
    sync_all();
    refs = resource->refs;
    return offline_end() == 0 && refs == 1 ? 0 : -1;
}

static void subscribe(void)
{
    relock_subscription_want(&client, resource);
    sync_all();
}

static void be_told(enum relock_channel_event event)
{
    channel.fn(channel.arg, event, NULL, 0);
}

static bool is_active(void)
{
    return relock_subscription_is_active(resource);
}

/* ---- its beginning and end ----------------------------------------------------------------- */

static void a_lock_is_subscribed_once_however_often_it_is_wanted(void **state)
{
    (void)state;

    relock_subscription_want(&client, resource);
    relock_subscription_want(&client, resource);
    assert_int_equal(channel.n_subscribed, 0);
    sync_all();
    relock_subscription_want(&client, resource);
    sync_all();
    assert_int_equal(channel.n_subscribed, 1);
}

static void
a_subscription_is_active_from_each_acknowledgement_to_the_end_of_the_connection(void **state)
{
    (void)state;

    subscribe();
    for (int i = 0; i < 2; i++) {
        assert_false(is_active());
        be_told(RELOCK_CHANNEL_SUBSCRIBED);
        assert_true(is_active());
        be_told(RELOCK_CHANNEL_SUBSCRIBED);
        be_told(RELOCK_CHANNEL_MESSAGE);
        assert_true(is_active());
        be_told(RELOCK_CHANNEL_DOWN);
    }
}

static void a_subscription_ends_when_it_is_unwanted(void **state)
{
    (void)state;

    subscribe();
    be_told(RELOCK_CHANNEL_SUBSCRIBED);
    be_unwanted();
    assert_false(is_active());
    assert_int_equal(channel.n_unsubscribed, 0);
    sync_all();
    assert_int_equal(channel.n_unsubscribed, 1);
    assert_int_equal(resource->contention->subscription.state, RELOCK_SUBSCRIPTION_OFF);
}

/* The acknowledgement of the old subscription would never arrive. */
static void a_subscription_wanted_again_before_its_end_begins_again(void **state)
{
    (void)state;

    subscribe();
    be_told(RELOCK_CHANNEL_SUBSCRIBED);
    be_unwanted();
    relock_subscription_want(&client, resource);
    be_told(RELOCK_CHANNEL_SUBSCRIBED);
    assert_false(is_active());
    sync_all();
    assert_int_equal(channel.n_unsubscribed, 1);
    assert_int_equal(channel.n_subscribed, 2);
    assert_false(is_active());
    be_told(RELOCK_CHANNEL_SUBSCRIBED);
    assert_true(is_active());
}

static void a_subscription_unwanted_before_its_beginning_never_begins(void **state)
{
    (void)state;

    relock_subscription_want(&client, resource);
    be_unwanted();
    sync_all();
    assert_int_equal(channel.n_subscribed, 0);
    assert_int_equal(resource->refs, 1);
}

static void without_memory_a_subscription_is_off_until_it_is_wanted_again(void **state)
{
    (void)state;

    channel.is_out_of_memory = true;
    subscribe();
    assert_int_equal(resource->refs, 1);
    assert_int_equal(resource->contention->subscription.state, RELOCK_SUBSCRIPTION_OFF);
    channel.is_out_of_memory = false;
    sync_all();
    assert_int_equal(channel.n_subscribed, 0);
    subscribe();
    assert_int_equal(channel.n_subscribed, 1);
}

static void a_subscription_stays_while_a_listener_waits(void **state)
{
    struct relock_listener listener = {.n_waiting = 1};

    (void)state;
    relock_listener_add(resource, &listener);
    subscribe();
    relock_subscription_idle(&client, resource);
    assert_true(relock_timers_next_ms(&client.guarded.timers) == RELOCK_NEVER);
    relock_listener_remove(resource, &listener);
}

/* ---- events -------------------------------------------------------------------------------- */

static void each_event_is_a_reason_to_ask(void **state)
{
    const enum relock_channel_event events[] = {RELOCK_CHANNEL_SUBSCRIBED, RELOCK_CHANNEL_MESSAGE,
                                                RELOCK_CHANNEL_DOWN};

    (void)state;
    subscribe();
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
        resource->retry = RELOCK_RETRY_NONE;
        be_told(events[i]);
        assert_int_equal(resource->retry, events[i] == RELOCK_CHANNEL_MESSAGE
                                              ? RELOCK_RETRY_FOR_MESSAGE
                                              : RELOCK_RETRY_PENDING);
    }
}

static void an_event_without_listeners_takes_the_mutex_once(void **state)
{
    (void)state;

    subscribe();
    be_told(RELOCK_CHANNEL_SUBSCRIBED);
    n_mutex_locks = 0;
    be_told(RELOCK_CHANNEL_MESSAGE);
    assert_int_equal(n_mutex_locks, 1);
}

/* Three listeners, and their calls. */
static struct told {
    struct relock_listener base;
    bool is_due;
    unsigned notified;
    int n_notified, n_delivered;
} told[3];

static bool notify(struct relock_listener *listener, enum relock_listener_event event)
{
    struct told *at = (struct told *)listener;

    assert_int_equal(pthread_mutex_trylock(&client.mutex.pthread), EBUSY);
    at->n_notified++;
    at->notified = event;
    return at->is_due;
}

static void deliver(struct relock_listener *listener, unsigned events)
{
    struct told *at = (struct told *)listener;

    assert_int_equal(pthread_mutex_trylock(&client.mutex.pthread), 0);
    assert_int_equal(pthread_mutex_unlock(&client.mutex.pthread), 0);
    assert_int_equal(events, at->notified);
    at->n_delivered++;
    at->base.task.next = &at->base.task; /* it may be gone now: a reader would go round for ever */
}

/* Any thread may have read the message, and only the I/O thread delivers. */
static void listeners_are_notified_under_the_mutex_and_hear_in_the_next_turn(void **state)
{
    static const struct relock_listener_ops ops = {.notify = notify, .deliver = deliver};
    const enum relock_channel_event events[] = {RELOCK_CHANNEL_SUBSCRIBED, RELOCK_CHANNEL_MESSAGE,
                                                RELOCK_CHANNEL_DOWN};

    (void)state;
    for (int i = 0; i < 3; i++) {
        told[i] = (struct told){.base.ops = &ops, .is_due = i != 1};
        relock_listener_add(resource, &told[i].base);
    }
    subscribe();
    for (size_t n = 0; n < sizeof(events) / sizeof(*events); n++) {
        be_told(events[n]);
        for (int i = 0; i < 3; i++)
            assert_int_equal(told[i].n_delivered, i != 1 ? n : 0);
        relock_mutex_lock(&client.mutex);
        relock_listeners_deliver(&client);
        relock_mutex_unlock(&client.mutex);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(told[i].n_notified, 3);
        assert_int_equal(told[i].n_delivered, i != 1 ? 3 : 0);
        assert_int_equal(told[i].notified, RELOCK_HEARD_CHANGE);
        relock_listener_remove(resource, &told[i].base);
    }
}

static uint64_t turn(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

static void a_notice_wakes_the_io_thread(void **state)
{
    static const struct relock_listener_ops ops = {.notify = notify, .deliver = deliver};
    bool is_woken;

    (void)state;
    told[0] = (struct told){.base.ops = &ops, .is_due = true};
    relock_listener_add(resource, &told[0].base);
    subscribe();
    assert_int_equal(relock_loop_new(turn, NULL, &client.loop), RELOCK_OK);
    client.guarded.iteration_at_ms = RELOCK_NEVER;
    be_told(RELOCK_CHANNEL_MESSAGE);
    is_woken = client.guarded.iteration_at_ms == 0;
    client.guarded.iteration_at_ms = 0;
    client.loop = relock_loop_free(client.loop);
    assert_true(is_woken);
    relock_mutex_lock(&client.mutex);
    relock_listeners_deliver(&client);
    relock_mutex_unlock(&client.mutex);
    relock_listener_remove(resource, &told[0].base);
}

#define SUBSCRIPTION_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SUBSCRIPTION_TEST(a_lock_is_subscribed_once_however_often_it_is_wanted),
        SUBSCRIPTION_TEST(
            a_subscription_is_active_from_each_acknowledgement_to_the_end_of_the_connection),
        SUBSCRIPTION_TEST(a_subscription_ends_when_it_is_unwanted),
        SUBSCRIPTION_TEST(a_subscription_wanted_again_before_its_end_begins_again),
        SUBSCRIPTION_TEST(a_subscription_unwanted_before_its_beginning_never_begins),
        SUBSCRIPTION_TEST(without_memory_a_subscription_is_off_until_it_is_wanted_again),
        SUBSCRIPTION_TEST(a_subscription_stays_while_a_listener_waits),
        SUBSCRIPTION_TEST(each_event_is_a_reason_to_ask),
        SUBSCRIPTION_TEST(an_event_without_listeners_takes_the_mutex_once),
        SUBSCRIPTION_TEST(listeners_are_notified_under_the_mutex_and_hear_in_the_next_turn),
        SUBSCRIPTION_TEST(a_notice_wakes_the_io_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
