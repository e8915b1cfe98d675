/*
 * Two processes pass one lock to and fro. Before each release the holder waits for the other to
 * fall asleep; passes for which it did not are left out. A pass lasts from before the release call
 * until after the acquire call. One of the two makes bare round trips in between.
 *
 * Then the same with bare connections.
 */
#include "bare.h"
#include "counts.h"
#include "hand.h"
#include "rows.h"
#include "support/child.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PASSES 1000  /* in a round */
#define PASSES_S 0.5 /* shorter rounds have fewer */
#define WARM_UP 20
#define SLICE 100 /* passes, then as many bare round trips */
#define PAUSE_NS 1000000
#define END_MS 30000

enum {
    OURS_P50,
    TIGHT_P50,
    RESTED_P50,
    MESSAGE_P50,
    OURS_P99,
    MESSAGE_P99,
    OURS_SERVER,
    MESSAGE_SERVER,
};

/* Memory that both processes share. */
struct game {
    const struct hand_kind *kind;
    const char *url;
    char name[NAME_MAX_LEN];
    unsigned n_passes;
    atomic_uint_fast64_t given_ns;
    atomic_uint_fast64_t rechecks;
    uint64_t took_ns[WARM_UP + PASSES]; /* 0: the taker had not slept */
    uint64_t n_timed, server_us;        /* of the passes by the process that makes round trips */
};

/* ---- round trips --------------------------------------------------------------------------- */

/*
 * Bare round trips. First in a tight loop, which keeps both ends awake and the caches warm. Then
 * each after a pause, so that it begins like a pass: with both ends asleep.
 */
struct trips {
    struct redisContext *redis;
    struct bare_lock lock;
    struct samples tight, rested;
};

static void make_trips(struct trips *trips, struct samples *samples, unsigned n, uint64_t rest_ns)
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t from_ns;

        if (rest_ns > 0)
            sleep_ns(rest_ns);
        from_ns = now_ns();
        if (!bare_take(trips->redis, &trips->lock))
            die("%s is held by another", trips->lock.name);
        samples_add(samples, now_ns() - from_ns);
        bare_give(trips->redis, &trips->lock);
    }
}

/* The other process sleeps meanwhile. */
static void make_both_trips(struct trips *trips)
{
    make_trips(trips, &trips->tight, SLICE, 0);
    make_trips(trips, &trips->rested, SLICE, PAUSE_NS);
}

/* ---- the game ------------------------------------------------------------------------------ */

static void tell(struct child *other)
{
    if (!child_send(other, 0))
        die("the other process is gone");
}

static void await(struct child *other)
{
    if (!child_await(other))
        die("the other process does not answer");
}

static void receive_lock(struct game *game, struct hand *hand, struct child *other, unsigned pass)
{
    bool slept;
    uint64_t taken_ns;

    tell(other);
    slept = hand->kind->take(hand);
    taken_ns = now_ns();
    game->took_ns[pass] = slept ? taken_ns - atomic_load(&game->given_ns) : 0;
    tell(other);
}

static void hand_over(struct game *game, struct hand *hand, struct child *other,
                      struct redisContext *redis)
{
    struct counts before = {0};

    await(other);
    sleep_ns(PAUSE_NS);
    if (redis) {
        before = counts_now(redis);
        sleep_ns(PAUSE_NS);
    }
    atomic_store(&game->given_ns, now_ns());
    hand->kind->give(hand);
    await(other); /* until it has the lock, this side must not ask for it again */
    if (redis) {
        game->server_us += counts_since(redis, &before).scripts_us;
        game->n_timed++;
    }
}

static void play(struct game *game, struct child *other, unsigned side, struct trips *trips)
{
    struct hand hand = {.kind = game->kind};

    game->kind->open(&hand, game->url, game->name, side);
    if (side == 1) {
        await(other);
        if (hand.kind->take(&hand))
            die("%s is held by another", game->name);
    }
    tell(other);
    if (side == 0)
        await(other);

    for (unsigned pass = 0; pass < game->n_passes; pass++) {
        if (trips && pass % SLICE == 0)
            make_both_trips(trips);
        if (pass % 2 == side)
            receive_lock(game, &hand, other, pass);
        else
            hand_over(game, &hand, other, trips ? trips->redis : NULL);
    }
    if (game->n_passes % 2 != side)
        game->kind->give(&hand);
    atomic_fetch_add(&game->rechecks, game->kind->close(&hand));
}

static int play_first(struct child *parent, void *arg)
{
    play(arg, parent, 0, NULL);
    return EXIT_SUCCESS;
}

/* Returns the waits that ended without a message. */
static uint64_t run_game(const struct plan *plan, const struct hand_kind *kind, unsigned n_passes,
                         struct samples *passes, struct trips *trips, struct series *server)
{
    struct game *game =
        mmap(NULL, sizeof(*game), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct child *child;
    uint64_t rechecks;

    if (game == MAP_FAILED)
        die("out of memory");
    game->kind = kind;
    game->url = plan->url;
    game->n_passes = WARM_UP + n_passes;
    row_name(game->name, "pass", kind == &hand_ours);

    child = child_start(play_first, game);
    play(game, child, 1, trips);
    if (child_wait(child, END_MS) != EXIT_SUCCESS)
        die("the other process failed");
    must_be_gone(trips->redis, game->name);

    samples_clear(passes);
    for (unsigned pass = WARM_UP; pass < game->n_passes; pass++)
        if (game->took_ns[pass] > 0)
            samples_add(passes, game->took_ns[pass]);
    rechecks = atomic_load(&game->rechecks);
    series_add(server, (double)game->server_us / (double)game->n_timed);
    munmap(game, sizeof(*game));
    return rechecks;
}

/* ---- the row ------------------------------------------------------------------------------- */

static struct result *add_result(struct report *report)
{
    struct result *result =
        report_add(report, "passing", "release in one process -> acquired in another");

    result_add_line(result, "relock_p50", "relock, p50", "us");
    result_add_line(result, "tight_p50", "bare EVALSHA in a tight loop, p50", "us");
    result_add_line(result, "rested_p50", "bare EVALSHA after a pause of 1 ms, p50", "us");
    result_add_line(result, "message_p50", "bare, message then EVALSHA, p50", "us");
    result_add_line(result, "relock_p99", "relock, p99", "us");
    result_add_line(result, "message_p99", "bare, message then EVALSHA, p99", "us");
    result_add_line(result, "relock_server", "relock, server time of a pass", "us");
    result_add_line(result, "message_server", "bare, server time of a pass", "us");
    result_add_ratio(result, "relock / round trip in a tight loop", OURS_P50, TIGHT_P50, NO_TARGET,
                     0);
    result_add_ratio(result, "relock / round trip after a pause", OURS_P50, RESTED_P50, NO_TARGET,
                     0);
    result_add_ratio(result, "relock / bare message then EVALSHA", OURS_P50, MESSAGE_P50, AT_MOST,
                     0.9);
    result_add_ratio(result, "the same, p99", OURS_P99, MESSAGE_P99, AT_MOST, 1.2);
    return result;
}

void row_passing(const struct plan *plan, struct report *report)
{
    unsigned n_passes =
        plan->seconds < PASSES_S ? (unsigned)(PASSES * plan->seconds / PASSES_S) + 1 : PASSES;
    struct result *result = add_result(report);
    struct line *lines = result->lines;
    struct trips trips = {.redis = bare_connect(plan->url)};
    struct samples passes = {0};
    char name[NAME_MAX_LEN];
    uint64_t rechecks = 0;
    size_t n_slept = 0;

    row_name(name, "trip", 0);
    bare_lock_init(&trips.lock, name, 1);
    for (unsigned round = 0; round < plan->rounds; round++) {
        samples_clear(&trips.tight);
        samples_clear(&trips.rested);
        rechecks +=
            run_game(plan, &hand_ours, n_passes, &passes, &trips, &lines[OURS_SERVER].series);
        n_slept += passes.n;
        series_add(&lines[OURS_P50].series, samples_percentile_us(&passes, 50));
        series_add(&lines[OURS_P99].series, samples_percentile_us(&passes, 99));

        (void)run_game(plan, &hand_bare, n_passes, &passes, &trips, &lines[MESSAGE_SERVER].series);
        series_add(&lines[MESSAGE_P50].series, samples_percentile_us(&passes, 50));
        series_add(&lines[MESSAGE_P99].series, samples_percentile_us(&passes, 99));
        series_add(&lines[TIGHT_P50].series, samples_percentile_us(&trips.tight, 50));
        series_add(&lines[RESTED_P50].series, samples_percentile_us(&trips.rested, 50));
    }
    result_note(result,
                "passes in which the waiter slept: %zu of %u; waits that ended without a message: "
                "%llu, must be 0",
                n_slept, n_passes * plan->rounds, (unsigned long long)rechecks);
    if (rechecks > 0)
        die("%llu waits ended by recheck: a release was missed", (unsigned long long)rechecks);

    samples_free(&passes);
    samples_free(&trips.tight);
    samples_free(&trips.rested);
    must_be_gone(trips.redis, name);
    bare_close(trips.redis);
}
