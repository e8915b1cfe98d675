/* Asynchronous calls, in the order in which they hurt: a hold that ends while others are
 * behind it, a loss that comes while its grant is on the way, a queue that is freed at once. */
#include "support/kinds.h"
#include "support/reactor.h"

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */
#define MANY 300
#define WAITS (&(struct relock_how){.wait_ms = NEVER_MS, .permits = kind_now()->permits})

/* ---- behind a hold ------------------------------------------------------------------------- */

static struct outcome releases[MANY];

static bool are_all_released(void *arg)
{
    (void)arg;
    for (int i = 0; i < MANY; i++)
        if (releases[i].result == REACTOR_NOTHING)
            return false;
    return true;
}

static size_t count(int result)
{
    size_t n = 0;

    for (int i = 0; i < MANY; i++)
        n += releases[i].result == result;
    return n;
}

/* More than the I/O thread runs in a turn. The hold ends while most of them are behind it. */
static void all_releases_behind_a_hold_have_a_result(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {
        .wait_ms = NEVER_MS, .owner = relock_owner_new(), .permits = kind_now()->permits};
    struct outcome nested;
    uint64_t owner;

    assert_result(reactor_acquire(lock, &how, events, &owner), RELOCK_OK);
    assert_result(outcome_acquire(lock, &how, events, &nested), RELOCK_OK);
    for (int i = 0; i < MANY; i++)
        assert_result(outcome_release(lock, owner, events, &releases[i]), RELOCK_OK);
    assert_true(reactor_run_until(events, are_all_released, NULL));
    assert_result(nested.result, RELOCK_OK);
    assert_int_equal(count(RELOCK_OK), 2);
    assert_int_equal(count(RELOCK_NOT_OWNER), MANY - 2);
    assert_null(relock_events_free(events));
}

/* ---- a loss -------------------------------------------------------------------------------- */

struct late {
    struct relock_client *client;
    struct relock_lock *lock;
    struct relock_events *events;
    struct outcome acquired, told;
    uint64_t owner; /* of the first hold */
    bool was_lost;
};

static void on_lost(const struct relock_lost *what, void *arg)
{
    struct late *late = arg;

    (void)what;
    outcome_released(RELOCK_OK, &late->told);
}

static bool is_lost(void *arg)
{
    struct relock_stats stats;

    return relock_client_stats(arg, &stats, sizeof(stats)) == RELOCK_OK && stats.lost > 0;
}

/* This callback ends after another hold has come and gone. */
static void linger(int result, const struct relock_grant *grant, void *arg)
{
    struct late *late = arg;
    struct relock_how how = {.lease_ms = LEASE_MS, .on_lost = on_lost, .arg = late};

    late->owner = grant->owner;
    if (result == RELOCK_OK &&
        outcome_acquire(late->lock, &how, late->events, &late->acquired) == RELOCK_OK)
        late->was_lost = wait_until(is_lost, late->client, SOON_MS);
}

static bool is_told(void *arg)
{
    return ((struct late *)arg)->told.n_times > 0;
}

static void a_loss_during_a_callback_is_told_after_its_grant(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *goods = fixture_lock(f, client, "goods");
    struct relock_events *events = reactor_events(client);
    struct late late = {.client = client,
                        .lock = kind_lock(f, client, "orders"),
                        .events = events,
                        .acquired = OUTCOME,
                        .told = OUTCOME};

    assert_result(relock_acquire_async(goods, NULL, events, linger, &late), RELOCK_OK);
    assert_true(reactor_run_until(events, is_told, &late));
    assert_true(late.was_lost);
    assert_result(late.acquired.result, RELOCK_OK);
    assert_true(late.acquired.order < late.told.order);
    assert_int_equal(late.told.n_times, 1);
    assert_result(relock_release(goods, late.owner), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* ---- a queue ------------------------------------------------------------------------------- */

static bool nobody_waits(void *arg)
{
    struct relock_stats stats;

    return relock_client_stats(arg, &stats, sizeof(stats)) == RELOCK_OK && stats.waiters == 0;
}

static void a_queue_that_is_freed_at_once_leaves_no_waiter(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct outcome never;

    assert_result(relock_lock(lock), RELOCK_OK);
    for (int i = 0; i < MANY; i++) {
        struct relock_events *events = reactor_events(client);

        assert_result(outcome_acquire(lock, WAITS, events, &never), RELOCK_OK);
        assert_null(relock_events_free(events));
    }
    assert_true(wait_until(nobody_waits, client, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void free_queue(int result, const struct relock_grant *grant, void *arg)
{
    struct late *late = arg;

    outcome_acquired(result, grant, &late->acquired);
    late->was_lost = relock_events_free(late->events) == NULL;
}

static bool has_key(void *arg)
{
    struct fixture *f = arg;

    return probe_n_keys(f->probe) == 1;
}

/* Its log ends with the client. */
static void a_callback_does_not_free_the_queue_of_a_freed_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct late late = {.events = events, .acquired = OUTCOME};

    assert_result(relock_acquire_async(lock, NULL, events, free_queue, &late), RELOCK_OK);
    assert_true(wait_until(has_key, f, SOON_MS));
    fixture_free_client(f, client);
    (void)reactor_await(events, &late.acquired);
    assert_true(late.acquired.result != REACTOR_NOTHING && !late.was_lost);
    assert_null(relock_events_free(events));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(all_releases_behind_a_hold_have_a_result),
        KINDS_TEST(a_loss_during_a_callback_is_told_after_its_grant),
        KINDS_TEST(a_queue_that_is_freed_at_once_leaves_no_waiter),
        SEMAPHORE_TEST(a_queue_that_is_freed_at_once_leaves_no_waiter),
        SERVER_TEST(a_callback_does_not_free_the_queue_of_a_freed_client),
    };
    return SERVER_TESTS_RUN(tests);
}
