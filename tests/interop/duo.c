#include "duo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS "=player" /* the name or the user of their connections, in CLIENT LIST */
#define N_SERVERS 5           /* of a quorum */

struct library {
    const char *name;   /* of its folder, which has the program "run" */
    const char *like;   /* for relock_plainlock_like() */
    const char *before; /* the name, in the key */
    bool is_mute;       /* its release does not say whether the hold was lost */
    const char *leaves; /* a key that stays for ever; NULL: none */
};

static const struct library libraries[] = {
    {"redis-py", "redis-py", "", false, NULL},
    {"node-redlock", "node-redlock", "", false, NULL},
    {"redsync", "redsync", "", false, NULL},
    {"bsm-redislock", "bsm-redislock", "", false, NULL},
    {"django-redis", "django-redis", ":1:", false, NULL},
    {"pottery", "pottery", "redlock:", false, NULL},
    {"python-redis-lock", "python-redis-lock", "lock:", false, NULL},
    {"redis-lock", "redis-lock", "lock.", true, NULL},
    {"redis-semaphore", "redis-semaphore", "mutex:", true, NULL},
    {"redlock-py", "redlock-py", "", true, NULL},
    {"redlock-universal", "redlock-universal", "", false, NULL},
    {"rslock", "rslock", "", true, NULL},
    {"rueidislock", "rueidislock", "rueidislock:0:", true, NULL},
    {"sesamecare-redlock", "sesamecare-redlock", "", false, NULL},
    {"shedlock", "shedlock", "job-lock:default:", true, NULL},
    {"simple-redis-mutex", "simple-redis-mutex", "@simple-redis-mutex:lock-", true,
     "@simple-redis-mutex:fencing-tokens"},
    {"spring-integration", "spring-integration:shop", "shop:", false, NULL},
    {"spring-integration-spin", "spring-integration:shop", "shop:", false, NULL},
};

static const struct library *chosen;
static size_t n_servers;
static char folder[4096];

static const struct library *find_library(const char *name)
{
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
        if (strcmp(libraries[i].name, name) == 0)
            return &libraries[i];
    }
    fprintf(stderr, "no library %s\n", name);
    exit(EXIT_FAILURE);
}

void duo_choose(int argc, char **argv)
{
    const char *below = getenv("RELOCK_TEST_INTEROP");
    char built[sizeof(folder) + 8];

    if (argc < 3) {
        fprintf(stderr, "usage: %s plain|quorum LIBRARY\n", argv[0]);
        exit(EXIT_FAILURE);
    }
    n_servers = strcmp(argv[1], "quorum") == 0 ? N_SERVERS : 1;
    chosen = find_library(argv[2]);
    snprintf(folder, sizeof(folder), "%s/%s", below ? below : "", chosen->name);
    snprintf(built, sizeof(built), "%s/built", folder);
    if (!below || access(built, R_OK) != 0) {
        fprintf(stderr, "no %s, which ./tests/run.sh interop builds: skipped\n", chosen->name);
        exit(SERVER_EXIT_SKIP);
    }
}

/* ---- us ------------------------------------------------------------------------------------ */

static void make_clients(struct duo *d, uint64_t watchdog_ms, uint64_t flags)
{
    struct relock_options options = {.watchdog_timeout_ms = watchdog_ms, .handoff_ms = 1};

    options.flags = flags;
    for (size_t i = 0; i < n_servers; i++)
        d->clients[i] = servers_client(d->s, i, &options);
}

void duo_set_watchdog(struct duo *d, uint64_t watchdog_ms)
{
    make_clients(d, watchdog_ms, 0);
}

void duo_set_watchdog_alone(struct duo *d, uint64_t watchdog_ms)
{
    make_clients(d, watchdog_ms, RELOCK_NO_TRACKING);
}

int duo_make_lock(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_plainlock_like(client, chosen->like, name, lock);
}

struct relock_lock *duo_lock(struct duo *d, const char *name)
{
    struct relock_lock *members[SERVERS_MAX];
    struct relock_lock **lock;
    bool is_locked;

    if (!d->clients[0])
        duo_set_watchdog(d, LONG_MS);
    for (size_t i = 0; i < n_servers; i++) {
        members[i] = fixture_lock_of(d->s->f, d->clients[i], name, duo_make_lock);
        assert_result(relock_is_locked(members[i], &is_locked), RELOCK_OK); /* so connected */
    }
    if (n_servers == 1)
        return members[0];

    lock = fixture_place(d->s->f);
    assert_result(relock_redlock_new(members, n_servers, lock), RELOCK_OK);
    return *lock;
}

/* ---- them ---------------------------------------------------------------------------------- */

unsigned duo_begin(struct duo *d, const char *thread, const char *order)
{
    int n = (int)strcspn(order, "%^");
    uint64_t lease_ms = slow_ms(order[n] == '^' ? KEPT_MS : SHORT_MS);

    if (order[n] == '\0')
        return player_begin(d->player, thread, "%s", order);
    return player_begin(d->player, thread, "%.*s%llu%s", n, order, (unsigned long long)lease_ms,
                        order + n + 1);
}

const char *duo_do(struct duo *d, const char *thread, const char *order)
{
    return player_answer(d->player, duo_begin(d, thread, order));
}

struct player *duo_another_player(struct duo *d)
{
    char program[sizeof(folder) + 8];
    const char *argv[1 + SERVERS_MAX + 1] = {program};

    snprintf(program, sizeof(program), "%s/run", folder);
    for (size_t i = 0; i < n_servers; i++)
        argv[1 + i] = d->s->server[i]->tcp_url;
    return player_start(argv);
}

void duo_kill_player(struct duo *d)
{
    player_end(d->player);
    d->player = duo_another_player(d);
}

const char *duo_key(const char *name)
{
    static char key[128];

    snprintf(key, sizeof(key), "%s%s", chosen->before, name);
    return key;
}

bool duo_compares(void)
{
    return strcmp(chosen->name, "redis-lock") != 0;
}

void duo_release_lost(struct duo *d, const char *thread)
{
    assert_string_equal(duo_do(d, thread, "unlock orders"), chosen->is_mute ? "ok" : "not-owner");
}

/* ---- Redis --------------------------------------------------------------------------------- */

void duo_kill(struct duo *d, size_t server)
{
    d->has_killed = true;
    server_kill(d->s->server[server]);
}

size_t duo_quorum(const struct duo *d)
{
    return d->s->n / 2 + 1;
}

size_t duo_n_with_value(struct duo *d, const char *key, const char *value)
{
    size_t n = 0;

    for (size_t i = 0; i < n_servers; i++)
        n += strcmp(probe_text(d->s->probe[i], "GET %s", key), value) == 0;
    return n;
}

size_t duo_n_lasting(struct duo *d, const char *key, uint64_t least_ms, uint64_t most_ms)
{
    size_t n = 0;

    for (size_t i = 0; i < n_servers; i++) {
        long long pttl = probe_pttl(d->s->probe[i], key);

        n += pttl >= (long long)least_ms && pttl <= (long long)most_ms;
    }
    return n;
}

struct expected {
    struct duo *d;
    const char *key;
    size_t n;
};

static bool is_on_so_many(void *arg)
{
    const struct expected *expected = arg;

    return duo_n_lasting(expected->d, expected->key, 1, LONG_MS) == expected->n;
}

bool duo_wait_all(struct duo *d, const char *key)
{
    return wait_until(is_on_so_many, &(struct expected){d, key, n_servers}, SOON_MS);
}

bool duo_wait_none(struct duo *d, const char *key)
{
    return wait_until(is_on_so_many, &(struct expected){d, key, 0}, SOON_MS);
}

void duo_they_exclude_us(struct duo *d, struct relock_lock *lock)
{
    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
    assert_result(relock_timedlock(lock, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

void duo_we_exclude_them(struct duo *d, struct relock_lock *lock)
{
    assert_result(relock_timedlock(lock, SOON_MS), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    assert_true(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

/* ---- around tests -------------------------------------------------------------------------- */

int duo_start(void **state)
{
    struct duo *d = calloc(1, sizeof(*d));
    void *servers;

    if (!d || servers_start_with(&servers, n_servers, NULL) != 0)
        return -1;
    d->s = servers;
    d->s->f->neighbours = CONNECTIONS;
    for (size_t i = 0; i < n_servers; i++)
        probe_int(d->s->probe[i], "ACL SETUSER player on nopass ~* &* +@all");
    d->player = duo_another_player(d);
    *state = d;
    return 0;
}

int duo_stop(void **state)
{
    struct duo *d = *state;
    void *servers = d->s;

    player_end(d->player);
    free(d);
    return servers_stop(&servers);
}

/* Starts a new player if a test has left it busy or not connected to all servers. */
int duo_setup(void **state)
{
    struct duo *d = *state;
    void *servers = d->s;

    memset(d->clients, 0, sizeof(d->clients));
    if (d->has_killed || !player_is_idle(d->player)) {
        player_end(d->player);
        d->player = duo_another_player(d);
        d->has_killed = false;
    }
    return servers_begin(&servers);
}

int duo_teardown(void **state)
{
    struct duo *d = *state;
    void *servers = d->s;

    if (chosen->leaves)
        probe_int(d->s->probe[0], "DEL %s", chosen->leaves);
    return servers_end(&servers);
}
