/* No further connection, descriptor or thread can be had: what there is has to do. */
#include "support/actor.h"
#include "support/child.h"
#include "support/kinds.h"
#include "support/multi.h"
#include "support/reactor.h"
#include "support/waiter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEASE_MS 2000
#define CROWD_LEASE_MS 5000        /* a busy machine runs the threads of a crowd one by one */
#define KEPT_MS (3 * LEASE_MS / 2) /* a hold without renewals is lost by then */
#define N_THREADS 12
#define ROUNDS 200
#define LOW_FD 24 /* no descriptor is free below */
#define BORROWED "no connection for renewals could be made, so they go over one of the calls"

/* The server accepts so many connections more, or so many fewer than there are. */
static void leave_room_for(struct fixture *f, long long n)
{
    assert_int_equal(
        probe_int(f->probe, "CONFIG SET maxclients %lld", probe_n_clients(f->probe, "") + n), 0);
}

static int end(void **state)
{
    struct fixture *f = *state;

    probe_int(f->probe, "CONFIG SET maxclients 10000");
    return fixture_end(state);
}

static void outlives_leases(struct fixture *f, struct relock_lock *lock)
{
    let_pass(slow_ms(KEPT_MS));
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
}

static struct relock_client *client_with_one_connection(struct fixture *f, uint64_t lease_ms)
{
    struct relock_client *client;

    leave_room_for(f, 1);
    client = watchful_client(f, lease_ms);
    assert_true(log_wait(f->log, BORROWED, SOON_MS));
    assert_true(log_wait(f->log, "max number of clients reached: raise maxclients", SOON_MS));
    return client;
}

struct turns {
    struct relock_lock *lock;
    uint64_t until_ms;
};

static struct turns turns_of(struct fixture *f, struct relock_client *client, const char *name,
                             uint64_t lease_ms)
{
    return (struct turns){.lock = fixture_lock(f, client, name),
                          .until_ms = now_ms() + slow_ms(3 * lease_ms / 2)};
}

static int take_turns(void *arg)
{
    const struct turns *turns = arg;
    int r = RELOCK_OK;

    while (now_ms() < turns->until_ms && r == RELOCK_OK) {
        r = relock_lock(turns->lock);
        if (r == RELOCK_OK)
            r = relock_unlock(turns->lock);
    }
    return r;
}

/* The other one was first. */
static void kill_that_for_renewals(struct probe *probe)
{
    assert_true(probe_kill_newest(probe));
}

static void kill_all(struct probe *probe)
{
    probe_int(probe, "CLIENT KILL TYPE normal SKIPME yes");
}

/* Each thread has a lock of its own. */
static void use_all_connections(struct fixture *f, struct relock_client *client)
{
    struct actor *actors[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "lock%d", i);
        actors[i] = actor_start();
        actor_begin_turns(actors[i], fixture_lock(f, client, name), ROUNDS);
    }
    assert_results(actors, N_THREADS, RELOCK_OK);
}

/* ---- maxclients ---------------------------------------------------------------------------- */

static void a_hold_is_renewed_over_the_only_connection(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with_one_connection(f, LEASE_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    outlives_leases(f, lock);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(kind_holder(f, "orders"), "");
}

static void calls_and_renewals_take_turns_at_the_only_connection(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with_one_connection(f, LEASE_MS);
    struct relock_lock *held = fixture_lock(f, client, "held");
    struct turns turns = turns_of(f, client, "other", LEASE_MS);

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(take_turns(&turns), RELOCK_OK);
    assert_result(relock_check(held, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
}

static void a_multi_lock_is_renewed_over_the_only_connection(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, client_with_one_connection(f, LEASE_MS));

    assert_result(relock_lock(t.both), RELOCK_OK);
    outlives_leases(f, t.both);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_true(wait_for_no_keys(f->probe));
}

static void asynchronous_calls_go_over_the_only_connection(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with_one_connection(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome outcome;

    assert_result(outcome_acquire(lock, NULL, events, &outcome), RELOCK_OK);
    assert_result(reactor_await(events, &outcome), RELOCK_OK);
    let_pass(slow_ms(KEPT_MS));
    assert_result(relock_check(lock, outcome.grant.owner, NULL), RELOCK_OK);
    assert_result(reactor_release(lock, outcome.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void a_hold_outlives_the_end_of_the_connection_for_renewals(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_true(wait_for_login(f->probe));
    assert_result(relock_lock(lock), RELOCK_OK);
    leave_room_for(f, -1);
    kill_that_for_renewals(f->probe);
    assert_true(log_wait(f->log, BORROWED, SOON_MS));
    outlives_leases(f, lock);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static long long n_refused_connections(struct fixture *f)
{
    const char *at = strstr(probe_text(f->probe, "INFO stats"), "rejected_connections:");

    assert_non_null(at);
    return strtoll(at + strlen("rejected_connections:"), NULL, 10);
}

static void more_threads_than_connections_share_those_that_there_are(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *held;
    long long n_refused;

    leave_room_for(f, 4);
    client = watchful_client(f, LEASE_MS);
    held = fixture_lock(f, client, "held");
    assert_result(relock_lock(held), RELOCK_OK);
    n_refused = n_refused_connections(f);
    use_all_connections(f, client);
    assert_true(n_refused_connections(f) - n_refused < N_THREADS * ROUNDS / 10);
    outlives_leases(f, held);
    assert_result(relock_unlock(held), RELOCK_OK);
}

static void a_hold_outlives_a_crowd_at_the_only_connection(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with_one_connection(f, CROWD_LEASE_MS);
    struct relock_lock *held = fixture_lock(f, client, "held");
    struct turns turns[N_THREADS];
    struct actor *actors[N_THREADS];

    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < N_THREADS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "lock%d", i);
        turns[i] = turns_of(f, client, name, CROWD_LEASE_MS);
        actors[i] = actor_start();
        actor_begin(actors[i], take_turns, &turns[i]);
    }
    assert_results(actors, N_THREADS, RELOCK_OK);
    assert_result(relock_check(held, 0, NULL), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* Replicas have to acknowledge its renewals, which takes a further connection. */
static void an_acknowledged_hold_is_renewed_over_the_only_connection(void **state)
{
    struct fixture *f = *state;
    struct server *replica = server_start_replica(f->server);
    struct relock_client *client;
    struct relock_lock *lock;

    assert_true(probe_wait_replica(f->probe));
    leave_room_for(f, 1);
    client = fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                        .min_replicas = 1,
                                                        .replica_timeout_ms = slow_ms(2000)});
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    outlives_leases(f, lock);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    server_stop(replica);
}

static void a_waiter_without_messages_asks_and_the_log_says_so(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *waiting = actor_start();

    leave_room_for(f, 2);
    client = fixture_client(f, &(struct relock_options){.recheck_ms = 200});
    assert_true(wait_for_login(f->probe));
    lock = fixture_lock(f, client, "orders");
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    actor_begin_lock(waiting, lock);
    assert_true(log_wait(f->log, "waiters ask Redis meanwhile", SOON_MS));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_gets_in(waiting, lock);
}

/* ---- maxclients, after the end of connections that were used ------------------------------- */

/* Ends the connections of clients, and accepts none beside `n` and those that stay. */
static void end_all_but(struct fixture *f, long long n, bool with_messages)
{
    if (with_messages)
        probe_int(f->probe, "CLIENT KILL TYPE pubsub");
    probe_int(f->probe, "CONFIG SET maxclients 1");
    kill_all(f->probe);
    leave_room_for(f, n);
}

static void goes_on_over_what_there_is(struct fixture *f, struct relock_client *client,
                                       struct relock_lock *held)
{
    struct relock_lock *other = fixture_lock(f, client, "other");
    uint64_t until_ms = now_ms() + slow_ms(KEPT_MS);

    while (now_ms() < until_ms) {
        assert_result(relock_lock(other), RELOCK_OK);
        assert_result(relock_unlock(other), RELOCK_OK);
        let_pass(100);
    }
    assert_result(relock_check(held, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
}

static struct relock_client *client_of_many(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){
                                 .watchdog_timeout_ms = slow_ms(LEASE_MS),
                                 .connections = N_THREADS,
                             });
}

/* No call has noticed yet that the other connections have ended. */
static void calls_get_the_only_connection_after_all_others_have_ended(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of_many(f);
    struct relock_lock *held = fixture_lock(f, client, "held");

    assert_result(relock_lock(held), RELOCK_OK);
    use_all_connections(f, client);
    end_all_but(f, 1, true);
    goes_on_over_what_there_is(f, client, held);
}

static bool has_messages(void *arg)
{
    return probe_n_clients(arg, " sub=1 ") == 1;
}

static void the_connection_for_messages_makes_room_for_renewals(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of_many(f);
    struct relock_lock *held = fixture_lock(f, client, "held");

    assert_result(relock_lock(held), RELOCK_OK);
    assert_true(wait_until(has_messages, f->probe, SOON_MS));
    end_all_but(f, 0, false);
    assert_true(log_wait(f->log, "it makes room for the connection for renewals", SOON_MS));
    goes_on_over_what_there_is(f, client, held);
}

/* ---- descriptors and threads --------------------------------------------------------------- */

static void use_up_low_descriptors(void)
{
    int fd;

    do
        fd = dup(STDERR_FILENO);
    while (fd >= 0 && fd < LOW_FD);
    child_must(fd >= LOW_FD);
}

static void keep_through(struct child *parent, struct relock_client *client,
                         struct relock_lock *lock)
{
    child_must(relock_check(lock, 0, NULL) == RELOCK_OK);
    child_must(child_send(parent, 0)); /* its connections may end now */
    child_must(child_await(parent));
    let_pass(slow_ms(KEPT_MS));
    child_must(relock_check(lock, 0, NULL) == RELOCK_OK);
    child_must(relock_unlock(lock) == RELOCK_OK);
    child_must(!relock_lock_free(lock));
    child_must(!relock_client_free(client));
}

static struct relock_lock *hold(struct relock_client *client)
{
    struct relock_lock *lock;

    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    return lock;
}

static int keep_without_descriptors(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct rlimit limit;
    struct relock_client *client;
    struct relock_lock *lock;

    use_up_low_descriptors();
    client = child_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    child_must(wait_for_login(f->probe));
    lock = hold(client);
    child_must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = LOW_FD;
    child_must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    child_must(dup(STDERR_FILENO) < 0);
    keep_through(parent, client, lock);
    return EXIT_SUCCESS;
}

/* Of a child that keeps a lock meanwhile: keep_through(). */
static void cut_off(struct fixture *f, child_fn *keep, void (*cut)(struct probe *probe))
{
    struct child *child = child_start(keep, f);

    assert_true(child_await(child));
    cut(f->probe);
    assert_true(child_send(child, 0));
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
}

static void a_hold_outlives_its_connection_without_a_free_descriptor(void **state)
{
    cut_off(*state, keep_without_descriptors, kill_that_for_renewals);
}

static void *return_at_once(void *arg)
{
    return arg;
}

/* No limit counts for root. */
static void allow_no_more_threads(void)
{
    const struct rlimit none = {0, 0};
    pthread_t thread;

    child_must(geteuid() != 0 || setuid(65534) == 0);
    child_must(setrlimit(RLIMIT_NPROC, &none) == 0);
    child_must(pthread_create(&thread, NULL, return_at_once, NULL) != 0);
}

static int reconnect_without_threads(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    char url[64];
    struct relock_options options =
        fixture_options(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_client *client;
    struct relock_lock *lock;

    snprintf(url, sizeof(url), "redis://localhost%s", strrchr(f->server->tcp_url, ':'));
    options.url = url;
    child_must(relock_client_new(&options, &client) == RELOCK_OK);
    lock = hold(client);
    allow_no_more_threads();
    keep_through(parent, client, lock);
    return EXIT_SUCCESS;
}

static void a_client_of_a_name_reconnects_without_a_new_thread(void **state)
{
    cut_off(*state, reconnect_without_threads, kill_all);
}

#define LIMITS_TEST(function) cmocka_unit_test_setup_teardown(function, fixture_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIMITS_TEST(a_hold_outlives_its_connection_without_a_free_descriptor),
        LIMITS_TEST(a_client_of_a_name_reconnects_without_a_new_thread),
        LIMITS_TEST(a_hold_is_renewed_over_the_only_connection),
        LIMITS_TEST(calls_and_renewals_take_turns_at_the_only_connection),
        LIMITS_TEST(a_multi_lock_is_renewed_over_the_only_connection),
        LIMITS_TEST(asynchronous_calls_go_over_the_only_connection),
        LIMITS_TEST(a_hold_outlives_the_end_of_the_connection_for_renewals),
        LIMITS_TEST(more_threads_than_connections_share_those_that_there_are),
        LIMITS_TEST(a_hold_outlives_a_crowd_at_the_only_connection),
        LIMITS_TEST(an_acknowledged_hold_is_renewed_over_the_only_connection),
        LIMITS_TEST(a_waiter_without_messages_asks_and_the_log_says_so),
        LIMITS_TEST(calls_get_the_only_connection_after_all_others_have_ended),
        LIMITS_TEST(the_connection_for_messages_makes_room_for_renewals),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
