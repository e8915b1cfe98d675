/* The standing of a client in the line of a lock, and how it leaves. */
#include "lock/line.h"

#include "lock/outbox.h"
#include "lock/subscription.h"
#include "offline.h"
#include "redis/script.h"

#include <string.h>

#define ID "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10"

static struct relock_waiter waiter;

static int begin(void **state)
{
    (void)state;
    offline_begin();
    strcpy(client.id, ID);
    waiter = (struct relock_waiter){.owner = 1};
    relock_gate_init(&waiter.gate);
    relock_resource_enqueue(resource, &waiter);
    resource->retry = RELOCK_RETRY_NONE;
    return 0;
}

static bool fire_next(void)
{
    struct relock_timer *timer = relock_timers_pop(&client.guarded.timers, RELOCK_NEVER);

    if (timer)
        timer->fire(timer, 0);
    return timer != NULL;
}

/* Ends a subscription that has not begun, and drops what was not sent. */
static int end(void **state)
{
    (void)state;
    if (resource->queue)
        relock_resource_dequeue(resource, &waiter);
    relock_line_granted(&client, resource, true);
    while (fire_next())
        ;
    relock_mutex_lock(&client.mutex);
    relock_subscription_sync(&client);
    relock_line_close(&client);
    relock_mutex_unlock(&client.mutex);
    return offline_end();
}

static bool has_timer(void)
{
    return relock_timers_next_ms(&client.guarded.timers) != RELOCK_NEVER;
}

static enum relock_line_state is_now(void)
{
    return resource->line.state;
}

static struct relock_line_view view(void)
{
    return relock_resource_view_line(resource);
}

static void be_refused_at(uint64_t place)
{
    struct relock_line_view sent = view();

    relock_line_refused(&client, resource, &sent, &(struct relock_busy){.place = place});
}

static void hear(const char *verb)
{
    relock_line_hear(&client, resource, verb, strlen(verb));
}

static const struct relock_outbox_entry *posted(void)
{
    return client.guarded.leaving.posted;
}

/* ---- places -------------------------------------------------------------------------------- */

static void a_refused_client_stands_where_redis_says(void **state)
{
    (void)state;

    be_refused_at(3);
    assert_int_equal(is_now(), RELOCK_LINE_BEHIND);
    assert_int_equal(resource->line.place, 3);
    assert_false(has_timer());
    be_refused_at(1);
    assert_int_equal(is_now(), RELOCK_LINE_FIRST);
    assert_true(has_timer());
    be_refused_at(2);
    assert_int_equal(is_now(), RELOCK_LINE_BEHIND);
    assert_false(has_timer());
    be_refused_at(0);
    assert_int_equal(is_now(), RELOCK_LINE_OUTSIDE);
}

static void the_first_client_listens_after_a_while(void **state)
{
    (void)state;

    be_refused_at(1);
    assert_int_equal(resource->subscription.state, RELOCK_SUBSCRIPTION_OFF);
    assert_true(fire_next());
    assert_int_equal(is_now(), RELOCK_LINE_LISTENING);
    assert_int_equal(resource->subscription.state, RELOCK_SUBSCRIPTION_TO_BEGIN);
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE); /* until that is acknowledged */
}

/* The other side of a read/write lock may be subscribed to the channel already. */
static void a_client_that_begins_to_listen_asks(void **state)
{
    (void)state;

    be_refused_at(1);
    resource->subscription.state = RELOCK_SUBSCRIPTION_ACTIVE;
    assert_true(fire_next());
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
    resource->subscription.state = RELOCK_SUBSCRIPTION_OFF;
}

static void a_client_that_listens_and_is_refused_listens_on(void **state)
{
    struct relock_line_view sent = {0};
    struct relock_busy busy = {.place = 1};

    (void)state;
    be_refused_at(1);
    assert_true(fire_next());
    relock_line_refused(&client, resource, &sent, &busy);
    assert_int_equal(is_now(), RELOCK_LINE_LISTENING);
    assert_false(has_timer());
    busy.is_reserved = true; /* no message comes if the other client is silent */
    relock_line_refused(&client, resource, &sent, &busy);
    assert_int_equal(is_now(), RELOCK_LINE_FIRST);
    assert_true(has_timer());
}

/* A message that came while it did not listen was dropped. */
static void a_client_that_begins_to_listen_for_a_foreign_holder_asks(void **state)
{
    struct relock_line_view sent = {0};
    struct relock_busy busy = {.place = 1, .is_foreign = true};

    (void)state;
    resource->subscription.state = RELOCK_SUBSCRIPTION_ACTIVE;
    relock_line_refused(&client, resource, &sent, &busy);
    assert_int_equal(is_now(), RELOCK_LINE_LISTENING);
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
    resource->subscription.state = RELOCK_SUBSCRIPTION_OFF;
}

static void a_grant_ends_the_standing(void **state)
{
    (void)state;

    be_refused_at(1);
    relock_line_granted(&client, resource, true);
    assert_int_equal(is_now(), RELOCK_LINE_LEFT);
    assert_int_equal(resource->line.place, 0);
    assert_false(has_timer());
    be_refused_at(0);
    relock_line_granted(&client, resource, true);
    assert_int_equal(is_now(), RELOCK_LINE_OUTSIDE);
}

/* At place 2 it is the first behind the client that was told. */
static void a_release_puts_the_client_into_the_line_again(void **state)
{
    static const struct {
        uint64_t place;
        enum relock_line_state state;
    } cases[] = {{0, RELOCK_LINE_LEFT},
                 {1, RELOCK_LINE_FIRST},
                 {2, RELOCK_LINE_FIRST},
                 {3, RELOCK_LINE_BEHIND}};
    struct relock_line_view sent = view();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        be_refused_at(1);
        relock_line_granted(&client, resource, true);
        relock_line_released(&client, resource, &sent, cases[i].place);
        assert_int_equal(is_now(), cases[i].state);
    }
    assert_int_equal(resource->line.place, 2);
    assert_true(has_timer()); /* nobody tells it that it is second */
}

/* ---- messages ------------------------------------------------------------------------------ */

static void a_client_asks_when_it_is_its_turn(void **state)
{
    (void)state;

    be_refused_at(4);
    hear("now");
    assert_int_equal(resource->retry, RELOCK_RETRY_FOR_MESSAGE);
    assert_int_equal(is_now(), RELOCK_LINE_FIRST);
    assert_true(resource->yields_until_ms == 0);
    resource->retry = RELOCK_RETRY_NONE;
    hear("later");
    assert_int_equal(resource->retry, RELOCK_RETRY_FOR_MESSAGE);
    assert_true(resource->yields_until_ms > 0);
}

static void a_client_that_becomes_first_does_not_ask(void **state)
{
    (void)state;

    be_refused_at(2);
    hear("first");
    assert_int_equal(is_now(), RELOCK_LINE_FIRST);
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
    assert_true(has_timer());
}

static void the_second_client_asks_after_a_while(void **state)
{
    (void)state;

    be_refused_at(5);
    hear("second");
    assert_int_equal(is_now(), RELOCK_LINE_BEHIND);
    assert_int_equal(resource->line.place, 2);
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
    assert_true(fire_next());
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
    assert_int_equal(is_now(), RELOCK_LINE_BEHIND);
}

/* The lock is free, and both clients before it may be silent. */
static void a_second_client_refused_for_a_reservation_asks_after_a_while(void **state)
{
    struct relock_line_view sent = view();
    struct relock_busy busy = {.place = 2, .is_reserved = true};

    (void)state;
    relock_line_refused(&client, resource, &sent, &busy);
    assert_int_equal(is_now(), RELOCK_LINE_BEHIND);
    assert_true(fire_next());
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
    busy.place = 3;
    relock_line_refused(&client, resource, &sent, &busy);
    assert_false(has_timer());
}

static void a_second_client_is_second_after_a_reply_that_comes_later(void **state)
{
    struct relock_line_view sent = view();

    (void)state;
    hear("second");
    relock_line_refused(&client, resource, &sent, &(struct relock_busy){.place = 3});
    assert_int_equal(resource->line.place, 2);
    assert_true(has_timer());
    relock_line_released(&client, resource, &sent, 4);
    assert_int_equal(resource->line.place, 2);
    assert_true(has_timer());
    be_refused_at(3);
    assert_int_equal(resource->line.place, 3);
    assert_false(has_timer());
}

/* It came after the command was sent, so the place in the reply is older. */
static void a_message_beats_a_reply_that_comes_later(void **state)
{
    struct relock_line_view sent = view();

    (void)state;
    hear("first");
    relock_line_refused(&client, resource, &sent, &(struct relock_busy){.place = 2});
    assert_int_equal(is_now(), RELOCK_LINE_FIRST);
    relock_line_released(&client, resource, &sent, 4);
    assert_int_equal(is_now(), RELOCK_LINE_FIRST);
    be_refused_at(2);
    assert_int_equal(is_now(), RELOCK_LINE_BEHIND);
}

/* ---- without a signal ---------------------------------------------------------------------- */

/* The first asks alone; each other a while after the one before it. */
static void clients_behind_ask_later_when_a_lease_ends(void **state)
{
    uint64_t at_ms, last_ms = 0;

    (void)state;
    resource->asked_ms = 1000;
    for (uint64_t place = 1; place <= 3; place++) {
        be_refused_at(place);
        resource->lease_end_ms = 5000;
        at_ms = relock_resource_recheck_at(resource, LEASE_MS);
        assert_true(place == 1 ? at_ms == 5000 : at_ms >= last_ms + 100);
        last_ms = at_ms;
    }
    for (uint64_t place = 1; place <= 3; place++) {
        be_refused_at(place);
        resource->lease_end_ms = RELOCK_NEVER;
        at_ms = relock_resource_recheck_at(resource, LEASE_MS);
        assert_true(place == 1 ? at_ms == 1000 + LEASE_MS : at_ms >= last_ms + 200);
        last_ms = at_ms;
    }
}

/* ---- leaving ------------------------------------------------------------------------------- */

static void a_client_leaves_with_its_last_waiter(void **state)
{
    (void)state;

    be_refused_at(2);
    relock_line_abandon(&client, resource);
    assert_null(posted());
    relock_resource_dequeue(resource, &waiter);
    relock_line_abandon(&client, resource);
    assert_non_null(posted());
    assert_int_equal(is_now(), RELOCK_LINE_LEFT);
    relock_line_abandon(&client, resource);
    assert_null(posted()->next);
}

static void a_client_that_is_not_in_the_line_does_not_leave(void **state)
{
    (void)state;

    relock_resource_dequeue(resource, &waiter);
    relock_line_abandon(&client, resource);
    be_refused_at(0);
    relock_line_abandon(&client, resource);
    be_refused_at(1);
    relock_line_granted(&client, resource, true);
    relock_line_abandon(&client, resource);
    assert_null(posted());
}

static void a_client_may_be_in_the_line_after_an_attempt_without_an_answer(void **state)
{
    (void)state;

    be_refused_at(3);
    relock_line_unanswered(&client, resource);
    assert_int_equal(resource->line.place, 3);
    relock_line_granted(&client, resource, true);
    relock_line_unanswered(&client, resource);
    relock_resource_dequeue(resource, &waiter);
    relock_line_abandon(&client, resource);
    assert_non_null(posted());
}

static void a_departure_names_the_lock_and_the_entry(void **state)
{
    static const char *const sides[] = {NULL, RELOCK_SIDE_READ, RELOCK_SIDE_WRITE};
    static const char *const entries[] = {ID, ID ":read", ID ":write"};
    const struct relock_outbox_entry *entry;
    struct relock_request request;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(relock_line_leave(&client, "invoices", strlen("invoices"), sides[i]));
    entry = posted();
    for (int i = 0; i < 3; i++, entry = entry->next) {
        assert_true(entry->ops->write(entry, &request));
        assert_ptr_equal(request.call.script, &relock_script_line_leave);
        assert_int_equal(request.call.key.len, strlen("invoices"));
        assert_memory_equal(request.call.key.data, "invoices", strlen("invoices"));
        assert_int_equal(request.call.n_args, 1);
        assert_int_equal(request.call.args[0].len, strlen(entries[i]));
        assert_memory_equal(request.call.args[0].data, entries[i], strlen(entries[i]));
    }
}

/* Takes the departure out of the outbox, as if it were sent, and answers it. */
static void answer(int result)
{
    struct relock_outbox_entry *entry = client.guarded.leaving.posted;

    DL_DELETE(client.guarded.leaving.posted, entry);
    entry->ops->answer(&client, entry, result, NULL);
}

/* A try that was granted has sent no entry. */
static void a_grant_without_an_entry_leaves_the_line(void **state)
{
    (void)state;
    be_refused_at(2);
    relock_line_granted(&client, resource, false);
    assert_int_equal(is_now(), RELOCK_LINE_LEFT);
    assert_non_null(posted());
    answer(RELOCK_OK);
}

static void leave(void)
{
    assert_true(
        relock_line_leave(&client, resource->name, resource->name_len, resource->kind->side));
}

static void a_departure_without_an_answer_is_repeated_with_the_next_connection(void **state)
{
    (void)state;

    leave();
    answer(RELOCK_E_CONN);
    assert_null(posted());
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
    relock_line_leave_again(&client);
    assert_non_null(posted());
    answer(RELOCK_OK);
    relock_line_leave_again(&client);
    assert_null(posted());
}

static void a_waiter_asks_after_a_departure(void **state)
{
    (void)state;

    leave();
    answer(RELOCK_OK);
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
    resource->retry = RELOCK_RETRY_NONE;
    relock_resource_dequeue(resource, &waiter);
    leave();
    answer(RELOCK_OK);
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
}

static void a_departure_without_memory_is_repeated_after_a_while(void **state)
{
    (void)state;

    relock_resource_dequeue(resource, &waiter);
    leave();
    answer(RELOCK_E_NOMEM);
    assert_null(posted());
    assert_true(fire_next());
    assert_non_null(posted());
    assert_int_equal(is_now(), RELOCK_LINE_LEFT);
}

#define LINE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINE_TEST(a_refused_client_stands_where_redis_says),
        LINE_TEST(the_first_client_listens_after_a_while),
        LINE_TEST(a_client_that_begins_to_listen_asks),
        LINE_TEST(a_client_that_listens_and_is_refused_listens_on),
        LINE_TEST(a_client_that_begins_to_listen_for_a_foreign_holder_asks),
        LINE_TEST(a_grant_ends_the_standing),
        LINE_TEST(a_release_puts_the_client_into_the_line_again),
        LINE_TEST(a_client_asks_when_it_is_its_turn),
        LINE_TEST(a_client_that_becomes_first_does_not_ask),
        LINE_TEST(the_second_client_asks_after_a_while),
        LINE_TEST(a_second_client_refused_for_a_reservation_asks_after_a_while),
        LINE_TEST(a_second_client_is_second_after_a_reply_that_comes_later),
        LINE_TEST(a_message_beats_a_reply_that_comes_later),
        LINE_TEST(clients_behind_ask_later_when_a_lease_ends),
        LINE_TEST(a_client_leaves_with_its_last_waiter),
        LINE_TEST(a_client_that_is_not_in_the_line_does_not_leave),
        LINE_TEST(a_client_may_be_in_the_line_after_an_attempt_without_an_answer),
        LINE_TEST(a_departure_names_the_lock_and_the_entry),
        LINE_TEST(a_departure_without_an_answer_is_repeated_with_the_next_connection),
        LINE_TEST(a_waiter_asks_after_a_departure),
        LINE_TEST(a_grant_without_an_entry_leaves_the_line),
        LINE_TEST(a_departure_without_memory_is_repeated_after_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
