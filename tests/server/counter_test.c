/*
 * Mutual exclusion: a counter in Redis is incremented by a GET and a SET, which only the lock
 * protects. No increment is lost.
 */
#include "support/child.h"
#include "support/fixture.h"

#include <pthread.h>
#include <stdlib.h>

#define N_THREADS 8
#define N_PROCESSES 4
#define N_ROUNDS 1000
#define BUDGET_MS 20000 /* a slower machine does as many as it can */

/* The work of one thread. */
struct work {
    pthread_t thread;
    struct relock_lock *lock;
    const char *path;
    bool own_owner; /* acts for a named owner */
    uint64_t until_ms;
    int rounds; /* done */
    int result; /* the first that was not RELOCK_OK */
};

static bool goes_on(const struct work *work)
{
    int wanted = N_ROUNDS / (int)slow_ms(1) > 20 ? N_ROUNDS / (int)slow_ms(1) : 20;

    return work->result == RELOCK_OK && work->rounds < wanted && now_ms() < work->until_ms;
}

static void increment(struct probe *probe)
{
    long long n = probe_int(probe, "GET counter");

    probe_int(probe, "SET counter %lld", n + 1);
}

static void *count(void *arg)
{
    struct work *work = arg;
    struct relock_how how = {
        .wait_ms = RELOCK_FOREVER,
        .owner = work->own_owner ? relock_owner_new() : 0,
    };
    struct probe *probe = probe_open(work->path);

    while (goes_on(work)) {
        work->result = relock_acquire(work->lock, &how, NULL);
        if (work->result != RELOCK_OK)
            break;
        increment(probe);
        work->rounds++;
        work->result = relock_release(work->lock, how.owner);
    }
    probe_close(probe);
    return NULL;
}

/* Returns the first result that was not RELOCK_OK, and how many increments there are. */
static int count_in_threads(struct relock_lock *lock, const char *path, bool own_owners,
                            int64_t *n_done)
{
    struct work work[N_THREADS];
    uint64_t until_ms = deadline_in(BUDGET_MS);
    int result = RELOCK_OK;

    *n_done = 0;
    for (int i = 0; i < N_THREADS; i++) {
        work[i] = (struct work){
            .lock = lock, .path = path, .own_owner = own_owners, .until_ms = until_ms};
        if (pthread_create(&work[i].thread, NULL, count, &work[i]) != 0)
            abort();
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(work[i].thread, NULL);
        *n_done += work[i].rounds;
        if (result == RELOCK_OK)
            result = work[i].result;
    }
    return result;
}

static int count_in_process(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_client *client = child_client(f, NULL);
    struct relock_lock *lock;
    int64_t n;

    child_must(relock_lock_new(client, "counter lock", &lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    child_must(child_await(parent));

    child_must(count_in_threads(lock, f->server->socket, false, &n) == RELOCK_OK);

    child_must(child_send(parent, n));
    child_must(child_send(parent, (int64_t)stats_of(client).rechecks));
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

static void check_counter(struct fixture *f, int64_t wanted)
{
    assert_true(wanted > 0);
    assert_int_equal(probe_int(f->probe, "GET counter"), wanted);
    probe_int(f->probe, "DEL counter");
}

static void threads_of_one_process_lose_no_increment(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "counter lock");
    int64_t n;

    probe_int(f->probe, "SET counter 0");
    assert_result(count_in_threads(lock, f->server->socket, false, &n), RELOCK_OK);
    check_counter(f, n);
}

static void owners_that_are_named_lose_no_increment(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "counter lock");
    int64_t n;

    probe_int(f->probe, "SET counter 0");
    assert_result(count_in_threads(lock, f->server->socket, true, &n), RELOCK_OK);
    check_counter(f, n);
}

static void threads_of_several_processes_lose_no_increment(void **state)
{
    struct fixture *f = *state;
    struct child *children[N_PROCESSES];
    int64_t n, rechecks, wanted = 0;

    probe_int(f->probe, "SET counter 0");
    for (int i = 0; i < N_PROCESSES; i++)
        children[i] = child_start(count_in_process, f);
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_await(children[i]));
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_send(children[i], 1));
    for (int i = 0; i < N_PROCESSES; i++) {
        assert_true(child_receive_within(children[i], &n, 4 * BUDGET_MS));
        assert_true(child_receive(children[i], &rechecks));
        assert_int_equal(child_wait(children[i], SOON_MS), EXIT_SUCCESS);
        print_message("process %d: %d increments, %d waits ended by recheck\n", i, (int)n,
                      (int)rechecks);
        wanted += n;
    }
    check_counter(f, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(threads_of_one_process_lose_no_increment),
        SERVER_TEST(owners_that_are_named_lose_no_increment),
        SERVER_TEST(threads_of_several_processes_lose_no_increment),
    };

    return SERVER_TESTS_RUN(tests);
}
