#include "support/fixture.h"

#include "support/actor.h"
#include "support/child.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_DESCRIPTORS 1024 /* that a test may have open */

static pid_t main_process; /* cmocka's frames are there */

/* One case of a program alone: RELOCK_TEST_ONLY, a name that may have "*" in it. */
__attribute__((constructor)) static void choose_cases(void)
{
    const char *only = getenv("RELOCK_TEST_ONLY");

    if (only)
        cmocka_set_test_filter(only);
}

static void on_log(int level, const char *text, void *arg)
{
    struct fixture *f = arg;

    log_write(level, text, f->log);
}

static void on_lost(const struct relock_lost *what, void *arg)
{
    struct fixture *f = arg;

    losses_write(what, f->losses);
}

struct relock_options fixture_options(struct fixture *f, const struct relock_options *options)
{
    struct relock_options all = options ? *options : (struct relock_options){0};

    if (!all.url && f->server->tls_port > 0) {
        all.url = f->server->tls_url;
        if (!all.tls_ca_file)
            all.tls_ca_file = f->server->ca_file;
    }
    if (!all.url)
        all.url = f->server->unix_url;
    if (all.connect_timeout_ms == 0)
        all.connect_timeout_ms = slow_ms(SOON_MS);
    if (all.command_timeout_ms == 0)
        all.command_timeout_ms = slow_ms(5000);
    if (!all.arg && !all.on_log && !all.on_lost) {
        all.on_log = on_log;
        all.on_lost = on_lost;
        all.arg = f;
        if (all.log_level == 0)
            all.log_level = RELOCK_LOG_DEBUG;
    }
    return all;
}

/* A machine may stand still for longer than a short time limit for connecting. */
static int new_client(const struct relock_options *options, struct relock_client **client)
{
    uint64_t until_ms = deadline_in(SOON_MS);
    uint64_t began_ms;
    int r;

    do {
        began_ms = now_ms();
        r = relock_client_new(options, client);
    } while (r == RELOCK_E_CONN && now_ms() - began_ms >= options->connect_timeout_ms &&
             now_ms() < until_ms);
    return r;
}

struct relock_client *fixture_client(struct fixture *f, const struct relock_options *options)
{
    struct relock_options all = fixture_options(f, options);
    size_t i = 0;

    while (i < FIXTURE_MAX_CLIENTS && f->clients[i])
        i++;
    assert_true(i < FIXTURE_MAX_CLIENTS);
    assert_result(new_client(&all, &f->clients[i]), RELOCK_OK);
    return f->clients[i];
}

struct relock_client *untracked_client(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){.flags = RELOCK_NO_TRACKING});
}

struct relock_client *watchful_client(struct fixture *f, uint64_t lease_ms)
{
    return fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(lease_ms)});
}

struct relock_client *patient_client(struct fixture *f, uint64_t long_ms)
{
    return fixture_client(f, &(struct relock_options){.recheck_ms = slow_ms(long_ms),
                                                      .watchdog_timeout_ms = slow_ms(long_ms),
                                                      .flags = RELOCK_NO_TRACKING});
}

struct relock_client *woken_client(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){.recheck_ms = NEVER_MS,
                                                      .deadlock_ms = RELOCK_FOREVER,
                                                      .flags = RELOCK_NO_TRACKING});
}

struct relock_client *child_client(struct fixture *f, const struct relock_options *options)
{
    struct relock_options all = fixture_options(f, options);
    struct relock_client *client;

    child_must(relock_client_new(&all, &client) == RELOCK_OK);
    return client;
}

struct relock_lock **fixture_place(struct fixture *f)
{
    size_t i = 0;

    while (i < FIXTURE_MAX_LOCKS && f->locks[i])
        i++;
    assert_true(i < FIXTURE_MAX_LOCKS);
    return &f->locks[i];
}

struct relock_lock *fixture_lock_of(struct fixture *f, struct relock_client *client,
                                    const char *name, fixture_constructor_fn *constructor)
{
    struct relock_lock **lock = fixture_place(f);

    assert_result(constructor(client, name, lock), RELOCK_OK);
    return *lock;
}

struct relock_lock *fixture_lock(struct fixture *f, struct relock_client *client, const char *name)
{
    return fixture_lock_of(f, client, name, relock_lock_new);
}

int acquire_for(struct relock_lock *lock, uint64_t lease_ms)
{
    return relock_acquire(lock, &(struct relock_how){.lease_ms = lease_ms}, NULL);
}

int acquire_reporting(struct relock_lock *lock, relock_lost_fn *report, void *arg)
{
    return relock_acquire(lock, &(struct relock_how){.on_lost = report, .arg = arg}, NULL);
}

/* RELOCK_BUSY: the late acquire has not been released yet. */
int fixture_acquire(struct relock_lock *lock, const struct relock_how *how)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int r;

    do
        r = relock_acquire(lock, how, NULL);
    while ((r == RELOCK_E_CONN || r == RELOCK_BUSY) && now_ms() < deadline_ms);
    return r;
}

int fixture_timedlock(struct relock_lock *lock, int64_t wait_ms)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int r;

    do
        r = relock_timedlock(lock, wait_ms);
    while (r == RELOCK_E_CONN && now_ms() < deadline_ms);
    return r;
}

int fixture_late_is_timeout(const struct relock_how *how, int result)
{
    bool is_bounded = how->wait_ms > 0 && how->wait_ms < RELOCK_FOREVER;

    return is_bounded && result == RELOCK_E_CONN ? RELOCK_TIMEOUT : result;
}

void fixture_free_client(struct fixture *f, struct relock_client *client)
{
    for (size_t i = 0; i < FIXTURE_MAX_CLIENTS; i++) {
        if (f->clients[i] == client)
            f->clients[i] = NULL;
    }
    assert_null(relock_client_free(client));
}

void fixture_free_lock(struct fixture *f, struct relock_lock *lock)
{
    for (size_t i = 0; i < FIXTURE_MAX_LOCKS; i++) {
        if (f->locks[i] == lock)
            f->locks[i] = NULL;
    }
    assert_null(relock_lock_free(lock));
}

/* A hold of 100 ms has made a third connection, for subscriptions. */
static bool has_logged_in(void *arg)
{
    return probe_n_command_clients(arg, " name=relock:") == 2;
}

static int count_descriptors(struct child *parent, void *client)
{
    int64_t n = 0;

    (void)relock_client_free(client);
    for (int fd = 0; fd < MAX_DESCRIPTORS; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    child_must(child_send(parent, n));
    return EXIT_SUCCESS;
}

int64_t child_descriptors(struct relock_client *client)
{
    struct child *child = child_start(count_descriptors, client);
    int64_t n = -1;

    assert_true(child_receive(child, &n));
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    return n;
}

bool wait_for_login(struct probe *probe)
{
    return wait_until(has_logged_in, probe, SOON_MS);
}

static bool has_no_keys(void *arg)
{
    return probe_n_keys(arg) == 0;
}

bool wait_for_no_keys(struct probe *probe)
{
    bool are_none = wait_until(has_no_keys, probe, SOON_MS);

    late_is_leak();
    return are_none;
}

void check_result(int got, int wanted, const char *call, const char *file, int line)
{
    bool was_late = late_was();

    if (got == wanted)
        return;

    if (getpid() != main_process)
        child_check(false, call, file, line);
    if (was_late && got == ACTOR_BUSY)
        late_fail(call, file, line);
    print_error("%s: %d (%s), not %d (%s)\n", call, got, relock_strerror(got), wanted,
                relock_strerror(wanted));
    _fail(file, line);
}

void check_took(uint64_t began_ms, uint64_t ms, uint64_t late_ms, const char *file, int line)
{
    uint64_t took_ms = now_ms() - began_ms;

    if (took_ms + TWO_CLOCKS_MS < ms) {
        print_error("only %llu ms, not %llu\n", (unsigned long long)took_ms,
                    (unsigned long long)ms);
        _fail(file, line);
    }
    late_check_time(took_ms, ms + late_ms, "the end of the call", file, line);
}

void fixture_skip(void)
{
    print_error("there is no server that can run this: skipped\n");
    exit(SERVER_EXIT_SKIP);
}

int fixture_start_on(void **state, struct server *server)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    main_process = getpid();
    f->server = server;
    f->probe = probe_open(server->socket);
    *state = f;
    return 0;
}

int fixture_start_with(void **state, const struct server_options *options)
{
    struct server *server = server_start(options);

    if (!server)
        fixture_skip();
    return fixture_start_on(state, server);
}

int fixture_start(void **state)
{
    return fixture_start_with(state, NULL);
}

int fixture_start_tcp(void **state)
{
    return fixture_start_with(state, &(struct server_options){.tcp = true});
}

int fixture_stop(void **state)
{
    struct fixture *f = *state;

    probe_close(f->probe);
    server_stop(f->server);
    free(f);
    return 0;
}

int fixture_begin(void **state)
{
    struct fixture *f = *state;

    late_begin();
    probe_int(f->probe, "FLUSHALL");
    f->log = log_new();
    f->losses = losses_new();
    f->before = leaks_now();
    return 0;
}

bool fixture_is_alone(struct fixture *f, struct probe *probe)
{
    long long n = f->neighbours ? probe_n_clients(probe, f->neighbours) : 0;

    return probe_n_clients(probe, "") == n + 1 && (f->neighbours || probe_n_channels(probe) == 0);
}

/* Redis does not say whose a subscription is. Those of ours end with our connections. */
static bool has_no_channels(void *arg)
{
    struct fixture *f = arg;

    return f->neighbours || probe_n_channels(f->probe) == 0;
}

static bool has_no_other_clients(void *arg)
{
    struct fixture *f = arg;

    return fixture_is_alone(f, f->probe);
}

static bool holds_nothing(struct relock_client *client)
{
    struct relock_stats stats = stats_of(client);

    return stats.holds == 0 && stats.waiters == 0;
}

void fixture_give_back_kept(struct fixture *f)
{
    for (size_t i = 0; i < FIXTURE_MAX_CLIENTS; i++) {
        if (f->clients[i] && stats_of(f->clients[i]).kept > 0)
            relock_client_shutdown(f->clients[i]);
    }
}

/* Everything is taken down before anything is asserted: the next test must not suffer. */
int fixture_end(void **state)
{
    struct fixture *f = *state;
    bool no_holds = true;
    bool no_keys, no_keys_later, no_channels, no_clients, no_leaks;

    if (f->server->pid == 0)
        server_restart(f->server);
    server_resume(f->server);
    fixture_give_back_kept(f);
    no_keys = wait_for_no_keys(f->probe);
    for (size_t i = 0; i < FIXTURE_MAX_CLIENTS && no_holds; i++)
        no_holds = !f->clients[i] || holds_nothing(f->clients[i]);

    for (size_t i = 0; i < FIXTURE_MAX_CLIENTS; i++) {
        if (f->clients[i])
            relock_client_shutdown(f->clients[i]);
    }
    /* A shutdown does not end the waits of an owner with a hold. */
    for (size_t i = 0; i < FIXTURE_MAX_CLIENTS; i++)
        f->clients[i] = relock_client_free(f->clients[i]);
    actor_end_all();
    child_end_all();
    for (size_t i = 0; i < FIXTURE_MAX_LOCKS; i++)
        f->locks[i] = relock_lock_free(f->locks[i]);

    no_channels = wait_until(has_no_channels, f, SOON_MS);
    no_clients = wait_until(has_no_other_clients, f, SOON_MS);
    no_keys_later = probe_n_keys(f->probe) == 0;
    no_leaks = leaks_none_since(&f->before);
    f->losses = losses_free(f->losses);
    f->log = log_free(f->log);

    late_is_leak();
    if (late_has_failed()) /* halfway through the case */
        return 0;
    assert_true(no_keys);
    assert_true(no_holds);
    assert_true(no_channels);
    assert_true(no_clients);
    assert_true(no_keys_later);
    assert_true(no_leaks);
    return 0;
}

void forget_counters(struct probe *probe)
{
    static const char script[] =
        "for _, key in ipairs(redis.call('keys', 'redisson_lock_token:*')) do"
        "    redis.call('del', key) "
        "end "
        "return 0";

    probe_int(probe, "EVAL %s 0", script);
}

int fixture_end_fenced(void **state)
{
    struct fixture *f = *state;

    if (f->server->pid == 0)
        server_restart(f->server);
    server_resume(f->server);
    forget_counters(f->probe);
    return fixture_end(state);
}
