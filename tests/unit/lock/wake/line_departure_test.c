/* How a client leaves the line of a lock. */
#include "one_place.h"
#include "redis/server/script.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

static void a_client_leaves_with_its_last_waiter(void **state)
{
    (void)state;

    be_refused_at(2);
    relock_line_give_up(&client, resource);
    assert_null(posted());
    relock_resource_dequeue(resource, &waiter);
    relock_line_give_up(&client, resource);
    assert_non_null(posted());
    assert_int_equal(is_now(), RELOCK_LINE_LEFT);
    relock_line_give_up(&client, resource);
    assert_null(posted()->next);
}

static void a_client_that_is_not_in_the_line_does_not_leave(void **state)
{
    (void)state;

    relock_resource_dequeue(resource, &waiter);
    relock_line_give_up(&client, resource);
    be_refused_at(0);
    relock_line_give_up(&client, resource);
    be_refused_at(1);
    relock_line_granted(&client, resource, true);
    relock_line_give_up(&client, resource);
    assert_null(posted());
}

static void a_client_may_be_in_the_line_after_an_attempt_without_an_answer(void **state)
{
    struct relock_hold hold = {.resource = resource};

    (void)state;
    be_refused_at(3);
    relock_line_unanswered(&client, &hold);
    assert_int_equal(resource->contention->line.place, 3);
    relock_line_granted(&client, resource, true);
    relock_line_unanswered(&client, &hold);
    relock_resource_dequeue(resource, &waiter);
    relock_line_give_up(&client, resource);
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
static void answer_with(int result, const struct redisReply *reply)
{
    struct relock_outbox_entry *entry = client.guarded.leaving.posted;

    DL_DELETE(client.guarded.leaving.posted, entry);
    entry->ops->answer(&client, entry, result, reply);
}

static void answer(int result)
{
    answer_with(result, NULL);
}

static void refuse(const char *error)
{
    char text[100] = "";

    (void)snprintf(text, sizeof(text), "%s", error);
    answer_with(RELOCK_E_SERVER, &(struct redisReply){.type = REDIS_REPLY_ERROR, .str = text});
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

static void a_departure_that_was_refused_for_now_is_repeated_after_a_while(void **state)
{
    static const char *const errors[] = {"READONLY You can't write against a read only replica.",
                                         "BUSY Redis is busy running a script.",
                                         "LOADING Redis is loading the dataset in memory",
                                         "CLUSTERDOWN The cluster is down", "MOVED 1 127.0.0.1:1"};

    (void)state;
    leave();
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        refuse(errors[i]);
        assert_null(posted());
        assert_int_equal(resource->retry, RELOCK_RETRY_NONE);
        assert_true(fire_next());
        assert_non_null(posted());
    }
    answer(RELOCK_OK);
}

static void a_departure_that_was_refused_for_good_is_not_repeated(void **state)
{
    (void)state;

    leave();
    refuse("NOPERM this user has no permissions to run the 'evalsha' command");
    relock_line_leave_again(&client);
    assert_null(posted());
    assert_false(has_timer());
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

    leave();
    answer(RELOCK_E_NOMEM);
    assert_null(posted());
    assert_true(fire_next());
    assert_non_null(posted());
    answer(RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINE_TEST(a_client_leaves_with_its_last_waiter),
        LINE_TEST(a_client_that_is_not_in_the_line_does_not_leave),
        LINE_TEST(a_client_may_be_in_the_line_after_an_attempt_without_an_answer),
        LINE_TEST(a_departure_names_the_lock_and_the_entry),
        LINE_TEST(a_grant_without_an_entry_leaves_the_line),
        LINE_TEST(a_departure_without_an_answer_is_repeated_with_the_next_connection),
        LINE_TEST(a_departure_that_was_refused_for_now_is_repeated_after_a_while),
        LINE_TEST(a_departure_that_was_refused_for_good_is_not_repeated),
        LINE_TEST(a_waiter_asks_after_a_departure),
        LINE_TEST(a_departure_without_memory_is_repeated_after_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
