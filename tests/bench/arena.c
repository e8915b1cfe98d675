#include "arena.h"

#include "bare.h"
#include "counts.h"
#include "rows.h"
#include "support/child.h"
#include "support/server.h"
#include "turns.h"
#include "waits.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define NODES_MAX CELL_SERVERS_MAX
#define WARM_UP_PART 4 /* part of the longest time */
#define LOOK_NS 1000000
#define START_MS UINT64_C(60000)
#define END_MS 60000

/* Memory that all processes share. */
struct arena {
    const struct cell *cell;
    unsigned n_servers;
    struct server *servers[CELL_SERVERS_MAX]; /* of a red lock; else NULL */
    const char *urls[CELL_SERVERS_MAX];
    char name[NAME_MAX_LEN];
    uint64_t hold_ns;
    atomic_uint n_begun;             /* threads */
    atomic_uint_fast64_t n_recorded; /* acquisitions, counted by the threads */
    struct turns turns;              /* guarded by the lock */
    struct waits waits;
};

/* Connections to all servers or, in a cluster, to its nodes. */
struct nodes {
    struct redisContext *redis[NODES_MAX];
    unsigned n;
};

/* A process. */
struct seat {
    struct arena *arena;
    unsigned number;
    struct child *child;
    struct relock_client *clients[CELL_SERVERS_MAX]; /* of the child */
};

/* A thread of a process. */
struct contender {
    pthread_t thread;
    struct seat *seat;
    struct relock_lock *lock;
    struct relock_cancel *cancel;
};

/* ---- one process --------------------------------------------------------------------------- */

/* How often Redis has granted the lock: the client of one member counts that for a red lock. */
static uint64_t n_granted(const struct seat *seat)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < seat->arena->n_servers; i++)
        n += ours_stats(seat->clients[i]).acquired;
    return n;
}

static void *contend(void *arg)
{
    struct contender *self = arg;
    struct arena *arena = self->seat->arena;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = self->cancel};
    uint64_t n_recorded = 0;

    atomic_fetch_add(&arena->n_begun, 1);
    while (!atomic_load(&arena->turns.over)) {
        uint64_t from_ns = now_ns();
        int r;

        turns_ask(&arena->turns, self->seat->number);
        r = relock_acquire(self->lock, &how, NULL);
        waits_add(&arena->waits, from_ns, now_ns());
        if (r == RELOCK_CANCELLED)
            break;
        ours_must(r, "acquire");
        n_recorded += turns_take(&arena->turns, self->seat->number, n_granted(self->seat));
        if (arena->hold_ns > 0)
            sleep_ns(arena->hold_ns);
        ours_give(self->lock);
    }
    atomic_fetch_add(&arena->n_recorded, n_recorded);
    return NULL;
}

/* Connects, and loads the scripts. */
static void warm_up(struct relock_client *client, unsigned number)
{
    struct relock_lock *lock;
    char name[NAME_MAX_LEN];

    row_name(name, "warm-up", number);
    lock = ours_lock(client, name);
    ours_take(lock);
    ours_give(lock);
    relock_lock_free(lock);
}

static struct relock_lock *open_lock(struct seat *seat)
{
    const struct arena *arena = seat->arena;
    struct relock_lock *members[CELL_SERVERS_MAX], *red;

    for (unsigned i = 0; i < arena->n_servers; i++) {
        seat->clients[i] = ours_client(arena->urls[i]);
        warm_up(seat->clients[i], seat->number);
        members[i] = ours_lock(seat->clients[i], arena->name);
    }
    if (arena->n_servers == 1)
        return members[0];
    ours_must(relock_redlock_new(members, arena->n_servers, &red), "red lock");
    for (unsigned i = 0; i < arena->n_servers; i++)
        relock_lock_free(members[i]);
    return red;
}

static int sit(struct child *parent, void *arg)
{
    struct seat *seat = arg;
    const struct cell *cell = seat->arena->cell;
    struct contender contenders[CELL_THREADS_MAX];
    struct relock_lock *lock = open_lock(seat);
    struct relock_cancel *cancel;

    ours_must(relock_cancel_new(&cancel), "cancel");
    child_must(child_send(parent, 0));
    child_must(child_receive_within(parent, &(int64_t){0}, START_MS));
    for (unsigned i = 0; i < cell->n_threads; i++) {
        contenders[i] = (struct contender){.seat = seat, .lock = lock, .cancel = cancel};
        if (pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]) != 0)
            die("no thread");
    }
    child_must(
        child_receive_within(parent, &(int64_t){0}, 2 * START_MS + (uint64_t)(1000 * cell->max_s)));
    relock_cancel_fire(cancel);
    for (unsigned i = 0; i < cell->n_threads; i++)
        pthread_join(contenders[i].thread, NULL);
    relock_cancel_free(cancel);
    relock_lock_free(lock);
    for (unsigned i = 0; i < seat->arena->n_servers; i++)
        relock_client_free(seat->clients[i]);
    return EXIT_SUCCESS;
}

static struct seat *start(struct arena *arena, unsigned n)
{
    struct seat *seats = calloc(n, sizeof(*seats));

    if (!seats)
        die("out of memory");
    for (unsigned i = 0; i < n; i++) {
        seats[i] = (struct seat){.arena = arena, .number = i};
        seats[i].child = child_start(sit, &seats[i]);
    }
    for (unsigned i = 0; i < n; i++)
        if (!child_receive_within(seats[i].child, &(int64_t){0}, START_MS))
            die("process %u of %u does not come up", i + 1, n);
    return seats;
}

static void tell_all(struct seat *seats, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!child_send(seats[i].child, 0))
            die("process %u of %u is gone", i + 1, n);
}

static void end(struct seat *seats, unsigned n)
{
    tell_all(seats, n);
    for (unsigned i = 0; i < n; i++)
        if (child_wait(seats[i].child, END_MS) != EXIT_SUCCESS)
            die("process %u of %u failed", i + 1, n);
    free(seats);
}

/* ---- the measurement ----------------------------------------------------------------------- */

static void await_all_threads(struct arena *arena)
{
    uint64_t until_ns = now_ns() + START_MS * 1000000;

    while (atomic_load(&arena->n_begun) < arena->cell->n_processes * arena->cell->n_threads) {
        if (now_ns() > until_ns)
            die("only %u threads begin", atomic_load(&arena->n_begun));
        sleep_ns(LOOK_NS);
    }
}

/* Ends when a turn begins, unless it takes too long. A count between two such moments
 * belongs to whole turns. */
static void await_rounds(struct arena *arena, unsigned n_rounds, double min_s, double max_s)
{
    uint64_t until = turns_count(&arena->turns) + (uint64_t)n_rounds * arena->cell->n_processes;
    uint64_t from_ns = now_ns(), max_ns = from_ns + seconds_to_ns(max_s);

    sleep_until_ns(from_ns + seconds_to_ns(min_s));
    if (turns_count(&arena->turns) >= until)
        until = turns_count(&arena->turns) + 1;
    while (turns_count(&arena->turns) < until && now_ns() < max_ns)
        sleep_ns(LOOK_NS);
}

static void measure(struct arena *arena, const struct nodes *nodes, struct counts *counts,
                    double *seconds)
{
    const struct cell *cell = arena->cell;
    struct counts before[NODES_MAX];
    uint64_t from_ns, to_ns;

    await_all_threads(arena);
    await_rounds(arena, 1, 0, cell->max_s / WARM_UP_PART);
    for (unsigned i = 0; i < nodes->n; i++)
        before[i] = counts_now(nodes->redis[i]);
    turns_begin(&arena->turns);
    from_ns = now_ns();
    waits_begin(&arena->waits, from_ns);
    await_rounds(arena, cell->n_rounds, cell->min_s, cell->max_s);
    to_ns = now_ns();
    waits_end(&arena->waits, to_ns);
    turns_end(&arena->turns);
    *seconds = (double)(to_ns - from_ns) / 1e9;
    *counts = (struct counts){0};
    for (unsigned i = 0; i < nodes->n; i++) {
        struct counts here = counts_since(nodes->redis[i], &before[i]);

        counts->scripts += here.scripts;
        counts->publishes += here.publishes;
    }
}

static void write_figures(struct arena *arena, const struct counts *counts, double seconds,
                          double figures[CELL_FIGURES])
{
    struct turns_summary summary = turns_summary(&arena->turns);
    double n = summary.n > 0 ? (double)summary.n : 1;

    figures[CELL_LEAST] = summary.least;
    figures[CELL_LONGEST] = summary.longest;
    figures[CELL_LONGEST_TURNS] = summary.longest_turns;
    figures[CELL_SCRIPTS] = (double)counts->scripts / n;
    figures[CELL_PUBLISHES] = (double)counts->publishes / n;
    figures[CELL_PER_SECOND] = (double)summary.n / seconds;
    figures[CELL_ROUNDS] = summary.rounds;
    figures[CELL_SECONDS] = seconds;
    figures[CELL_LONGEST_WAIT] = summary.longest_wait;
    figures[CELL_WAIT_US] = waits_percentile_us(&arena->waits, 99.9);
}

static void open_servers(struct arena *arena, const char *url)
{
    arena->n_servers = arena->cell->n_servers > 0 ? arena->cell->n_servers : 1;
    arena->urls[0] = url;
    for (unsigned i = 0; i < arena->cell->n_servers; i++) {
        arena->servers[i] = server_start(NULL);
        if (!arena->servers[i])
            die("there is no redis-server and no valkey-server");
        arena->urls[i] = arena->servers[i]->unix_url;
    }
}

static void open_nodes(const struct arena *arena, struct nodes *nodes)
{
    for (unsigned i = 0; i < arena->n_servers; i++)
        nodes->n += bare_connect_all(arena->urls[i], &nodes->redis[nodes->n], NODES_MAX - nodes->n);
}

static void close_nodes(const struct arena *arena, struct nodes *nodes)
{
    for (unsigned i = 0; i < nodes->n; i++) {
        must_be_gone(nodes->redis[i], arena->name);
        bare_close(nodes->redis[i]);
    }
    for (unsigned i = 0; i < arena->n_servers; i++)
        server_stop(arena->servers[i]);
}

void arena_run(const struct cell *cell, const char *url, double figures[CELL_FIGURES])
{
    struct arena *arena =
        mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct nodes nodes = {0};
    struct counts counts;
    struct seat *seats;
    double seconds;

    if (arena == MAP_FAILED)
        die("out of memory");
    arena->cell = cell;
    open_servers(arena, url);
    open_nodes(arena, &nodes);
    arena->hold_ns = seconds_to_ns(cell->hold_ms / 1000);
    row_name(arena->name, "contend", 0);
    turns_init(&arena->turns, cell->n_processes);

    seats = start(arena, cell->n_processes);
    tell_all(seats, cell->n_processes);
    measure(arena, &nodes, &counts, &seconds);
    end(seats, cell->n_processes);
    close_nodes(arena, &nodes);
    if (arena->turns.n != arena->n_recorded)
        die("two were inside at once: some acquisitions are missing");
    write_figures(arena, &counts, seconds, figures);
    munmap(arena, sizeof(*arena));
}
