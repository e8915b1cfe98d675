/* A waiter sends nothing while it waits, however many wait and however long. */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <stdlib.h>

#define N_PROCESSES 2
#define N_THREADS 32
#define WAIT_MS 10000
#define RECHECK_MS 5000 /* the default */
#define N_CALLS 4       /* in addition: two tries, one as first or second, one to leave the line */

static int wait_in_threads(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_client *client = child_client(f, NULL);
    struct relock_lock *lock;
    struct actor *waiting[N_THREADS];

    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(child_await(parent));
    for (int i = 0; i < N_THREADS; i++) {
        waiting[i] = actor_start();
        actor_begin_timedlock(waiting[i], lock, WAIT_MS);
    }
    for (int i = 0; i < N_THREADS; i++)
        child_must(actor_result_within(waiting[i], 3 * (uint64_t)WAIT_MS) == RELOCK_TIMEOUT);

    child_must(child_send(parent, (int64_t)stats_of(client).waits));
    child_must(child_await(parent));
    relock_client_free(client);
    relock_lock_free(lock);
    return EXIT_SUCCESS;
}

static void ten_seconds_of_waiting_are_a_handful_of_commands(void **state)
{
    struct fixture *f = *state;
    struct child *children[N_PROCESSES];
    long long before, calls;
    uint64_t began_ms, n_rechecks;

    assert_true(peer_lock(f->probe, "orders", PEER, 10 * (uint64_t)WAIT_MS));
    for (int i = 0; i < N_PROCESSES; i++)
        children[i] = child_start(wait_in_threads, f);
    before = probe_script_calls(f->probe);
    began_ms = now_ms();
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_send(children[i], 1));
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_receive_within(children[i], &(int64_t){0}, 4 * (uint64_t)WAIT_MS));
    calls = probe_script_calls(f->probe) - before;
    n_rechecks = (now_ms() - began_ms) / RECHECK_MS;
    print_message("%d processes x %d threads, %d ms: %lld script calls\n", N_PROCESSES, N_THREADS,
                  WAIT_MS, calls);

    assert_true(calls >= N_PROCESSES);
    assert_true(calls <= (long long)(N_CALLS + n_rechecks) * N_PROCESSES);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    for (int i = 0; i < N_PROCESSES; i++) {
        assert_true(child_send(children[i], 1));
        assert_int_equal(child_wait(children[i], SOON_MS), EXIT_SUCCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(ten_seconds_of_waiting_are_a_handful_of_commands),
    };

    return SERVER_TESTS_RUN(tests);
}
