/*
 * Mutual exclusion: increments of a counter in Redis, each a plain GET and SET that only the lock
 * protects, are all there at the end.
 */
#include "support/child.h"
#include "support/fixture.h"

#include <pthread.h>
#include <stdlib.h>

#define N_THREADS 8
#define N_PROCESSES 4
#define N_ROUNDS 1000

/* What one thread does. */
struct work {
    pthread_t thread;
    struct relock_lock *lock;
    const char *path;
    bool own_owner; /* names one, instead of being one */
    int rounds;
    int result; /* the first that was not RELOCK_OK */
};

static int rounds(void)
{
    return N_ROUNDS / (int)slow_ms(1) > 20 ? N_ROUNDS / (int)slow_ms(1) : 20;
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

    for (int i = 0; i < work->rounds && work->result == RELOCK_OK; i++) {
        work->result = relock_acquire(work->lock, &how, NULL);
        if (work->result != RELOCK_OK)
            break;
        increment(probe);
        work->result = relock_release(work->lock, how.owner);
    }
    probe_close(probe);
    return NULL;
}

/* Returns the first result that was not RELOCK_OK. */
static int count_in_threads(struct relock_lock *lock, const char *path, bool own_owners, int n)
{
    struct work work[N_THREADS];
    int result = RELOCK_OK;

    for (int i = 0; i < N_THREADS; i++) {
        work[i] = (struct work){.lock = lock, .path = path, .own_owner = own_owners, .rounds = n};
        if (pthread_create(&work[i].thread, NULL, count, &work[i]) != 0)
            abort();
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(work[i].thread, NULL);
        if (result == RELOCK_OK)
            result = work[i].result;
    }
    return result;
}

static int count_in_process(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_options options = {.url = f->server->unix_url,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    struct relock_client *client;
    struct relock_lock *lock;

    child_must(relock_client_new(&options, &client) == RELOCK_OK);
    child_must(relock_lock_new(client, "counter lock", &lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    child_must(child_await(parent));

    child_must(count_in_threads(lock, f->server->socket, false, rounds()) == RELOCK_OK);

    child_must(child_send(parent, (int64_t)stats_of(client).rechecks));
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

static void check_counter(struct fixture *f, long long wanted)
{
    assert_int_equal(probe_int(f->probe, "GET counter"), wanted);
    probe_int(f->probe, "DEL counter");
}

static void threads_of_one_process_lose_no_increment(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "counter lock");
    int n = rounds();

    probe_int(f->probe, "SET counter 0");
    assert_result(count_in_threads(lock, f->server->socket, false, n), RELOCK_OK);
    check_counter(f, (long long)N_THREADS * n);
}

static void owners_that_are_named_lose_no_increment(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "counter lock");
    int n = rounds();

    probe_int(f->probe, "SET counter 0");
    assert_result(count_in_threads(lock, f->server->socket, true, n), RELOCK_OK);
    check_counter(f, (long long)N_THREADS * n);
}

static void threads_of_several_processes_lose_no_increment(void **state)
{
    struct fixture *f = *state;
    struct child *children[N_PROCESSES];
    int64_t rechecks;

    probe_int(f->probe, "SET counter 0");
    for (int i = 0; i < N_PROCESSES; i++)
        children[i] = child_start(count_in_process, f);
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_await(children[i]));
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_send(children[i], 1));
    for (int i = 0; i < N_PROCESSES; i++) {
        assert_true(child_receive_within(children[i], &rechecks, 100000));
        assert_int_equal(child_wait(children[i], SOON_MS), EXIT_SUCCESS);
        print_message("process %d: %d waits ended by recheck\n", i, (int)rechecks);
    }
    check_counter(f, (long long)N_PROCESSES * N_THREADS * rounds());
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
