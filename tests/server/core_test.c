/*
 * The core alone: a program of all of the library but the layers that hook into it. It links if the
 * core names nothing of them; else the linker says what does.
 */
#include "client.h"
#include "support/ring.h"

/* In place of that of lib/layers.c. */
int relock_client_new(const struct relock_options *options, struct relock_client **client)
{
    return relock_client_make(options, NULL, client);
}

static void a_lock_is_acquired_and_released_without_layers(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void owners_of_a_client_that_wait_for_each_other_are_found_without_layers(void **state)
{
    struct relock_client *client = woken_client(*state);
    struct ring ring = ring_of(*state, (struct relock_client *[]){client, client}, 2);

    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_lock_is_acquired_and_released_without_layers),
        SERVER_TEST(owners_of_a_client_that_wait_for_each_other_are_found_without_layers),
    };

    return SERVER_TESTS_RUN(tests);
}
