/*
 * Two to four processes wait for each other: each holds a lock and waits for that of the next one.
 * The row measures how long the library takes to refuse one of them, from the moment when the last
 * wait has lasted for `deadlock_ms`. The processes begin to wait within a quarter of a second.
 */
#include "bare.h"
#include "rows.h"
#include "support/child.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define FEWEST 2
#define MOST 4
#define CYCLES 10    /* in a round */
#define CYCLES_S 0.5 /* shorter rounds have one */
#define DEADLOCK_MS 1000
#define SPREAD_NS 250000000
#define END_MS 60000
#define TARGET_MS 500

/* Memory that all processes share. */
struct ring {
    const char *url;
    unsigned n, n_cycles;
    char names[MOST][NAME_MAX_LEN];
    atomic_uint_fast64_t begun_ns[MOST], refused_ns;
    atomic_uint n_refused;
};

struct place {
    struct ring *ring;
    unsigned at;
};

static void wait_for_the_next(struct place *place, struct relock_lock *has,
                              struct relock_lock *wants)
{
    struct ring *ring = place->ring;
    int r;

    sleep_ns((uint64_t)rand() % SPREAD_NS);
    atomic_store(&ring->begun_ns[place->at], now_ns());
    r = relock_lock(wants);
    if (r == RELOCK_E_DEADLOCK) {
        atomic_store(&ring->refused_ns, now_ns());
        atomic_fetch_add(&ring->n_refused, 1);
    } else {
        ours_must(r, "the next lock");
        ours_give(wants);
    }
    ours_give(has);
}

static int play(struct child *parent, void *arg)
{
    struct place *place = arg;
    struct ring *ring = place->ring;
    struct relock_client *client =
        ours_client_with(ring->url, &(struct relock_options){.deadlock_ms = DEADLOCK_MS,
                                                             .log_level = RELOCK_LOG_ERROR});
    struct relock_lock *has = ours_lock(client, ring->names[place->at]);
    struct relock_lock *wants = ours_lock(client, ring->names[(place->at + 1) % ring->n]);

    srand(place->at + 1);
    for (unsigned i = 0; i < ring->n_cycles; i++) {
        ours_take(has);
        if (!child_send(parent, 0) || !child_await(parent))
            return EXIT_FAILURE;
        wait_for_the_next(place, has, wants);
        if (!child_send(parent, 0) || !child_await(parent))
            return EXIT_FAILURE;
    }
    relock_lock_free(wants);
    relock_lock_free(has);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

/* Waits until all are there, and lets them go on. */
static void meet(struct child **children, unsigned n)
{
    int64_t none;

    for (unsigned i = 0; i < n; i++)
        if (!child_receive_within(children[i], &none, END_MS))
            die("a process does not answer");
    for (unsigned i = 0; i < n; i++)
        if (!child_send(children[i], 0))
            die("a process is gone");
}

static void time_one(struct ring *ring, struct samples *samples)
{
    uint64_t refused_ns = atomic_load(&ring->refused_ns), last_ns = 0, due_ns;

    for (unsigned i = 0; i < ring->n; i++)
        if (atomic_load(&ring->begun_ns[i]) > last_ns)
            last_ns = atomic_load(&ring->begun_ns[i]);
    due_ns = last_ns + DEADLOCK_MS * UINT64_C(1000000);
    samples_add(samples, refused_ns > due_ns ? refused_ns - due_ns : 0);
}

static void measure(struct ring *ring, struct samples *samples)
{
    struct child *children[MOST];
    struct place places[MOST];

    for (unsigned i = 0; i < ring->n; i++) {
        places[i] = (struct place){ring, i};
        row_name(ring->names[i], "ring", i);
        children[i] = child_start(play, &places[i]);
    }
    for (unsigned i = 0; i < ring->n_cycles; i++) {
        meet(children, ring->n);
        meet(children, ring->n);
        if (atomic_exchange(&ring->n_refused, 0) != 1)
            die("not one of %u processes was refused", ring->n);
        time_one(ring, samples);
    }
    for (unsigned i = 0; i < ring->n; i++)
        if (child_wait(children[i], END_MS) != EXIT_SUCCESS)
            die("a process failed");
}

static void measure_size(const struct plan *plan, struct report *report, unsigned n)
{
    struct ring *ring =
        mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct samples samples = {0};
    char id[32], title[96];
    struct result *result;

    if (ring == MAP_FAILED)
        die("out of memory");
    (void)snprintf(id, sizeof(id), "deadlock_%u", n);
    (void)snprintf(title, sizeof(title), "%u processes in a cycle -> RELOCK_E_DEADLOCK", n);
    result = report_add(report, id, title);
    result_add_line(result, "p50", "beyond deadlock_ms, p50", "ms");
    result_add_line(result, "max", "beyond deadlock_ms, longest", "ms");
    result_add_limit(result, 1, AT_MOST, TARGET_MS);
    for (unsigned round = 0; round < plan->long_rounds; round++) {
        ring->url = plan->url;
        ring->n = n;
        ring->n_cycles = plan->long_seconds < CYCLES_S ? 1 : CYCLES;
        samples_clear(&samples);
        measure(ring, &samples);
        series_add(&result->lines[0].series, samples_percentile_us(&samples, 50) / 1000);
        series_add(&result->lines[1].series, samples_percentile_us(&samples, 100) / 1000);
    }
    samples_free(&samples);
    munmap(ring, sizeof(*ring));
}

void row_deadlock(const struct plan *plan, struct report *report)
{
    for (unsigned n = FEWEST; n <= MOST; n++)
        measure_size(plan, report, n);
    row_deadlock_storm(plan, report);
}
