/* The place of a client in the line of a lock, and when it asks. */
#include "one_place.h"

/* ---- places -------------------------------------------------------------------------------- */

static void a_refused_client_stands_where_redis_says(void **state)
{
    (void)state;

    be_refused_at(3);
    assert_int_equal(is_now(), RELOCK_LINE_BEHIND);
    assert_int_equal(resource->contention->line.place, 3);
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
    assert_int_equal(resource->contention->subscription.state, RELOCK_SUBSCRIPTION_OFF);
    assert_true(fire_next());
    assert_int_equal(is_now(), RELOCK_LINE_LISTENING);
    assert_int_equal(resource->contention->subscription.state, RELOCK_SUBSCRIPTION_TO_BEGIN);
    assert_int_equal(resource->retry, RELOCK_RETRY_NONE); /* until that is acknowledged */
}

/* The other side of a read/write lock may be subscribed to the channel already. */
static void a_client_that_begins_to_listen_asks(void **state)
{
    (void)state;

    be_refused_at(1);
    resource->contention->subscription.state = RELOCK_SUBSCRIPTION_ACTIVE;
    assert_true(fire_next());
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
    resource->contention->subscription.state = RELOCK_SUBSCRIPTION_OFF;
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
    resource->contention->subscription.state = RELOCK_SUBSCRIPTION_ACTIVE;
    relock_line_refused(&client, resource, &sent, &busy);
    assert_int_equal(is_now(), RELOCK_LINE_LISTENING);
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
    resource->contention->subscription.state = RELOCK_SUBSCRIPTION_OFF;
}

static void a_grant_ends_the_standing(void **state)
{
    (void)state;

    be_refused_at(1);
    relock_line_granted(&client, resource, true);
    assert_int_equal(is_now(), RELOCK_LINE_LEFT);
    assert_int_equal(resource->contention->line.place, 0);
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
    assert_int_equal(resource->contention->line.place, 2);
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
    assert_true(resource->contention->yields_until_ms == 0);
    resource->retry = RELOCK_RETRY_NONE;
    hear("later");
    assert_int_equal(resource->retry, RELOCK_RETRY_FOR_MESSAGE);
    assert_true(resource->contention->yields_until_ms > 0);
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
    assert_int_equal(resource->contention->line.place, 2);
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
    assert_int_equal(resource->contention->line.place, 2);
    assert_true(has_timer());
    relock_line_released(&client, resource, &sent, 4);
    assert_int_equal(resource->contention->line.place, 2);
    assert_true(has_timer());
    be_refused_at(3);
    assert_int_equal(resource->contention->line.place, 3);
    assert_false(has_timer());
}

/* It came after the command was sent, so the place in the reply is older. */
static bool has_memory = true;

struct relock_contention *__real_relock_resource_contend(struct relock_resource *of);
struct relock_contention *__wrap_relock_resource_contend(struct relock_resource *of);

struct relock_contention *__wrap_relock_resource_contend(struct relock_resource *of)
{
    return has_memory ? __real_relock_resource_contend(of) : NULL;
}

/* A message that comes before the reply that would have told of the wait. */
static void a_client_without_memory_for_a_message_asks(void **state)
{
    static const char *const verbs[] = {"first", "second", "now", "later"};

    (void)state;
    has_memory = false;
    for (int i = 0; i < 4; i++) {
        resource->retry = RELOCK_RETRY_NONE;
        hear(verbs[i]);
        assert_int_equal(resource->retry, RELOCK_RETRY_FOR_MESSAGE);
    }
    has_memory = true;
    assert_int_equal(is_now(), RELOCK_LINE_OUTSIDE);
}

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
    resource->contention->asked_ms = 1000;
    for (uint64_t place = 1; place <= 3; place++) {
        be_refused_at(place);
        resource->contention->lease_end_ms = 5000;
        at_ms = relock_resource_recheck_at(resource, LEASE_MS);
        assert_true(place == 1 ? at_ms == 5000 : at_ms >= last_ms + 100);
        last_ms = at_ms;
    }
    for (uint64_t place = 1; place <= 3; place++) {
        be_refused_at(place);
        resource->contention->lease_end_ms = RELOCK_NEVER;
        at_ms = relock_resource_recheck_at(resource, LEASE_MS);
        assert_true(place == 1 ? at_ms == 1000 + LEASE_MS : at_ms >= last_ms + 200);
        last_ms = at_ms;
    }
}

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
        LINE_TEST(a_client_without_memory_for_a_message_asks),
        LINE_TEST(a_message_beats_a_reply_that_comes_later),
        LINE_TEST(clients_behind_ask_later_when_a_lease_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
