#include "faults.h"

#include "scripts.h"
#include "support/busy.h"
#include "support/kinds.h"
#include "support/waiter.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *sha1, *body;
} scripts[] = {
#define SCRIPT(name, sha1, body) {#name, sha1, body},
    RELOCK_SCRIPT_MAP(SCRIPT)
#undef SCRIPT
};

#define N_SCRIPTS (sizeof(scripts) / sizeof(*scripts))

static enum faults_rights rights;

uint64_t short_ms(void)
{
    return outlast_ms(1200);
}

struct relock_client *faults_client(struct faults *t, const struct relock_options *options)
{
    struct relock_options all = options ? *options : (struct relock_options){0};

    all.url = proxy_url(t->proxy);
    all.tls_ca_file = faults_ca_file(t);
    if (rights == NO_LINE && !all.user) {
        all.user = WORKER;
        all.password = PASSWORD;
    }
    return fixture_client(t->f, &all);
}

struct relock_client *faults_watchful_client(struct faults *t, uint64_t lease_ms)
{
    return faults_client(t, &(struct relock_options){.watchdog_timeout_ms = outlast_ms(lease_ms)});
}

struct relock_client *faults_calm_client(struct faults *t, uint64_t command_timeout_ms)
{
    return faults_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                     .recheck_ms = LONG_MS,
                                                     .command_timeout_ms = command_timeout_ms});
}

struct relock_client *faults_connected_client(struct faults *t,
                                              const struct relock_options *options)
{
    struct proxy_rule *background;
    struct relock_client *client;

    proxy_next(t->proxy, PROXY_PASS, "CLIENT INFO"); /* the connection for callers */
    background = proxy_next(t->proxy, PROXY_PASS, "CLIENT INFO");
    client = faults_client(t, options);
    assert_int_equal(proxy_fate(background), PROXY_ANSWERED);
    return client;
}

const char *faults_ca_file(const struct faults *t)
{
    return strncmp(proxy_url(t->proxy), "rediss:", 7) == 0 ? t->f->server->ca_file : NULL;
}

bool faults_over_tcp(const struct faults *t)
{
    return strncmp(proxy_url(t->proxy), "unix:", 5) != 0;
}

void faults_worker(struct faults *t, const char *words)
{
    assert_true(probe_make_user(t->f->probe, WORKER, PASSWORD, words));
}

void faults_take_rights(int argc, char **argv)
{
    const char *argument = argc > 1 ? argv[1] : "";

    if (strstr(argument, "no-kill"))
        rights = NO_KILL;
    else if (strstr(argument, "no-client"))
        rights = NO_CLIENT;
    else if (strstr(argument, "no-line"))
        rights = NO_LINE;
}

enum faults_rights faults_rights(void)
{
    return rights;
}

static void make_worker(struct faults *t)
{
    static const char *const words[] = {
        [CAN_KILL] = "~* &* +@all",
        [NO_KILL] = "~* &* +@all -client +client|info +client|setname",
        [NO_CLIENT] = "~* &* +@all -client",
        [NO_LINE] = "~orders ~{orders} ~before &* +@all",
    };

    faults_worker(t, words[rights]);
}

struct relock_client *faults_worker_client(struct faults *t, const struct relock_options *options)
{
    struct relock_options all = *options;

    all.user = WORKER;
    all.password = PASSWORD;
    return faults_client(t, &all);
}

void nothing_is_lost_for(struct faults *t, struct relock_client *client, uint64_t ms)
{
    uint64_t holds = stats_of(client).holds;

    for (uint64_t until_ms = now_ms() + ms; now_ms() < until_ms; let_pass(10)) {
        assert_int_equal(stats_of(client).holds, holds);
        assert_int_equal(losses_count(t->f->losses), 0);
    }
}

void faults_run_late(struct proxy_rule *rule)
{
    if (rights == CAN_KILL)
        assert_int_equal(proxy_fate(rule), PROXY_ENDED);
    proxy_let_go(rule);
    assert_int_equal(proxy_fate(rule), rights == CAN_KILL ? PROXY_ENDED : PROXY_ANSWERED);
}

void faults_holders(struct faults *t, char holders[FAULTS_HOLDERS_MAX])
{
    bool is_hash = strcmp(probe_text(t->f->probe, "TYPE orders"), "hash") == 0;

    snprintf(holders, FAULTS_HOLDERS_MAX, "%s",
             is_hash ? probe_list(t->f->probe, "HGETALL orders")
                     : probe_text(t->f->probe, "GET orders"));
}

void faults_late_changes_nothing(struct faults *t, struct proxy_rule *rule)
{
    long long n_keys = probe_n_keys(t->f->probe);
    char before[FAULTS_HOLDERS_MAX], after[FAULTS_HOLDERS_MAX];

    faults_holders(t, before);
    faults_run_late(rule);
    faults_holders(t, after);
    assert_string_equal(after, before);
    assert_int_equal(probe_n_keys(t->f->probe), n_keys);
}

struct relock_client *faults_patient_client(struct faults *t)
{
    struct relock_client *client = faults_client(
        t, &(struct relock_options){
               .recheck_ms = LONG_MS, .watchdog_timeout_ms = LONG_MS, .handoff_ms = 1});

    waiter_open_inbox(t->f, client);
    return client;
}

struct actor *faults_blocked(struct faults *t, struct relock_lock *lock)
{
    struct actor *waiting = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    actor_begin_lock(waiting, lock);
    return waiting;
}

void faults_assert_free(struct faults *t)
{
    assert_true(wait_for_no_keys(t->f->probe));
    assert_int_equal(losses_count(t->f->losses), 0);
}

void faults_release_forgotten(struct faults *t, struct relock_lock *lock)
{
    int r = relock_unlock(lock);

    if (r != RELOCK_OK || !faults_over_tcp(t))
        assert_result(r, RELOCK_LOST);
}

void faults_hold_and_wait(struct faults *t, struct relock_client *client, struct relock_lock *lock,
                          struct actor **holding, struct actor **waiting)
{
    *holding = actor_start();
    *waiting = actor_start();
    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    actor_begin_lock(*holding, lock);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_lock(*waiting, lock);
    assert_true(wait_for_waiters(client, 2));
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_result(actor_result(*holding), RELOCK_OK);
    let_pass(50); /* after this the hold is not handed off */
}

void faults_gets_in_by_signals(struct relock_client *client, struct actor *waiting,
                               struct relock_lock *lock)
{
    assert_gets_in(waiting, lock);
    assert_int_equal(stats_of(client).rechecks, 0);
}

void faults_be_busy(struct faults *t)
{
    t->looping = busy_begin(t->f->server, t->f->probe);
}

void faults_be_busy_no_more(struct faults *t)
{
    if (t->looping)
        busy_end(t->f->probe, t->looping);
    t->looping = NULL;
}

void faults_meet_busy(struct faults *t, struct proxy_rule *held)
{
    assert_true(proxy_met(held, 1));
    faults_be_busy(t);
    proxy_let_go(held);
    assert_true(proxy_counts(t->proxy, "-BUSY", 1));
    faults_be_busy_no_more(t);
}

int faults_start_with(void **state, const struct server_options *options, bool tcp)
{
    struct faults *t = calloc(1, sizeof(*t));
    void *fixture;
    char path[108];

    if (!t || fixture_start_with(&fixture, options) != 0)
        return -1;
    t->f = fixture;
    snprintf(path, sizeof(path), "%.80s/proxy", t->f->server->dir);
    t->proxy = proxy_start(t->f->server, tcp ? NULL : path);
    for (size_t i = 0; i < N_SCRIPTS; i++)
        proxy_name_script(t->proxy, scripts[i].name, scripts[i].sha1);
    *state = t;
    return 0;
}

int faults_start(void **state)
{
    return faults_start_with(state, NULL, false);
}

int faults_start_tcp(void **state)
{
    return faults_start_with(state, NULL, true);
}

int faults_stop(void **state)
{
    struct faults *t = *state;
    void *fixture = t->f;

    proxy_stop(t->proxy);
    free(t);
    return fixture_stop(&fixture);
}

int faults_begin(void **state)
{
    struct faults *t = *state;
    void *fixture = t->f;

    if (t->f->server->pid == 0)
        server_restart(t->f->server);
    for (size_t i = 0; i < N_SCRIPTS; i++)
        probe_text(t->f->probe, "SCRIPT LOAD %s", scripts[i].body);
    make_worker(t);
    kind_choose(KIND_REENTRANT);
    return fixture_begin(&fixture);
}

/* First repairs whatever a failed test has left broken. */
int faults_end(void **state)
{
    struct faults *t = *state;
    void *fixture = t->f;

    if (t->f->server->pid != 0)
        server_resume(t->f->server);
    else
        server_restart(t->f->server);
    faults_be_busy_no_more(t);
    probe_int(t->f->probe, "ACL DELUSER " WORKER);
    proxy_reset(t->proxy);
    return fixture_end(&fixture);
}
