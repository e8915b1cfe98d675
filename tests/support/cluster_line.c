#include "support/cluster_line.h"

#include "support/probe_counts.h"
#include "support/wait.h"

#include <stdio.h>
#include <string.h>

struct relock_client *cluster_line_client_with(struct clustered *c, const char *query,
                                               struct relock_options options)
{
    char url[300];

    options.url = url;
    options.recheck_ms = NEVER_MS;
    options.watchdog_timeout_ms = NEVER_MS;
    options.command_timeout_ms = 20000;
    options.handoff_ms = 1;
    options.flags |= RELOCK_ANNOUNCE_PLAIN;
    (void)snprintf(url, sizeof(url), "%s%s", clustered_options(c, NULL).url, query);
    if (c->cluster->tls_url[0])
        options.tls_ca_file = c->cluster->ca_file;
    return clustered_client(c, &options);
}

struct relock_client *cluster_line_client(struct clustered *c, const char *query)
{
    return cluster_line_client_with(c, query, (struct relock_options){0});
}

/* A name with a `{` has a tag. */
static void key_of_line(const char *name, char key[128])
{
    bool has_tag = strchr(name, '{') != NULL;

    (void)snprintf(key, 128, "relock_waiters:%s%s%s:cluster", has_tag ? ":" : "{", name,
                   has_tag ? "" : "}");
}

long long cluster_line_length(struct clustered *c, const char *name)
{
    char key[128];

    key_of_line(name, key);
    return probe_int(cluster_probe(c->cluster, name), "LLEN %s", key);
}

struct expected {
    struct clustered *c;
    const char *name;
    long long n;
};

static bool has_length(void *arg)
{
    const struct expected *expected = arg;

    return cluster_line_length(expected->c, expected->name) == expected->n;
}

bool cluster_line_wait(struct clustered *c, const char *name, long long n)
{
    return wait_until(has_length, &(struct expected){c, name, n}, SOON_MS);
}

struct actor *cluster_line_begin(struct clustered *c, struct relock_lock *lock, long long n)
{
    struct actor *actor = actor_start();

    actor_begin_lock(actor, lock);
    assert_true(cluster_line_wait(c, "orders", n));
    return actor;
}

long long cluster_line_scripts(struct clustered *c)
{
    long long n = 0;

    for (size_t i = 0; i < c->cluster->n; i++)
        if (cluster_is_up(c->cluster, i))
            n += probe_script_calls(c->cluster->node[i].probe);
    return n;
}

int cluster_line_n_nodes(struct clustered *c)
{
    int n = 0;

    for (size_t i = 0; i < c->cluster->n; i++) {
        struct probe *probe = c->cluster->node[i].probe;

        if (strcmp(probe_text(probe, "KEYS relock_waiters:*"), "") != 0)
            n++;
    }
    return n;
}
