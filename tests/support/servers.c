#include "support/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct relock_client *lazy_client(struct servers *s, size_t i, const char *url,
                                         const struct relock_options *options)
{
    struct relock_options all = options ? *options : (struct relock_options){0};

    all.url = url;
    all.flags |= RELOCK_LAZY;
    if (strncmp(url, "rediss:", 7) == 0)
        all.tls_ca_file = s->server[i]->ca_file;
    return fixture_client(s->f, &all);
}

struct relock_client *servers_client(struct servers *s, size_t i,
                                     const struct relock_options *options)
{
    return lazy_client(s, i, s->server[i]->unix_url, options);
}

struct relock_client *servers_client_by_proxy(struct servers *s, size_t i,
                                              const struct relock_options *options)
{
    return lazy_client(s, i, proxy_url(s->proxy[i]), options);
}

void servers_up(struct servers *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->server[i]->pid == 0)
            server_launch(s->server[i]);
        else
            server_resume(s->server[i]);
    }
    for (size_t i = 0; i < s->n; i++)
        server_await(s->server[i]);
}

/* ---- around the program -------------------------------------------------------------------- */

int servers_start_with(void **state, size_t n, const struct server_options *options)
{
    struct servers *s = calloc(1, sizeof(*s));
    struct server_options all = options ? *options : (struct server_options){0};
    void *fixture;
    char path[108];

    if (!s || n > SERVERS_MAX)
        return -1;
    all.tcp = true;
    for (s->n = 0; s->n < n; s->n++) {
        s->server[s->n] = server_new(&all);
        if (!s->server[s->n])
            fixture_skip();
    }
    servers_up(s);
    if (fixture_start_on(&fixture, s->server[0]) != 0)
        return -1;
    s->f = fixture;
    for (size_t i = 0; i < n; i++) {
        s->probe[i] = i > 0 ? probe_open(s->server[i]->socket) : s->f->probe;
        snprintf(path, sizeof(path), "%.80s/proxy", s->server[i]->dir);
        s->proxy[i] = proxy_start(s->server[i], path);
    }
    *state = s;
    return 0;
}

int servers_start(void **state)
{
    return servers_start_with(state, 5, NULL);
}

int servers_start_three(void **state)
{
    return servers_start_with(state, 3, NULL);
}

int servers_stop(void **state)
{
    struct servers *s = *state;
    void *fixture = s->f;

    for (size_t i = 0; i < s->n; i++)
        proxy_stop(s->proxy[i]);
    for (size_t i = 1; i < s->n; i++) {
        probe_close(s->probe[i]);
        server_stop(s->server[i]);
    }
    free(s);
    return fixture_stop(&fixture);
}

/* ---- around each test ---------------------------------------------------------------------- */

int servers_begin(void **state)
{
    struct servers *s = *state;
    void *fixture = s->f;

    for (size_t i = 1; i < s->n; i++)
        probe_int(s->probe[i], "FLUSHALL");
    return fixture_begin(&fixture);
}

static bool have_no_keys(void *arg)
{
    const struct servers *s = arg;
    bool none = true;

    for (size_t i = 0; i < s->n && none; i++)
        none = probe_n_keys(s->probe[i]) == 0;
    return none;
}

/* Other programs may keep theirs, as in a fixture. */
static bool have_no_connections(void *arg)
{
    const struct servers *s = arg;
    bool none = true;

    for (size_t i = 0; i < s->n && none; i++)
        none = fixture_is_alone(s->f, s->probe[i]);
    return none;
}

/* Repairs the servers first, and checks the keys while the clients exist: the fixture frees them.
 */
int servers_end(void **state)
{
    struct servers *s = *state;
    void *fixture = s->f;
    bool no_keys, no_connections;

    servers_up(s);
    for (size_t i = 0; i < s->n; i++)
        proxy_reset(s->proxy[i]);
    no_keys = wait_until(have_no_keys, s, SOON_MS);
    if (fixture_end(&fixture) != 0)
        return -1;
    no_connections = wait_until(have_no_connections, s, SOON_MS);
    late_is_leak();
    if (late_has_failed())
        return 0;
    assert_true(no_keys);
    assert_true(no_connections);
    assert_true(have_no_keys(s));
    return 0;
}
