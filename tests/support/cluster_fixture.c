#include "support/cluster_fixture.h"

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
    no_keys = wait_until(have_no_keys, c->cluster, SOON_MS);
    if (fixture_end(&f) != 0)
        return -1;
    no_connections = wait_until(have_no_connections, c->cluster, SOON_MS);
    assert_true(no_keys);
    assert_true(no_connections);
    assert_true(have_no_keys(c->cluster));
    return 0;
}
