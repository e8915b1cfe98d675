/*
 * Two processes pass one lock to and fro. Before each release the holder leaves the other the time
 * to fall asleep over it; a pass for which it did not is left out. The release is the moment before
 * the call, the acquire the moment after. One of the two makes bare round trips in between.
 *
 * The same is done with bare connections, a message and an EVALSHA: no lock that wakes by a message
 * can be quicker than that.
 */
#include "bare.h"
#include "rows.h"
#include "support/child.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PASSES 1000  /* in a round */
#define PASSES_S 0.5 /* fewer in shorter rounds */
#define WARM_UP 20
#define SLICE 100 /* passes, before as many bare round trips */
#define PAUSE_NS 1000000
#define END_MS 30000

enum {
    OURS_P50,
    ROUND_TRIP_P50,
    OURS_P99,
    MESSAGE_P50,
    RESTED_P50,
};

/* A process' way to take and give the one lock. */
struct hand {
    const struct hand_kind *kind;
    struct relock_client *client; /* ours */
    struct relock_lock *lock;
    struct redisContext *redis, *subscriber; /* bare */
    struct bare_lock bare_lock;
};

struct hand_kind {
    void (*open)(struct hand *hand, const char *url, const char *name, unsigned side);
    bool (*take)(struct hand *hand); /* whether it slept meanwhile */
    void (*give)(struct hand *hand);
    uint64_t (*close)(struct hand *hand); /* returns how often it asked without being woken */
};

/* What both processes see. */
struct game {
    const struct hand_kind *kind;
    const char *url;
    char name[NAME_MAX_LEN];
    unsigned n_passes;
    atomic_uint_fast64_t given_ns;
    atomic_uint_fast64_t rechecks;
    uint64_t took_ns[WARM_UP + PASSES]; /* 0: who took it had not slept */
};

/* ---- with the library ---------------------------------------------------------------------- */

static void open_ours(struct hand *hand, const char *url, const char *name, unsigned side)
{
    (void)side;
    hand->client = ours_client(url);
    hand->lock = ours_lock(hand->client, name);
}

static bool take_ours(struct hand *hand)
{
    uint64_t waits = ours_stats(hand->client).waits;

    ours_take(hand->lock);
    return ours_stats(hand->client).waits > waits;
}

static void give_ours(struct hand *hand)
{
    ours_give(hand->lock);
}

static uint64_t close_ours(struct hand *hand)
{
    uint64_t rechecks = ours_stats(hand->client).rechecks;

    relock_lock_free(hand->lock);
    relock_client_free(hand->client);
    return rechecks;
}

static const struct hand_kind ours = {open_ours, take_ours, give_ours, close_ours};

/* ---- with bare connections ----------------------------------------------------------------- */

static void open_bare(struct hand *hand, const char *url, const char *name, unsigned side)
{
    hand->redis = bare_connect(url);
    hand->subscriber = bare_connect(url);
    bare_lock_init(&hand->bare_lock, name, side + 1);
    bare_subscribe(hand->subscriber, &hand->bare_lock);
}

static bool take_bare(struct hand *hand)
{
    bool slept = false;

    /* Its own release before this was announced to it too, and costs a try that is not measured:
     * it falls into the pause of the holder. */
    while (!bare_take(hand->redis, &hand->bare_lock)) {
        bare_await_message(hand->subscriber);
        slept = true;
    }
    return slept;
}

static void give_bare(struct hand *hand)
{
    bare_give(hand->redis, &hand->bare_lock);
}

static uint64_t close_bare(struct hand *hand)
{
    bare_close(hand->redis);
    bare_close(hand->subscriber);
    return 0;
}

static const struct hand_kind bare = {open_bare, take_bare, give_bare, close_bare};

/* ---- round trips ---------------------------------------------------------------------------- */

/* One bare round trip, again and again. */
struct trips {
    struct redisContext *redis;
    struct bare_lock lock;
    struct samples samples;
};

static void make_trips(struct trips *trips, unsigned n, uint64_t pause_ns)
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t from_ns;

        if (pause_ns > 0)
            sleep_ns(pause_ns);
        from_ns = now_ns();
        if (!bare_take(trips->redis, &trips->lock))
            die("%s is held by another", trips->lock.name);
        samples_add(&trips->samples, now_ns() - from_ns);
        bare_give(trips->redis, &trips->lock);
    }
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

static void hand_over(struct game *game, struct hand *hand, struct child *other)
{
    await(other);
    sleep_ns(PAUSE_NS);
    atomic_store(&game->given_ns, now_ns());
    hand->kind->give(hand);
    await(other); /* before it has the lock, this side must not ask for it again */
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
            make_trips(trips, SLICE, 0); /* the other one sleeps meanwhile */
        if (pass % 2 == side)
            receive_lock(game, &hand, other, pass);
        else
            hand_over(game, &hand, other);
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
                         struct samples *passes, struct trips *trips)
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
    row_name(game->name, "pass", kind == &ours);

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
    munmap(game, sizeof(*game));
    return rechecks;
}

/* ---- the row ------------------------------------------------------------------------------- */

static void add_lines(struct result *result)
{
    snprintf(result->title, sizeof(result->title), "release in one process -> acquired in another");
    result_add_line(result, "relock_p50", "relock, p50");
    result_add_line(result, "round_trip_p50", "bare EVALSHA, p50");
    result_add_line(result, "relock_p99", "relock, p99");
    result_add_line(result, "message_p50", "bare, message then EVALSHA, p50");
    result_add_line(result, "rested_p50", "bare EVALSHA after 1 ms of rest, p50");
}

void row_passing(const struct plan *plan, struct report *report)
{
    unsigned n_passes =
        plan->seconds < PASSES_S ? (unsigned)(PASSES * plan->seconds / PASSES_S) + 1 : PASSES;
    struct result *result = report_add(report, "passing", "us", LOWER_IS_BETTER, 2.5);
    struct line *lines = result->lines;
    struct trips trips = {.redis = bare_connect(plan->url)};
    struct samples passes = {0};
    char name[NAME_MAX_LEN];
    uint64_t rechecks = 0;
    size_t n_slept = 0;

    add_lines(result);
    row_name(name, "trip", 0);
    bare_lock_init(&trips.lock, name, 1);
    for (unsigned round = 0; round < plan->rounds; round++) {
        samples_clear(&trips.samples);
        rechecks += run_game(plan, &ours, n_passes, &passes, &trips);
        n_slept += passes.n;
        series_add(&lines[OURS_P50].series, samples_percentile_us(&passes, 50));
        series_add(&lines[OURS_P99].series, samples_percentile_us(&passes, 99));
        series_add(&lines[ROUND_TRIP_P50].series, samples_percentile_us(&trips.samples, 50));

        (void)run_game(plan, &bare, n_passes, &passes, &trips);
        series_add(&lines[MESSAGE_P50].series, samples_percentile_us(&passes, 50));
        samples_clear(&trips.samples);
        make_trips(&trips, n_passes, PAUSE_NS);
        series_add(&lines[RESTED_P50].series, samples_percentile_us(&trips.samples, 50));
    }
    snprintf(result->note, sizeof(result->note), "passes %zu of %u; stats.rechecks %llu, must be 0",
             n_slept, n_passes * plan->rounds, (unsigned long long)rechecks);
    if (rechecks > 0)
        die("%llu waits ended by recheck: a release was missed", (unsigned long long)rechecks);

    samples_free(&passes);
    samples_free(&trips.samples);
    must_be_gone(trips.redis, name);
    bare_close(trips.redis);
}
