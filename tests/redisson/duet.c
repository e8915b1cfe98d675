#include "duet.h"

#include "support/keeping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The counters of fenced locks stay for ever, but not beyond a test. */
static const char delete_counters[] =
    "for _, key in ipairs(redis.call('keys', 'redisson_lock_token:*')) do\n"
    "    redis.call('del', key)\n"
    "end\n";

static const struct duet_kind kinds[] = {
    {"reentrant", relock_lock_new, true},
    {"fenced", relock_fencedlock_new, true},
    {"spin", relock_spinlock_new, false},
    {"fair", relock_fairlock_new, true},
    {"read", relock_rdlock_new, true},
    {"write", relock_wrlock_new, true},
    {"semaphore", relock_semaphore_new, true},
    {"number", NULL, true}, /* no lock: a latch or a semaphore without leases */
};

#define KEEP_MS 3000
#define CLOCK_MS 100 /* the clock of the library is coarse */

/* In a cluster it subscribes and publishes as to a single server. */
#define WITHOUT_SHARDED "3.17.7"

/* It uses sharded channels if any one of the masters owns the slot of an empty name. */
#define GUESSES_SHARDED "3.27.2"

static const struct duet_kind *chosen;
static const char *folder;
static bool in_cluster, is_sharded, keeps;
static struct cluster_options cluster_options = {.masters = 3};

static const struct duet_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    fprintf(stderr, "no kind %s\n", name);
    exit(EXIT_FAILURE);
}

void duet_choose(int argc, char **argv)
{
    const char *version = argc > 2 ? argv[2] : "newest";

    chosen = find_kind(argc > 1 ? argv[1] : "reentrant");
    folder = redisson_find(version);
    in_cluster = argc > 3 && strcmp(argv[3], "cluster") == 0;
    keeps = argc > 3 && strcmp(argv[3], "keep") == 0;
    is_sharded = in_cluster && strcmp(version, WITHOUT_SHARDED) != 0;
    if (strcmp(version, GUESSES_SHARDED) == 0)
        cluster_options = (struct cluster_options){.masters = 1, .replicas = 1};
    if (!folder) {
        print_error("there is no Redisson %s, which ./tests/run.sh redisson builds: skipped\n",
                    version);
        exit(SERVER_EXIT_SKIP);
    }
}

bool duet_is(const struct duet *d, const char *kind)
{
    return strcmp(d->kind->name, kind) == 0;
}

struct probe *duet_probe(struct duet *d, const char *key)
{
    return d->c ? cluster_probe(d->c->cluster, key) : d->f->probe;
}

const char *duet_socket(const struct duet *d)
{
    struct cluster *cluster = d->c ? d->c->cluster : NULL;

    if (!cluster)
        return d->f->server->socket;
    return cluster->node[cluster_owner(cluster, cluster_slot(cluster, "orders"))].server->socket;
}

bool duet_keeps(const struct duet *d)
{
    return keeps && (duet_is(d, "reentrant") || duet_is(d, "spin"));
}

void duet_assert_kept(const struct duet *d, bool is_kept, uint64_t since_ms)
{
    if (is_kept != duet_keeps(d))
        assert_true(duet_keeps(d) && now_ms() + CLOCK_MS > since_ms + KEEP_MS);
}

bool duet_is_sharded(void)
{
    return is_sharded;
}

static struct relock_options options_of(struct duet *d, const struct relock_options *options)
{
    struct relock_options all = *options;

    all.keep_ms = keeps ? KEEP_MS : 0;
    if (!d->c)
        return fixture_options(d->f, &all);
    if (!is_sharded)
        all.url = d->plain_url;
    return clustered_options(d->c, &all);
}

struct relock_client *duet_client_with(struct duet *d, const struct relock_options *options)
{
    struct relock_options all = options_of(d, options);
    struct relock_client *client = fixture_client(d->f, &all);

    if (keeps)
        keeping_await(client);
    return client;
}

struct relock_client *duet_child_client(struct duet *d, const struct relock_options *options)
{
    struct relock_options all = options_of(d, options);

    return child_client(d->f, &all);
}

struct relock_client *duet_client(struct duet *d)
{
    return duet_client_with(d, &(struct relock_options){.recheck_ms = LONG_MS,
                                                        .watchdog_timeout_ms = LONG_MS,
                                                        .handoff_ms = 1});
}

static struct relock_options watched(void)
{
    return (struct relock_options){.watchdog_timeout_ms = slow_ms(WATCHDOG_MS)};
}

struct relock_client *duet_watched_client(struct duet *d)
{
    struct relock_options options = watched();

    return duet_client_with(d, &options);
}

struct relock_lock *duet_lock_of(struct duet *d, const char *kind, struct relock_client *client,
                                 const char *name)
{
    return fixture_lock_of(d->f, client, name, find_kind(kind)->make);
}

struct relock_lock *duet_lock(struct duet *d, struct relock_client *client, const char *name)
{
    return duet_lock_of(d, d->kind->name, client, name);
}

/* ---- Redisson ------------------------------------------------------------------------------ */

unsigned duet_begin(struct duet *d, const char *thread, const char *order)
{
    int verb = (int)strcspn(order, " ");

    return player_begin(d->player, thread, "%.*s %s%s", verb, order, d->kind->name, order + verb);
}

const char *duet_answer(struct duet *d, unsigned order)
{
    return player_answer(d->player, order);
}

const char *duet_do_as(struct duet *d, const char *thread, const char *order)
{
    return player_do(d->player, thread, "%s", order);
}

const char *duet_do(struct duet *d, const char *thread, const char *order)
{
    return duet_answer(d, duet_begin(d, thread, order));
}

bool duet_says_yes(struct duet *d, const char *thread, const char *order)
{
    const char *answer = duet_do(d, thread, order);

    if (strcmp(answer, "yes") == 0)
        return true;
    assert_string_equal(answer, "no");
    return false;
}

struct sleeper {
    struct duet *d;
    struct relock_client *client;
    const char *thread;
};

static bool is_asleep(void *arg)
{
    struct sleeper *sleeper = arg;

    return player_is_asleep(sleeper->d->player, sleeper->thread);
}

static unsigned until_asleep(struct duet *d, const char *thread, unsigned order)
{
    assert_true(wait_until(is_asleep, &(struct sleeper){.d = d, .thread = thread}, SOON_MS));
    assert_true(player_is_busy(d->player, order));
    return order;
}

unsigned duet_begin_wait(struct duet *d, const char *thread, const char *order)
{
    return until_asleep(d, thread, duet_begin(d, thread, order));
}

unsigned duet_begin_wait_as(struct duet *d, const char *thread, const char *order)
{
    return until_asleep(d, thread, player_begin(d->player, thread, "%s", order));
}

/* ---- us ------------------------------------------------------------------------------------ */

static bool has_subscribed(struct duet *d)
{
    struct probe *probe = duet_probe(d, "orders");

    return is_sharded ? probe_n_sharded_channels(probe) > 0 : probe_n_lock_channels(probe) > 0;
}

static bool sleeps_here(void *arg)
{
    struct sleeper *sleeper = arg;
    struct relock_stats stats = stats_of(sleeper->client);

    return stats.waiters == 1 && stats.waits > 0 &&
           (!sleeper->d->kind->publishes || has_subscribed(sleeper->d));
}

bool duet_sleeps(struct duet *d, struct relock_client *client)
{
    return wait_until(sleeps_here, &(struct sleeper){.d = d, .client = client}, SOON_MS);
}

struct holder {
    struct duet *d;
    fixture_constructor_fn *make;
};

static int hold_until_killed(struct child *parent, void *arg)
{
    const struct holder *holder = arg;
    struct relock_options options = watched();
    struct relock_client *client;
    struct relock_lock *lock;
    int64_t never;

    client = duet_child_client(holder->d, &options);
    child_must(holder->make(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, 0));
    child_receive_within(parent, &never, 10 * SOON_MS);
    return EXIT_FAILURE;
}

struct child *duet_start_holder(struct duet *d, fixture_constructor_fn *make)
{
    struct child *child = child_start(hold_until_killed, &(struct holder){d, make});

    assert_true(child_await(child));
    return child;
}

/* ---- around tests -------------------------------------------------------------------------- */

static void start_player(struct duet *d)
{
    const char *url = d->c ? d->c->cluster->url : d->f->server->tcp_url;

    d->player = redisson_start(folder, url, slow_ms(WATCHDOG_MS));
}

static void start_servers(struct duet *d)
{
    void *state;

    if (in_cluster) {
        assert_int_equal(clustered_start_with(&state, &cluster_options), 0);
        d->c = state;
        d->f = d->c->f;
        snprintf(d->plain_url, sizeof(d->plain_url), "%s/?pubsub=plain", d->c->cluster->url);
    } else {
        assert_int_equal(fixture_start_tcp(&state), 0);
        d->f = state;
        d->f->neighbours = REDISSON_CONNECTIONS;
    }
}

int duet_start(void **state)
{
    struct duet *d = calloc(1, sizeof(*d));

    if (!d)
        return -1;
    start_servers(d);
    d->kind = chosen;
    start_player(d);
    *state = d;
    return 0;
}

int duet_stop(void **state)
{
    struct duet *d = *state;
    void *servers = d->c ? (void *)d->c : d->f;
    bool is_cluster = d->c;

    player_end(d->player);
    free(d);
    return is_cluster ? clustered_stop(&servers) : fixture_stop(&servers);
}

/* Starts a new Redisson if a test has ended it or left it busy. */
int duet_setup(void **state)
{
    struct duet *d = *state;
    void *servers = d->c ? (void *)d->c : d->f;

    if (player_is_idle(d->player)) {
        player_forget(d->player);
    } else {
        player_end(d->player);
        start_player(d);
    }
    return d->c ? clustered_begin(&servers) : fixture_begin(&servers);
}

int duet_teardown(void **state)
{
    struct duet *d = *state;
    void *servers = d->c ? (void *)d->c : d->f;

    if (!d->c)
        probe_int(d->f->probe, "EVAL %s 0", delete_counters);
    for (size_t i = 0; d->c && i < d->c->cluster->n; i++)
        probe_int(d->c->cluster->node[i].probe, "EVAL %s 0", delete_counters);
    return d->c ? clustered_end(&servers) : fixture_end(&servers);
}
