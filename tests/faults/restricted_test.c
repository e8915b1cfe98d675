/*
 * A server or a user without a command that locks can do without, as behind a proxy or in a
 * managed service.
 *
 *     restricted_fault_test HELLO | CLIENT | INFO | WAIT | SCRIPT | SUBSCRIBE | all
 *
 * All cases run three times: on a server that does not know the command, as a user who may not run
 * it, and behind a proxy that refuses it in words of its own.
 */
#include "faults.h"

#include "support/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 2600
#define RECHECK_MS 200
#define HIDDEN_CLIENT "hidden" /* the name of CLIENT, which the fixture needs */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct command {
    const char *name, *right, *renamed;
} commands[] = {
    {"HELLO", "", ""}, /* needs no right */
    {"CLIENT", " -client", HIDDEN_CLIENT},
    {"INFO", " -info", NULL}, /* the fixture needs it */
    {"WAIT", " -wait", ""},
    {"SCRIPT", " -script", ""},
    {"SUBSCRIBE", " -subscribe", ""},
};

static const char *missing = "all";

static enum {
    UNKNOWN, /* to the server */
    DENIED,  /* to the user */
    REFUSED, /* by the proxy */
} how;

static bool lacks(const char *command)
{
    return strcmp(missing, "all") == 0 || strcmp(missing, command) == 0;
}

/* ---- the fixture --------------------------------------------------------------------------- */

static int start_without(void **state)
{
    struct server_options options = {0};
    struct faults *t;
    size_t n = 0;
    int r;

    for (size_t i = 0; i < COUNT(commands); i++) {
        if (commands[i].renamed && lacks(commands[i].name)) {
            options.args[n++] = "--rename-command";
            options.args[n++] = commands[i].name;
            options.args[n++] = commands[i].renamed;
        }
    }
    r = faults_start_with(state, &options, false);
    t = *state;
    if (r == 0 && lacks("CLIENT"))
        probe_rename_client(t->f->probe, HIDDEN_CLIENT);
    return r;
}

static int start_denied(void **state)
{
    how = DENIED;
    return faults_start(state);
}

static int start_refused(void **state)
{
    how = REFUSED;
    return faults_start(state);
}

/* No script is loaded. */
static int begin(void **state)
{
    int r = faults_begin(state);
    struct faults *t = *state;
    char rights[128] = "~* &* +@all";

    for (size_t i = 0; i < COUNT(commands); i++) {
        if (!lacks(commands[i].name))
            continue;
        strcat(rights, commands[i].right);
        if (how == REFUSED)
            proxy_each(t->proxy, PROXY_REFUSE, commands[i].name);
    }
    if (how == DENIED)
        faults_worker(t, rights);
    if (how != UNKNOWN || !lacks("SCRIPT"))
        assert_int_equal(probe_int(t->f->probe, "SCRIPT FLUSH"), 0);
    return r;
}

static int end(void **state)
{
    struct faults *t = *state;

    forget_counters(t->f->probe);
    return faults_end(state);
}

static struct relock_client *client_of(struct faults *t, struct relock_options options)
{
    options.recheck_ms = slow_ms(RECHECK_MS);
    options.watchdog_timeout_ms = outlast_ms(LEASE_MS);
    return how == DENIED ? faults_worker_client(t, &options) : faults_client(t, &options);
}

/* ---- cases --------------------------------------------------------------------------------- */

/* A lock of each kind, and one that excludes it. */
struct pair {
    struct relock_lock *held, *wanted;
    struct actor *waiting;
};

static void make_pair(struct faults *t, struct pair *pair, enum kind_no kind,
                      struct relock_client *holder, struct relock_client *waiter)
{
    kind_choose(kind);
    pair->held = kind_lock(t->f, holder, kinds[kind].name);
    kind_choose(kind == KIND_READ ? KIND_WRITE : kind);
    pair->wanted = kind_lock(t->f, waiter, kinds[kind].name);
    pair->waiting = actor_start();
    assert_result(relock_lock(pair->held), RELOCK_OK);
    assert_result(relock_lock(pair->held), RELOCK_OK);
}

static bool was_missing(const char *command)
{
    if (strcmp(command, "HELLO") == 0)
        return lacks(command) && how != DENIED;
    if (strcmp(command, "INFO") == 0) /* warned of over a unix socket only */
        return lacks(command) && how != UNKNOWN && !getenv("RELOCK_TEST_TLS");
    return lacks(command);
}

/* By a client that holds locks, and one that waits. */
static void each_missing_command_was_logged_once(struct faults *t)
{
    static const struct {
        const char *command, *warning;
        size_t n_clients;
    } lines[] = {
        {"HELLO", ": HELLO: ", 2},        {"CLIENT", ": CLIENT SETNAME: ", 2},
        {"CLIENT", ": CLIENT INFO: ", 2}, {"INFO", ": INFO: ", 2},
        {"SCRIPT", ": SCRIPT LOAD: ", 2}, {"SUBSCRIBE", ": SUBSCRIBE: ", 1},
    };
    size_t n = 0;

    for (size_t i = 0; i < COUNT(lines); i++) {
        size_t n_lines = was_missing(lines[i].command) ? lines[i].n_clients : 0;

        assert_true(n_lines == 0 || log_wait_n(t->f->log, lines[i].warning, n_lines, SOON_MS));
        n += n_lines;
    }
    /* One client tracks for its holds, the other for a wait. */
    if (lacks("CLIENT") || lacks("SUBSCRIBE") || (lacks("INFO") && how != UNKNOWN)) {
        assert_true(log_wait_n(t->f->log, ": CLIENT TRACKING: ", 2, SOON_MS));
        n += 2;
    }
    assert_int_equal(log_count(t->f->log, "; without it "), n);
    n += log_count(t->f->log, ": no answer in time; reconnecting"); /* a machine stood still */
    assert_int_equal(log_count_grave(t->f->log, RELOCK_LOG_WARNING), n);
}

static void each_kind_is_nested_renewed_and_waited_for(void **state)
{
    struct faults *t = *state;
    struct relock_client *holder = client_of(t, (struct relock_options){0});
    struct relock_client *waiter = client_of(t, (struct relock_options){0});
    struct pair pairs[KINDS_AND_SIDES_N];

    for (size_t i = 0; i < COUNT(pairs); i++) {
        make_pair(t, &pairs[i], i, holder, waiter);
        actor_begin(pairs[i].waiting, actor_take_turn, pairs[i].wanted);
    }
    assert_true(wait_for_waiters(waiter, COUNT(pairs)));
    assert_true(wait_for_renewals(holder, 0, COUNT(pairs)));
    for (size_t i = 0; i < COUNT(pairs); i++) {
        assert_result(relock_unlock(pairs[i].held), RELOCK_OK);
        assert_true(actor_is_busy(pairs[i].waiting));
        assert_result(relock_unlock(pairs[i].held), RELOCK_OK);
    }
    for (size_t i = 0; i < COUNT(pairs); i++)
        assert_result(actor_result(pairs[i].waiting), RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 0);
    each_missing_command_was_logged_once(t);
}

static void a_hold_is_handed_off(void **state)
{
    static const enum kind_no kind_nos[] = {KIND_REENTRANT, KIND_SPIN, KIND_PLAIN};
    struct faults *t = *state;
    struct relock_client *client = client_of(t, (struct relock_options){.handoff_ms = LONG_MS});

    for (size_t i = 0; i < COUNT(kind_nos); i++) {
        struct actor *first = actor_start(), *second = actor_start();
        struct relock_lock *lock;

        kind_choose(kind_nos[i]);
        lock = kind_lock(t->f, client, kind_now()->name);
        assert_result(actor_lock(first, lock), RELOCK_OK);
        actor_begin_lock(second, lock);
        assert_true(wait_for_waiters(client, 1));
        assert_result(actor_unlock(first, lock), RELOCK_OK);
        assert_gets_in(second, lock);
        assert_int_equal(stats_of(client).passed_on, i + 1);
    }
}

/* Redis grants each, and no answer comes. Nothing more comes over that connection, so each lock has
 * a client of its own. */
static void a_grant_without_an_answer_is_settled(void **state)
{
    struct relock_options options = {.command_timeout_ms = short_ms()};
    struct faults *t = *state;
    struct relock_lock *locks[KINDS_AND_SIDES_N];
    struct actor *actors[KINDS_AND_SIDES_N];
    struct proxy_rule *granted[KINDS_AND_SIDES_N];

    for (size_t i = 0; i < COUNT(locks); i++) {
        char words[64];

        kind_choose(i);
        locks[i] = kind_lock(t->f, client_of(t, options), kinds[i].name);
        actors[i] = actor_start();
        assert_result(fixture_acquire(locks[i], NULL), RELOCK_OK); /* the script is there now */
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        (void)snprintf(words, sizeof(words), "* 1 %s", kinds[i].name);
        granted[i] = proxy_next(t->proxy, PROXY_SWALLOW, words);
    }
    for (size_t i = 0; i < COUNT(locks); i++)
        actor_begin_timedlock(actors[i], locks[i], 0);
    for (size_t i = 0; i < COUNT(locks); i++) {
        assert_result(actor_result(actors[i]), RELOCK_E_CONN);
        assert_int_equal(proxy_fate(granted[i]), PROXY_ANSWERED);
    }
    for (size_t i = 0; i < COUNT(locks); i++)
        assert_true(probe_wait_no_key(t->f->probe, kinds[i].name, SOON_MS));
}

static void without_wait_no_replica_is_counted(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        client_of(t, (struct relock_options){.min_replicas = 1, .replica_timeout_ms = 20});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    for (int i = 0; i < 2; i++)
        assert_result(relock_lock(lock), RELOCK_E_REPLICAS);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    if (lacks("WAIT"))
        assert_true(log_wait_n(t->f->log, "set min_replicas to 0", 1, SOON_MS));
    assert_int_equal(log_count(t->f->log, ": WAIT: "), lacks("WAIT"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(each_kind_is_nested_renewed_and_waited_for),
        TEST(a_hold_is_handed_off),
        TEST(a_grant_without_an_answer_is_settled),
        TEST(without_wait_no_replica_is_counted),
    };
    int n_failed;

    if (argc > 1)
        missing = argv[1];
    n_failed = cmocka_run_group_tests_name("unknown", tests, start_without, faults_stop);
    n_failed += cmocka_run_group_tests_name("denied", tests, start_denied, faults_stop);
    return n_failed + cmocka_run_group_tests_name("refused", tests, start_refused, faults_stop);
}
