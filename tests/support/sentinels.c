#include "support/sentinels.h"

#include "support/actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS "127.0.0.1"
#define N_ARGS 9 /* of each server */

/* ---- servers ------------------------------------------------------------------------------- */

/* The port that the servers use for each other. */
static int port_of(const struct sentinels *s, const struct server *server)
{
    return s->has_tls ? server->tls_port : server->port;
}

static struct server *new_server(const struct sentinels *s, const struct server *master)
{
    struct server_options options = {
        .tcp = true,
        .tls = s->has_tls,
        .certs = s->has_tls && master ? master->certs : NULL,
        .args = {"--repl-ping-replica-period", "1", "--user", "locker", "on", ">secret", "~*", "&*",
                 "+@all", NULL},
    };
    size_t n = N_ARGS;
    char port[16];
    struct server *server;

    if (s->has_tls) {
        options.args[n++] = "--tls-replication";
        options.args[n++] = "yes";
    }
    if (master) {
        snprintf(port, sizeof(port), "%d", port_of(s, master));
        options.args[n] = "--replicaof";
        options.args[n + 1] = "127.0.0.1";
        options.args[n + 2] = port;
    }
    server = server_new(&options);
    if (!server)
        fixture_skip();
    server_launch(server);
    server_await(server);
    server->options.args[n] = NULL; /* it comes back as a master, until a sentinel finds it */
    return server;
}

static bool is_in_sync(void *arg)
{
    return strstr(probe_text(arg, "INFO replication"), "connected_slaves:2") != NULL &&
           strstr(probe_text(arg, "WAIT 2 100"), "2") != NULL;
}

static void start_servers(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++) {
        s->server[i] = new_server(s, i > 0 ? s->server[0] : NULL);
        s->probe[i] = probe_open(s->server[i]->socket);
    }
    assert_true(wait_until(is_in_sync, s->probe[0], FAILOVER_MS));
}

/* ---- sentinels ----------------------------------------------------------------------------- */

/*
 * Redis 7 lets tests hurry a sentinel. During a failover it gets the state of the replicas once in
 * a second. It promotes none whose state is older than five pings. Another sentinel that has not
 * heard of a promotion for four times publish-period undoes it.
 */
static void hurry(struct probe *probe)
{
    (void)probe_text(probe, "SENTINEL DEBUG info-period 200 ping-period 400 ask-period 100 "
                            "publish-period 500 election-timeout 2000 "
                            "min-link-reconnect-period 500 tilt-period 1000");
}

static void watch(struct probe *probe, const char *host, int port, int quorum,
                  uint64_t down_after_ms)
{
    hurry(probe);
    assert_int_equal(
        probe_int(probe, "SENTINEL MONITOR " SENTINELS_MASTER " %s %d %d", host, port, quorum), 0);
    assert_int_equal(probe_int(probe,
                               "SENTINEL SET " SENTINELS_MASTER
                               " down-after-milliseconds %d failover-timeout %d",
                               (int)down_after_ms, (int)slow_ms(2000)),
                     0);
}

/* Whether this sentinel knows the replicas and the other sentinels. */
static bool knows_all(void *arg)
{
    const char *state = probe_list(arg, "SENTINEL MASTER " SENTINELS_MASTER);

    return strstr(state, "num-slaves 2 ") && strstr(state, "num-other-sentinels 2 ");
}

static void await_knowledge(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++)
        assert_true(wait_until(knows_all, s->at_sentinel[i], FAILOVER_MS));
}

static void start_sentinels(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++) {
        s->sentinel[i] = server_start(&(struct server_options){
            .tcp = true,
            .sentinel = true,
            .tls = s->has_tls,
            .certs = s->has_tls ? s->server[0]->certs : NULL,
            .args = {s->has_tls ? "--tls-replication" : NULL, "yes"},
        });
        s->at_sentinel[i] = probe_open(s->sentinel[i]->socket);
        watch(s->at_sentinel[i], ADDRESS, port_of(s, s->server[0]), 2, s->down_after_ms);
    }
    await_knowledge(s);
    snprintf(s->url, sizeof(s->url),
             "redis%s+sentinel://" SENTINELS_LOGIN
             "@127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/" SENTINELS_MASTER,
             s->has_tls ? "s" : "", port_of(s, s->sentinel[0]), port_of(s, s->sentinel[1]),
             port_of(s, s->sentinel[2]));
}

void sentinels_use_names(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++)
        assert_int_equal(probe_int(s->probe[i], "CONFIG SET replica-announce-ip " SENTINELS_NAME),
                         0);
    for (int i = 0; i < SENTINELS; i++) {
        struct probe *probe = s->at_sentinel[i];

        assert_int_equal(probe_int(probe, "SENTINEL REMOVE " SENTINELS_MASTER), 0);
        assert_int_equal(probe_int(probe, "SENTINEL CONFIG SET resolve-hostnames yes"), 0);
        assert_int_equal(probe_int(probe, "SENTINEL CONFIG SET announce-hostnames yes"), 0);
        watch(probe, SENTINELS_NAME, port_of(s, s->server[0]), 2, s->down_after_ms);
    }
    await_knowledge(s);
}

void sentinels_watch(const struct server *sentinel, int port)
{
    struct probe *probe = probe_open(sentinel->socket);

    watch(probe, ADDRESS, port, SENTINELS + 1, NEVER_MS);
    probe_close(probe);
}

struct server *sentinels_alone(int port, const char *password)
{
    struct server *sentinel = server_start(&(struct server_options){.tcp = true, .sentinel = true});
    struct probe *probe;

    sentinels_watch(sentinel, port);
    if (!password)
        return sentinel;
    probe = probe_open(sentinel->socket);
    assert_int_equal(
        probe_int(probe,
                  "ACL SETUSER watcher on >%s resetchannels &+switch-master +hello +ping "
                  "+subscribe +sentinel|get-master-addr-by-name +sentinel|master "
                  "+client|setname",
                  password),
        0);
    assert_int_equal(probe_int(probe, "ACL SETUSER admin on >%s +@all &*", password), 0);
    assert_int_equal(probe_int(probe, "ACL SETUSER default off"), 0);
    probe_close(probe);
    return sentinel;
}

void sentinels_url(char url[256], const struct server *first, const struct server *second,
                   const char *name)
{
    if (second)
        snprintf(url, 256, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/%s", first->port,
                 second->port, name);
    else
        snprintf(url, 256, "redis+sentinel://127.0.0.1:%d/%s", first->port, name);
}

/* ---- the master ---------------------------------------------------------------------------- */

static int master_of(struct sentinels *s, struct probe *probe)
{
    int port = 0;

    (void)sscanf(probe_list(probe, "SENTINEL GET-MASTER-ADDR-BY-NAME " SENTINELS_MASTER), "%*s %d",
                 &port);
    for (int i = 0; i < SENTINELS; i++)
        if (port_of(s, s->server[i]) == port)
            return i;
    return -1;
}

int sentinels_master(struct sentinels *s)
{
    int master = -1;

    for (int i = 0; i < SENTINELS; i++) {
        int says = s->sentinel[i]->pid > 0 ? master_of(s, s->at_sentinel[i]) : master;

        if (master >= 0 && says != master)
            return -1;
        master = says;
    }
    return master;
}

struct change {
    struct sentinels *s;
    int old, new;
};

static bool has_changed(void *arg)
{
    struct change *change = arg;

    change->new = sentinels_master(change->s);
    return change->new >= 0 &&
           change->new !=
               change->old &&strstr(probe_list(change->s->probe[change->new], "ROLE"), "master") !=
               NULL;
}

int sentinels_await_master(struct sentinels *s, int old)
{
    struct change change = {.s = s, .old = old};

    assert_true(wait_until(has_changed, &change, FAILOVER_MS));
    return change.new;
}

static unsigned count_in(const char *text, const char *word)
{
    unsigned n = 0;

    while ((text = strstr(text, word))) {
        n++;
        text += strlen(word);
    }
    return n;
}

/* Whether both replicas have told this sentinel that they are replicas. Of one that called itself a
 * master, it would undo the promotion. */
static bool knows_roles(void *arg)
{
    return count_in(probe_list(arg, "SENTINEL REPLICAS " SENTINELS_MASTER),
                    "role-reported slave") == SENTINELS - 1;
}

void sentinels_await_roles(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++)
        assert_true(wait_until(knows_roles, s->at_sentinel[i], FAILOVER_MS));
}

void sentinels_await_sync(struct sentinels *s, int master)
{
    assert_true(wait_until(is_in_sync, s->probe[master], 2 * (uint64_t)FAILOVER_MS));
}

static bool know_roles(struct sentinels *s)
{
    bool know = true;

    for (int i = 0; i < SENTINELS && know; i++)
        know = knows_roles(s->at_sentinel[i]);
    return know;
}

/* A sentinel gives up if the machine stands still for a second meanwhile: then it is told again. */
static bool is_replaced(void *arg)
{
    const struct change *change = arg;
    struct probe *first = change->s->at_sentinel[0];
    int master = master_of(change->s, first);

    if (master >= 0 && master != change->old)
        return true;
    if (!strstr(probe_list(first, "SENTINEL MASTER " SENTINELS_MASTER), "failover_in_progress") &&
        know_roles(change->s))
        (void)probe_int(first, "SENTINEL FAILOVER " SENTINELS_MASTER);
    return false;
}

void sentinels_replace_master(struct sentinels *s)
{
    struct change change = {.s = s, .old = master_of(s, s->at_sentinel[0])};

    assert_true(wait_until(is_replaced, &change, 2 * (uint64_t)FAILOVER_MS));
}

/* ---- clients ------------------------------------------------------------------------------- */

struct relock_options sentinels_options(struct sentinels *s, const struct relock_options *options)
{
    struct relock_options all = options ? *options : (struct relock_options){.min_replicas = 2};

    if (!all.url)
        all.url = s->url;
    if (all.connect_timeout_ms == 0)
        all.connect_timeout_ms = slow_ms(1000);
    if (all.replica_timeout_ms == 0)
        all.replica_timeout_ms = slow_ms(5000);
    return fixture_options(s->f, &all);
}

struct relock_client *sentinels_client(struct sentinels *s, const struct relock_options *options)
{
    struct relock_options all = sentinels_options(s, options);

    return fixture_client(s->f, &all);
}

/* ---- around the tests ---------------------------------------------------------------------- */

/* Connections of probes that are older than the test would hide leaks. */
static void disconnect(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++) {
        probe_close(s->probe[i]);
        probe_close(s->at_sentinel[i]);
        s->probe[i] = probe_open(s->server[i]->socket);
        s->at_sentinel[i] = probe_open(s->sentinel[i]->socket);
    }
}

void sentinels_launch(struct sentinels *s)
{
    start_servers(s);
    start_sentinels(s);
}

static void close_probes(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++) {
        s->probe[i] = probe_close(s->probe[i]);
        s->at_sentinel[i] = probe_close(s->at_sentinel[i]);
    }
}

static void stop_servers(struct sentinels *s)
{
    for (int i = 0; i < SENTINELS; i++) {
        s->sentinel[i] = server_stop(s->sentinel[i]);
        s->server[i] = server_stop(s->server[i]);
    }
}

void sentinels_close(struct sentinels *s)
{
    close_probes(s);
    stop_servers(s);
}

int sentinels_begin(void **state)
{
    struct sentinels *s = *state;
    void *f = s->f;

    sentinels_launch(s);
    disconnect(s);
    return fixture_begin(&f);
}

int sentinels_end(void **state)
{
    struct sentinels *s = *state;
    void *f = s->f;
    int r;

    actor_end_all();
    close_probes(s);
    r = fixture_end(&f);
    stop_servers(s);
    return r;
}

static int start(void **state, uint64_t down_after_ms)
{
    struct sentinels *s = calloc(1, sizeof(*s));
    void *f = NULL;

    if (!s || fixture_start(&f) != 0) {
        free(s);
        return -1;
    }
    s->f = f;
    s->down_after_ms = down_after_ms;
    *state = s;
    return 0;
}

int sentinels_start(void **state)
{
    return start(state, slow_ms(SENTINELS_DOWN_AFTER_MS));
}

int sentinels_start_steady(void **state)
{
    return start(state, NEVER_MS);
}

int sentinels_stop(void **state)
{
    struct sentinels *s = *state;
    void *f = s->f;
    int r = fixture_stop(&f);

    free(s);
    return r;
}
