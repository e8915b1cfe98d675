/* The I/O thread of an idle client, which no timer and no message wakes. */
#include "lock/state/client.h"
#include "support/fixture.h"

#include <stdatomic.h>

#define N_TASKS 1000

static atomic_uint n_ran;

static void run(struct relock_client *client, struct relock_task *task)
{
    (void)client;
    (void)task;
    atomic_fetch_add(&n_ran, 1);
}

static bool have_all_run(void *arg)
{
    (void)arg;
    return atomic_load(&n_ran) == N_TASKS;
}

static void all_tasks_run_at_once_though_they_take_several_turns(void **state)
{
    static struct relock_task tasks[N_TASKS];
    struct relock_client *client = woken_client(*state);

    relock_mutex_lock(&client->mutex);
    for (int i = 0; i < N_TASKS; i++) {
        tasks[i].run = run;
        relock_client_post(client, &tasks[i]);
    }
    relock_mutex_unlock(&client->mutex);
    assert_true(wait_until(have_all_run, NULL, SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(all_tasks_run_at_once_though_they_take_several_turns),
    };

    return SERVER_TESTS_RUN(tests);
}
