/* The scripts as calls: their arguments and the order of these. */
#include "lock/wake/outbox.h"

#include "kind/kinds.h"
#include "lock/wake/private.h"
#include "redis/deployment/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ID "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10"
#define NAME "orders:42"
#define CHANNEL "redisson_lock__channel:{orders:42}"
#define NUMBER 7000000012
#define FIELD ID ":7000000012"

static struct relock_client client = {.id = ID};
static struct relock_resource *resource;
static struct relock_hold hold;
static struct relock_request request;

static int begin(void **state)
{
    (void)state;
    resource = calloc(1, sizeof(*resource) + sizeof(NAME));
    assert_non_null(resource);
    resource->client = &client;
    resource->primary = resource;
    resource->kind = &relock_kind_reentrant;
    resource->name_len = strlen(NAME);
    strcpy(resource->name, NAME);
    hold = (struct relock_hold){.resource = resource, .number = NUMBER, .renewal_ms = 30000};
    memset(&request, 0xff, sizeof(request));
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(resource);
    return 0;
}

static void asks(const struct relock_script *script, size_t n_args, const char *const *args)
{
    const struct relock_call *call = &request.call;

    assert_ptr_equal(call->script, script);
    assert_int_equal(call->key.len, strlen(NAME));
    assert_memory_equal(call->key.data, NAME, strlen(NAME));
    assert_int_equal(call->n_args, n_args);
    for (size_t i = 0; i < n_args; i++) {
        assert_int_equal(call->args[i].len, strlen(args[i]));
        assert_memory_equal(call->args[i].data, args[i], strlen(args[i]));
    }

    /* The optional fields are unset. */
    assert_null(call->fence);
    assert_null(call->reply);
    assert_int_equal(call->min_replicas, 0);
    assert_int_equal(call->acked_replicas, 0);
    assert_false(call->unanswered);
}

#define assert_asks(script, n, ...) asks(&relock_script_##script, n, (const char *[]){__VA_ARGS__})

static void a_lock_request_has_the_lease_the_field_the_count_and_the_entry_in_the_line(void **state)
{
    (void)state;

    relock_request_lock(&request, &hold, 1, 30000, 0, RELOCK_REQUEST_JOINS);
    assert_asks(lock, 6, "30000", FIELD, "1", "", ID, "0");
    hold.number = UINT64_MAX;
    relock_request_lock(&request, &hold, 4294967295, UINT64_MAX, 0, RELOCK_REQUEST_TRIES);
    assert_asks(lock, 3, "18446744073709551615", ID ":18446744073709551615", "4294967295");
}

static void an_unlock_request_has_the_field_the_count_and_the_announcement(void **state)
{
    (void)state;

    relock_request_unlock(&request, &hold, 0, true);
    assert_asks(unlock, 5, FIELD, "0", CHANNEL, "0", ID);
    relock_request_unlock(&request, &hold, 2, false);
    assert_asks(unlock, 4, FIELD, "2", CHANNEL, "0");
}

static void a_renew_request_has_the_lease_and_the_field(void **state)
{
    (void)state;

    relock_request_renew(&request, &hold);
    assert_asks(renew, 2, "30000", FIELD);
}

static void an_extend_request_has_the_lease_the_field_and_the_count(void **state)
{
    (void)state;

    relock_request_extend(&request, &hold, 2, 30000);
    assert_asks(extend, 3, "30000", FIELD, "2");
}

static void an_inspect_request_has_the_field_of_the_caller_if_any(void **state)
{
    (void)state;

    relock_request_inspect(&request, resource, NUMBER);
    assert_asks(inspect, 1, FIELD);
    relock_request_inspect(&request, resource, 0);
    assert_asks(inspect, 1, "");
}

static void a_force_request_has_the_field_of_the_holder_unchanged(void **state)
{
    (void)state;

    relock_request_force_unlock(&request, resource, "other:1234", strlen("other:1"));
    assert_asks(force_unlock, 3, "other:1", CHANNEL, "0");
}

static void is_written_with(bool is_sharded, const char *text)
{
    struct relock_buffer buffer = {0};
    size_t len = strlen(text);

    relock_call_write_args(&request.call, is_sharded, &buffer);
    assert_true(buffer.len > len);
    assert_memory_equal(buffer.data + buffer.len - len, text, len);
    relock_buffer_deinit(&buffer);
}

/* A request may be older than the first map of the slots. */
static void the_command_to_publish_is_chosen_when_a_request_is_written(void **state)
{
    struct relock_topology topology = {.is_cluster = true};

    (void)state;
    client.topology = &topology;
    relock_request_lock(&request, &hold, 1, 30000, 0, RELOCK_REQUEST_TRIES);
    is_written_with(true, "$1\r\n-\r\n$1\r\n0\r\n$8\r\nspublish\r\n");
    is_written_with(false, "$1\r\n-\r\n$1\r\n0\r\n$7\r\npublish\r\n");
    relock_request_unlock(&request, &hold, 0, true);
    is_written_with(true, "$8\r\nspublish\r\n");
    relock_request_leave(&request, &client, NAME, strlen(NAME), NULL);
    is_written_with(true, "$8\r\nspublish\r\n");
    relock_request_force_unlock(&request, resource, FIELD, strlen(FIELD));
    is_written_with(true, "$8\r\nspublish\r\n");
    relock_request_permits(&request, resource, &relock_script_semaphore_permits, "set", 3);
    is_written_with(true, "$8\r\nspublish\r\n");
    relock_request_number(&request, resource, &relock_script_latch_count_down, "0", NULL);
    is_written_with(true, "$8\r\nspublish\r\n");
    relock_request_renew(&request, &hold);
    is_written_with(true, FIELD "\r\n");
    client.topology = NULL;
}

static void a_request_has_room_for_the_longest_name(void **state)
{
    struct relock_resource *longest = calloc(1, sizeof(*longest) + RELOCK_NAME_MAX + 1);
    const struct relock_text *channel = &request.call.args[2];

    (void)state;

    assert_non_null(longest);
    longest->client = &client;
    longest->kind = &relock_kind_reentrant;
    longest->name_len = RELOCK_NAME_MAX;
    memset(longest->name, 'x', RELOCK_NAME_MAX);
    hold = (struct relock_hold){.resource = longest, .number = UINT64_MAX};
    relock_request_unlock(&request, &hold, 0, false);
    assert_int_equal(request.call.key.len, RELOCK_NAME_MAX);
    assert_int_equal(channel->len, strlen("redisson_lock__channel:{}") + RELOCK_NAME_MAX);
    assert_int_equal(channel->data[channel->len - 1], '}');
    free(longest);
}

#define REQUEST_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REQUEST_TEST(a_lock_request_has_the_lease_the_field_the_count_and_the_entry_in_the_line),
        REQUEST_TEST(an_unlock_request_has_the_field_the_count_and_the_announcement),
        REQUEST_TEST(a_renew_request_has_the_lease_and_the_field),
        REQUEST_TEST(an_extend_request_has_the_lease_the_field_and_the_count),
        REQUEST_TEST(an_inspect_request_has_the_field_of_the_caller_if_any),
        REQUEST_TEST(a_force_request_has_the_field_of_the_holder_unchanged),
        REQUEST_TEST(the_command_to_publish_is_chosen_when_a_request_is_written),
        REQUEST_TEST(a_request_has_room_for_the_longest_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
