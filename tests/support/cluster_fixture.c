#include "support/cluster_fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

struct relock_options clustered_options(struct clustered *c, const struct relock_options *options)
{
    struct relock_options all = options ? *options : (struct relock_options){0};

    if (!all.url && c->cluster->tls_url[0]) {
        all.url = c->cluster->tls_url;
        if (!all.tls_ca_file)
            all.tls_ca_file = c->cluster->ca_file;
    }
    if (!all.url)
        all.url = c->cluster->url;
    return fixture_options(c->f, &all);
}

struct relock_client *clustered_client(struct clustered *c, const struct relock_options *options)
{
    struct relock_options all = clustered_options(c, options);

    return fixture_client(c->f, &all);
}

size_t clustered_other(struct clustered *c, int slot)
{
    struct cluster_view view;

    cluster_view_any(c->cluster, &view);
    for (size_t i = 0; i < c->cluster->n; i++)
        if (view.master[i] == (signed char)i && view.owner[slot] != (signed char)i)
            return i;
    cluster_must(false, "there is one master only");
    return 0;
}

struct clustered_lock clustered_lock(struct clustered *c, uint64_t lease_ms)
{
    const struct relock_options options = {.watchdog_timeout_ms = slow_ms(lease_ms),
                                           .connect_timeout_ms = slow_ms(1000)};
    struct clustered_lock lock = {.slot = cluster_slot(c->cluster, "orders")};

    lock.owner = cluster_owner(c->cluster, lock.slot);
    lock.client = clustered_client(c, &options);
    lock.lock = fixture_lock(c->f, lock.client, "orders");
    return lock;
}

void clustered_lock_all(struct clustered *c, struct relock_client *client,
                        struct relock_lock *locks[CLUSTERED_LOCKS])
{
    char name[16];

    for (int i = 0; i < CLUSTERED_LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        locks[i] = fixture_lock(c->f, client, name);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
        assert_int_equal(probe_int(cluster_probe(c->cluster, name), "EXISTS %s", name), 1);
    }
}

void clustered_unlock_all(struct relock_lock *locks[CLUSTERED_LOCKS])
{
    for (int i = 0; i < CLUSTERED_LOCKS; i++)
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
}

void clustered_kill(struct clustered *c, size_t master)
{
    cluster_await_copy(c->cluster, master);
    server_kill(c->cluster->node[master].server);
    cluster_await(c->cluster);
}

/* ---- around the program -------------------------------------------------------------------- */

int clustered_start_with(void **state, const struct cluster_options *options)
{
    struct clustered *c = calloc(1, sizeof(*c));
    void *f;

    if (!c || fixture_start(&f) != 0)
        return -1;
    c->f = f;
    c->cluster = cluster_start(options);
    if (!c->cluster)
        fixture_skip();
    *state = c;
    return 0;
}

int clustered_start(void **state)
{
    return clustered_start_with(state, NULL);
}

int clustered_stop(void **state)
{
    struct clustered *c = *state;
    void *f = c->f;

    cluster_stop(c->cluster);
    free(c);
    return fixture_stop(&f);
}

/* ---- around each test ---------------------------------------------------------------------- */

/* All probes are connected after that, so their descriptors do not count as leaks. */
int clustered_begin(void **state)
{
    struct clustered *c = *state;
    void *f = c->f;
    struct cluster_view view;

    cluster_mend(c->cluster);
    cluster_view_any(c->cluster, &view);
    for (size_t i = 0; i < c->cluster->n; i++)
        if (view.master[i] == (signed char)i)
            probe_int(c->cluster->node[i].probe, "FLUSHALL");
    return fixture_begin(&f);
}

static bool have_no_keys(void *arg)
{
    const struct cluster *cluster = arg;
    bool none = true;

    for (size_t i = 0; i < cluster->n && none; i++)
        none = probe_n_keys(cluster->node[i].probe) == 0;
    return none;
}

static void print_keys_of(struct probe *probe)
{
    redisReply *keys = probe_reply(probe, "KEYS *");

    for (size_t i = 0; keys && i < keys->elements; i++)
        printf("left: %s\n", keys->element[i]->str);
    freeReplyObject(keys);
}

static void print_keys(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++)
        print_keys_of(cluster->node[i].probe);
}

/* The nodes also have connections with each other. */
static bool have_no_connections(void *arg)
{
    const struct cluster *cluster = arg;
    bool none = true;

    for (size_t i = 0; i < cluster->n && none; i++)
        none = probe_n_clients(cluster->node[i].probe, " name=relock:") == 0;
    return none;
}

int clustered_end(void **state)
{
    struct clustered *c = *state;
    void *f = c->f;
    bool no_keys, no_connections;

    cluster_mend(c->cluster);
    fixture_give_back_kept(f);
    no_keys = wait_until(have_no_keys, c->cluster, SOON_MS);
    if (fixture_end(&f) != 0)
        return -1;
    no_connections = wait_until(have_no_connections, c->cluster, SOON_MS);
    late_is_leak();
    if (late_has_failed())
        return 0;
    if (!no_keys)
        print_keys(c->cluster);
    assert_true(no_keys);
    assert_true(no_connections);
    assert_true(have_no_keys(c->cluster));
    return 0;
}
