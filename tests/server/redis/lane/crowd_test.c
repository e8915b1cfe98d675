/* Many threads, few connections: each gets its own replies, also when connections break. */
#include "support/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define N_THREADS 32
#define N_CONNECTIONS 3
#define N_ROUNDS 300
#define MIN_CUTS 3

struct member {
    pthread_t thread;
    struct relock_lock *lock;
    int rounds;
    bool may_fail; /* connections are being cut, at least MIN_CUTS times */
    int result;    /* the first result that is wrong */
};

static atomic_int n_done; /* members */
static atomic_int n_cuts;

static int rounds(void)
{
    return N_ROUNDS / (int)slow_ms(1);
}

/* Acquires its own lock twice and releases it, also if the second level failed. */
static int use(struct relock_lock *lock)
{
    int r = relock_lock(lock), nested, released;

    if (r != RELOCK_OK)
        return r;
    nested = relock_lock(lock);
    if (nested == RELOCK_OK)
        r = relock_unlock(lock);
    released = relock_unlock(lock);
    if (nested != RELOCK_OK)
        return nested;
    return r != RELOCK_OK ? r : released;
}

static bool goes_on(const struct member *member, int round)
{
    return round < member->rounds || (member->may_fail && atomic_load(&n_cuts) < MIN_CUTS);
}

static void *take_membership(void *arg)
{
    struct member *member = arg;

    for (int i = 0; member->result == RELOCK_OK && goes_on(member, i); i++) {
        int r = use(member->lock);

        if (r != RELOCK_OK && !(member->may_fail && r == RELOCK_E_CONN))
            member->result = r;
    }
    atomic_fetch_add(&n_done, 1);
    return NULL;
}

static void start(struct member members[N_THREADS], struct fixture *f, struct relock_client *client,
                  bool may_fail)
{
    atomic_store(&n_done, 0);
    atomic_store(&n_cuts, 0);
    for (int i = 0; i < N_THREADS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "lock-%d", i);
        members[i] = (struct member){
            .lock = fixture_lock(f, client, name),
            .rounds = rounds(),
            .may_fail = may_fail,
        };
    }
    for (int i = 0; i < N_THREADS; i++)
        if (pthread_create(&members[i].thread, NULL, take_membership, &members[i]) != 0)
            abort();
}

static void join(struct member members[N_THREADS])
{
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(members[i].thread, NULL);
    for (int i = 0; i < N_THREADS; i++)
        assert_result(members[i].result, RELOCK_OK);
}

static void each_thread_of_a_crowd_gets_its_own_answers(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.connections = N_CONNECTIONS, .flags = RELOCK_NO_TRACKING};
    struct relock_client *client = fixture_client(f, &options);
    struct member members[N_THREADS];
    long long before = probe_script_calls(f->probe);

    start(members, f, client, false);
    join(members);
    /* Four commands a round, and nothing was asked twice. */
    assert_int_equal(probe_script_calls(f->probe) - before, 4LL * N_THREADS * rounds());
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(stats_of(client).reconnects, 0);
}

static void a_crowd_has_no_more_connections_than_it_may(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.connections = N_CONNECTIONS, .client_name = "crowd"};
    struct relock_client *client = fixture_client(f, &options);
    struct member members[N_THREADS];
    long long most = 0;

    start(members, f, client, false);
    do {
        long long n = probe_n_clients(f->probe, "name=crowd");

        most = n > most ? n : most;
    } while (atomic_load(&n_done) < N_THREADS);
    join(members);
    assert_in_range(most, 1, N_CONNECTIONS + 2); /* the pipeline's and the subscriber's */
}

/* Every connection of the crowd is cut again and again, with or without a command in flight. */
static void a_crowd_goes_on_while_its_connections_are_cut(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.connections = N_CONNECTIONS, .client_name = "crowd"};
    struct relock_client *client = fixture_client(f, &options);
    struct member members[N_THREADS];

    start(members, f, client, true);
    while (atomic_load(&n_done) < N_THREADS) {
        (void)probe_int(f->probe, "CLIENT KILL TYPE normal SKIPME yes");
        atomic_fetch_add(&n_cuts, 1);
        let_pass(3);
    }
    join(members);
    for (int i = 0; i < N_THREADS; i++)
        assert_true(probe_wait_no_key(f->probe, relock_lock_name(members[i].lock), SOON_MS));
    assert_int_equal(stats_of(client).lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_thread_of_a_crowd_gets_its_own_answers),
        SERVER_TEST(a_crowd_has_no_more_connections_than_it_may),
        SERVER_TEST(a_crowd_goes_on_while_its_connections_are_cut),
    };

    return SERVER_TESTS_RUN(tests);
}
