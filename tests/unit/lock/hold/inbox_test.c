/*
 * The inbox of a client: its subscription, and the messages in it.
 *
 * The linker replaces the channels of lib/redis.
 */
#include "lock/hold/holds.h"

#include "lock/state/keys.h"
#include "lock/state/resource.h"
#include "lock/wake/outbox.h"
#include "lock/wake/wake.h"
#include "redis/io/io.h"
#include "unit/common/offline.h"

#include <string.h>

#define ID "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10"

static struct {
    relock_channel_fn *fn;
    void *arg;
    int n_subscribed;
    bool is_out_of_memory;
    char name[64];
} channel;

static struct relock_waiter waiter;

struct relock_subscriber *__wrap_relock_pubsub_subscribe_anywhere(struct relock_pubsub *pubsub,
                                                                  const char *name, size_t len,
                                                                  relock_channel_fn *fn, void *arg);
struct relock_pubsub *__wrap_relock_node_io_pubsub(struct relock_topology *topology,
                                                   struct relock_text key);

struct relock_pubsub *__wrap_relock_node_io_pubsub(struct relock_topology *topology,
                                                   struct relock_text key)
{
    (void)topology;
    (void)key;
    return NULL;
}

struct relock_subscriber *__wrap_relock_pubsub_subscribe_anywhere(struct relock_pubsub *pubsub,
                                                                  const char *name, size_t len,
                                                                  relock_channel_fn *fn, void *arg)
{
    (void)pubsub;
    if (channel.is_out_of_memory)
        return NULL;
    assert_in_range(len, 1, sizeof(channel.name) - 1);
    memcpy(channel.name, name, len);
    channel.n_subscribed++;
    channel.fn = fn;
    channel.arg = arg;
    return (struct relock_subscriber *)&channel;
}

static int begin(void **state)
{
    (void)state;
    offline_begin();
    strcpy(client.id, ID);
    memset(&channel, 0, sizeof(channel));
    waiter = (struct relock_waiter){.owner = 1};
    relock_gate_init(&waiter.gate);
    return 0;
}

static int end(void **state)
{
    struct relock_timer *timer;

    (void)state;
    if (resource->queue)
        relock_resource_dequeue(resource, &waiter);
    while ((timer = relock_timers_pop(&client.guarded.timers, RELOCK_NEVER)))
        timer->fire(timer, 0);
    relock_mutex_lock(&client.mutex);
    relock_line_close(&client);
    relock_mutex_unlock(&client.mutex);
    return offline_end();
}

static void sync_inbox(void)
{
    relock_mutex_lock(&client.mutex);
    relock_client_run_tasks(&client);
    relock_mutex_unlock(&client.mutex);
}

static void subscribe(void)
{
    assert_true(relock_inbox_want(&client));
    sync_inbox();
}

static void happens(enum relock_channel_event event)
{
    channel.fn(channel.arg, event, NULL, 0);
}

static void wait_on(struct relock_resource *waited)
{
    relock_resource_enqueue(waited, &waiter);
    waited->retry = RELOCK_RETRY_NONE;
}

/* ---- its subscription ---------------------------------------------------------------------- */

static void a_client_subscribes_once_to_the_channel_of_its_id(void **state)
{
    (void)state;

    sync_inbox();
    assert_int_equal(channel.n_subscribed, 0);
    subscribe();
    subscribe();
    assert_int_equal(channel.n_subscribed, 1);
    assert_string_equal(channel.name, "relock_client:{" ID "}");
}

static void an_inbox_is_open_from_each_acknowledgement_to_the_end_of_the_connection(void **state)
{
    (void)state;

    subscribe();
    for (int i = 0; i < 2; i++) {
        assert_false(relock_inbox_is_open(&client));
        happens(RELOCK_CHANNEL_SUBSCRIBED);
        assert_true(relock_inbox_is_open(&client));
        happens(RELOCK_CHANNEL_DOWN);
    }
    sync_inbox();
    assert_int_equal(channel.n_subscribed, 1); /* the channel itself subscribes again */
}

/* The rights may be others with the next connection. */
static void a_refused_inbox_is_not_wanted_until_there_is_a_new_connection(void **state)
{
    (void)state;

    subscribe();
    happens(RELOCK_CHANNEL_REFUSED);
    assert_false(relock_inbox_want(&client));
    happens(RELOCK_CHANNEL_DOWN);
    assert_true(relock_inbox_want(&client));
    happens(RELOCK_CHANNEL_SUBSCRIBED);
    assert_true(relock_inbox_is_open(&client));
}

static void without_memory_the_next_refused_waiter_wants_it(void **state)
{
    (void)state;

    channel.is_out_of_memory = true;
    subscribe();
    assert_int_equal(client.guarded.inbox, RELOCK_INBOX_UNUSED);
    channel.is_out_of_memory = false;
    subscribe();
    assert_int_equal(channel.n_subscribed, 1);
}

/* The client may have been taken out of the line, or told in vain. */
static void each_change_is_a_reason_to_ask(void **state)
{
    static const enum relock_channel_event events[] = {RELOCK_CHANNEL_SUBSCRIBED,
                                                       RELOCK_CHANNEL_REFUSED, RELOCK_CHANNEL_DOWN};

    (void)state;
    subscribe();
    wait_on(resource);
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
        happens(events[i]);
        assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
        resource->retry = RELOCK_RETRY_NONE;
    }
    relock_resource_dequeue(resource, &waiter);
    happens(RELOCK_CHANNEL_SUBSCRIBED);
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
}

/* There, the waiters of each lock have an inbox of their own. */
static void in_a_cluster_it_is_for_recalls_alone(void **state)
{
    (void)state;
    client.server.url.cluster = true;
    relock_inbox_want_recalls(&client);
    sync_inbox();
    assert_int_equal(channel.n_subscribed, 1);
    wait_on(resource);
    happens(RELOCK_CHANNEL_SUBSCRIBED);
    assert_true(relock_inbox_hears_recalls(&client));
    assert_false(relock_inbox_is_open_for(&client, resource));
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
}

/* Of a lock with two sides; only what the inbox looks at. */
static const struct relock_kind write_kind = {
    .channel = RELOCK_CHANNEL_RW,
    .side = RELOCK_SIDE_WRITE,
};
static const struct relock_kind read_kind = {
    .channel = RELOCK_CHANNEL_RW,
    .side = RELOCK_SIDE_READ,
    .is_shared = true,
    .primary = &write_kind,
};

static struct relock_resource *new_side(const struct relock_kind *kind)
{
    struct relock_resource *side = relock_resources_get(
        &client, kind, "invoices", strlen("invoices"), 0, &(const char *){NULL});

    assert_non_null(side);
    return side;
}

static void each_change_is_a_reason_for_readers_too(void **state)
{
    struct relock_resource *readers = new_side(&read_kind);

    (void)state;
    subscribe();
    wait_on(readers);
    happens(RELOCK_CHANNEL_SUBSCRIBED);
    assert_int_equal(readers->retry, RELOCK_RETRY_PENDING);
    assert_int_equal(readers->primary->retry, RELOCK_RETRY_NONE);
    relock_resource_dequeue(readers, &waiter);
    relock_resources_unref(&client, readers);
}

/* ---- messages ------------------------------------------------------------------------------ */

static void receive(const char *text, size_t len)
{
    channel.fn(channel.arg, RELOCK_CHANNEL_MESSAGE, text, len);
}

static size_t n_departures(void)
{
    struct relock_outbox_entry *entry;
    size_t n = 0;

    DL_COUNT(client.guarded.leaving.posted, entry, n);
    return n;
}

static void a_message_is_for_the_lock_that_it_names(void **state)
{
    struct relock_resource *readers = new_side(&read_kind);
    struct relock_resource *writers = new_side(&write_kind);

    (void)state;
    subscribe();
    wait_on(resource);
    receive("now orders", strlen("now orders"));
    assert_int_equal(resource->retry, RELOCK_RETRY_FOR_MESSAGE);
    relock_resource_dequeue(resource, &waiter);
    wait_on(readers);
    receive("now:read invoices", strlen("now:read invoices"));
    assert_int_equal(readers->retry, RELOCK_RETRY_FOR_MESSAGE);
    assert_int_equal(writers->retry, RELOCK_RETRY_NONE);
    relock_resource_dequeue(readers, &waiter);
    wait_on(writers);
    receive("now:write invoices", strlen("now:write invoices"));
    assert_int_equal(writers->retry, RELOCK_RETRY_FOR_MESSAGE);
    relock_resource_dequeue(writers, &waiter);
    assert_int_equal(n_departures(), 0);
    relock_resources_unref(&client, readers);
    relock_resources_unref(&client, writers);
}

static void a_client_leaves_a_line_in_which_nobody_waits(void **state)
{
    static const char *const texts[] = {
        "now orders",       /* nobody waits */
        "now:read orders",  /* it has no sides */
        "first nothing",    /* there is no such lock */
        "now ",             /* whatever its name */
        "now:write a b c ", /* a name may have blanks */
    };

    (void)state;
    subscribe();
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        receive(texts[i], strlen(texts[i]));
        assert_int_equal(n_departures(), i + 1);
    }
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
}

static void other_texts_are_ignored(void **state)
{
    static const char *const texts[] = {
        "",      "now",           "now:",         "now:read",
        "now: ", "now: orders",   "now:x orders", "now:reader orders",
        ":",     "now:rea orders"};

    (void)state;
    subscribe();
    wait_on(resource);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        receive(texts[i], strlen(texts[i]));
    assert_int_equal(n_departures(), 0);
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
}

#define INBOX_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INBOX_TEST(a_client_subscribes_once_to_the_channel_of_its_id),
        INBOX_TEST(an_inbox_is_open_from_each_acknowledgement_to_the_end_of_the_connection),
        INBOX_TEST(a_refused_inbox_is_not_wanted_until_there_is_a_new_connection),
        INBOX_TEST(without_memory_the_next_refused_waiter_wants_it),
        INBOX_TEST(each_change_is_a_reason_to_ask),
        INBOX_TEST(each_change_is_a_reason_for_readers_too),
        INBOX_TEST(in_a_cluster_it_is_for_recalls_alone),
        INBOX_TEST(a_message_is_for_the_lock_that_it_names),
        INBOX_TEST(a_client_leaves_a_line_in_which_nobody_waits),
        INBOX_TEST(other_texts_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
