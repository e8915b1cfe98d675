/*
 * Repeated use does not grow: ten rounds of the same, and after each as much is
 * open, in memory and in Redis as there was after the first.
 *
 *     growth_test        10,000 clients made and freed, 1,000,000 levels taken and released
 *     growth_test short  a fiftieth of that, as where programs run slowly
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"
#include "support/sanitizer.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define N_ROUNDS 10 /* and one before, to warm up */
#define N_THREADS 8
#define N_CLIENTS 2
#define N_CONNECTIONS (N_CLIENTS * (4 + 2)) /* lanes; renewals, subscriptions */
#define BREAK_MS 150

/* Memory that allocators keep, for each thread and in total. */
#define HEAP_ROOM (256 * 1024)
#define RSS_ROOM (8 * 1024 * 1024)

static unsigned part = 1; /* the whole number is divided by this */

/* ---- samples ------------------------------------------------------------------------------- */

struct sample {
    struct leaks open;
    size_t heap, rss;
    long long keys, channels, connections;
};

static size_t rss_now(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all = 0, resident = 0;

    if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static bool is_quiet(void *probe)
{
    return probe_n_keys(probe) == 0 && probe_n_lock_channels(probe) == 0;
}

/* Once unused subscriptions have ended. */
static struct sample take_sample(struct fixture *f, const char *what, unsigned round)
{
    struct sample now;

    assert_true(wait_until(is_quiet, f->probe, SOON_MS));
    now = (struct sample){
        .open = leaks_now(),
        .heap = mallinfo2().uordblks,
        .rss = rss_now(),
        .keys = probe_n_keys(f->probe),
        .channels = probe_n_channels(f->probe),
        .connections = probe_n_clients(f->probe, ""),
    };
    print_message("%s, round %2u: fds %zu, threads %zu, heap %zu, rss %zu, connections %lld\n",
                  what, round, now.open.n_fds, now.open.n_threads, now.heap, now.rss,
                  now.connections);
    return now;
}

/* A thread that has been joined may stand in /proc for a moment more. */
static bool has_no_more_threads(void *arg)
{
    const struct sample *since = arg;

    return leaks_now().n_threads <= since->open.n_threads;
}

/* `n_open`: how many connections may have been open or closed when it was taken. */
static void has_not_grown(struct sample *since, const struct sample *now, size_t n_open)
{
    assert_true(now->open.n_fds <= since->open.n_fds + n_open);
    assert_true(wait_until(has_no_more_threads, since, SOON_MS));
    assert_true(now->connections <= since->connections + (long long)n_open);
    if (UNDER_ASAN || UNDER_TSAN)
        return;
    assert_true(now->heap <= since->heap + HEAP_ROOM);
    assert_true(now->rss <= since->rss + RSS_ROOM);
}

/* ---- the threads --------------------------------------------------------------------------- */

struct team {
    struct fixture *f;
    atomic_bool breaking;
    atomic_uint n_lost;
    struct worker {
        struct team *team;
        struct actor *actor;
        struct relock_lock *own, *shared;
        unsigned n, seed; /* to do in a round */
    } workers[N_THREADS];
};

/* Threads look at it even after a test has failed and its frame is gone. */
static struct team *new_team(struct fixture *f)
{
    static struct team team;

    team = (struct team){.f = f};
    return &team;
}

static void count_loss(const struct relock_lost *what, void *arg)
{
    (void)what;
    atomic_fetch_add(&((struct team *)arg)->n_lost, 1);
}

static struct relock_options options_of(struct team *team)
{
    return (struct relock_options){.url = team->f->server->unix_url,
                                   .watchdog_timeout_ms = slow_ms(30000),
                                   .connect_timeout_ms = slow_ms(SOON_MS),
                                   .command_timeout_ms = slow_ms(20000),
                                   .on_log = log_drop,
                                   .on_lost = count_loss,
                                   .arg = team};
}

/* Ends all connections of the clients, now and then. */
static int break_connections(void *arg)
{
    struct team *team = arg;
    struct probe *probe = probe_open(team->f->server->socket);

    while (team->breaking) {
        let_pass(BREAK_MS);
        (void)probe_int(probe, "CLIENT KILL TYPE normal SKIPME yes");
        (void)probe_int(probe, "CLIENT KILL TYPE pubsub");
    }
    probe_close(probe);
    return 0;
}

/* Runs a step in all threads while connections break, and waits for their end. */
static void do_round(struct team *team, actor_step_fn *step)
{
    struct actor *breaker = actor_start();

    team->breaking = true;
    actor_begin(breaker, break_connections, team);
    for (int i = 0; i < N_THREADS; i++) {
        team->workers[i].actor = actor_start();
        actor_begin(team->workers[i].actor, step, &team->workers[i]);
    }
    for (int i = 0; i < N_THREADS; i++)
        assert_result(actor_result_within(team->workers[i].actor, 30 * (uint64_t)SOON_MS),
                      RELOCK_OK);
    team->breaking = false;
    assert_int_equal(actor_result(breaker), 0);
    actor_end_all();
}

/* ---- locks --------------------------------------------------------------------------------- */

static int release(struct relock_lock *lock, unsigned levels)
{
    int r = RELOCK_OK;

    while (levels-- > 0 && r == RELOCK_OK)
        r = relock_unlock(lock);
    return r;
}

/* One in eight acquires nests, and one in eight contends with all other threads. */
static int lock_and_unlock(void *arg)
{
    struct worker *worker = arg;
    int r = RELOCK_OK;

    for (unsigned done = 0, i = 0; done < worker->n && r == RELOCK_OK; i++) {
        struct relock_lock *lock = i % 8 == 7 ? worker->shared : worker->own;
        unsigned levels = i % 8 == 3 ? 2 : 1;

        for (unsigned level = 0; level < levels && r == RELOCK_OK; level++)
            r = relock_lock(lock);
        if (r == RELOCK_OK)
            r = release(lock, levels);
        done += levels;
    }
    return r;
}

static void a_million_levels_leave_nothing_behind(void **state)
{
    struct team *team = new_team(*state);
    struct relock_options options = options_of(team);
    struct relock_client *clients[N_CLIENTS];
    struct sample first = {0}, now;

    for (int i = 0; i < N_CLIENTS; i++)
        clients[i] = fixture_client(team->f, &options);
    for (int i = 0; i < N_THREADS; i++) {
        struct relock_client *client = clients[i % N_CLIENTS];
        char name[16];

        snprintf(name, sizeof(name), "own:%d", i);
        team->workers[i] = (struct worker){.team = team,
                                           .n = 1000000 / part / N_THREADS / N_ROUNDS,
                                           .own = fixture_lock(team->f, client, name),
                                           .shared = fixture_lock(team->f, client, "shared")};
    }
    for (unsigned round = 0; round <= N_ROUNDS; round++) {
        do_round(team, lock_and_unlock);
        now = take_sample(team->f, "levels", round);
        if (round == 0)
            first = now;
        has_not_grown(&first, &now, N_CONNECTIONS);
    }
    assert_int_equal(team->n_lost, 0);
    for (int i = 0; i < N_CLIENTS; i++)
        assert_int_equal(stats_of(clients[i]).holds, 0);
}

/* ---- clients ------------------------------------------------------------------------------- */

/* Acquires, nests, and waits in vain behind a peer, so that the client ends with a subscription. */
static int use_client(struct relock_client *client, const char *name, unsigned i)
{
    struct relock_lock *lock = NULL, *busy = NULL;
    int r = relock_lock_new(client, name, &lock);

    if (r == RELOCK_OK)
        r = relock_lock_new(client, "busy", &busy);
    if (r == RELOCK_OK)
        r = relock_lock(lock);
    if (r == RELOCK_OK && i % 2 == 0)
        r = relock_lock(lock);
    if (r == RELOCK_OK && i % 4 == 0) {
        r = relock_timedlock(busy, 3);
        if (r == RELOCK_TIMEOUT || r == RELOCK_E_CONN) /* a busy server takes longer than that */
            r = RELOCK_OK;
    }
    if (r == RELOCK_OK)
        r = release(lock, i % 2 == 0 ? 2 : 1);
    relock_lock_free(lock);
    relock_lock_free(busy);
    return r;
}

static int make_use_and_free(void *arg)
{
    struct worker *worker = arg;
    struct relock_options options = options_of(worker->team);
    char name[16];
    int r = RELOCK_OK;

    snprintf(name, sizeof(name), "own:%u", worker->seed);
    for (unsigned i = 0; i < worker->n && r == RELOCK_OK;) {
        struct relock_client *client;

        r = relock_client_new(&options, &client);
        if (r == RELOCK_E_CONN) {
            r = RELOCK_OK; /* its first connection was cut */
            continue;
        }
        if (r == RELOCK_OK)
            r = use_client(client, name, i++);
        if (r == RELOCK_OK || i > 0)
            relock_client_free(client);
    }
    return r;
}

static void ten_thousand_clients_leave_nothing_behind(void **state)
{
    struct team *team = new_team(*state);
    struct sample first = {0}, now;

    for (unsigned i = 0; i < N_THREADS; i++)
        team->workers[i] =
            (struct worker){.team = team, .seed = i, .n = 10000 / part / N_THREADS / N_ROUNDS};
    for (unsigned round = 0; round <= N_ROUNDS; round++) {
        assert_true(peer_lock(team->f->probe, "busy", PEER, 600000));
        do_round(team, make_use_and_free);
        assert_true(peer_unlock(team->f->probe, "busy", PEER));
        now = take_sample(team->f, "clients", round);
        if (round == 0)
            first = now;
        has_not_grown(&first, &now, 0);
    }
    assert_int_equal(team->n_lost, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_million_levels_leave_nothing_behind),
        SERVER_TEST(ten_thousand_clients_leave_nothing_behind),
    };

    if ((argc > 1 && strcmp(argv[1], "short") == 0) || slow_ms(1) > 1)
        part = 50;
    if (nice(10) < 0) /* other tests of this run measure time */
        return 1;
    return SERVER_TESTS_RUN(tests);
}
