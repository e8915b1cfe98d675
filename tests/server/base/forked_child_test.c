/* A forked child does not own its parent's locks, and leaves them alone. */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/peer.h"
#include "support/reactor.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 3500
#define N_OF_A_CLIENT 5 /* descriptors, at least: three connections, the loop, the reading */
#define N_FORKS 100

/* The objects that the child inherits. */
struct heritage {
    struct fixture *f;
    struct relock_client *client;
    struct relock_lock *lock;
    struct relock_lock *fair, *spin, *semaphore;
    struct relock_cancel *cancel;
    struct relock_events *events;
};

static bool see_nothing(const struct relock_lock_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return true;
}

static int use_everything(struct child *parent, void *arg)
{
    struct heritage *of = arg;
    struct relock_grant grant = {.hold_count = 7};
    struct relock_stats stats;
    struct relock_holder holder;
    struct relock_permits permits;
    struct relock_events *events;
    struct relock_lock *lock;
    unsigned count;
    int64_t ttl_ms;
    bool locked;
    size_t len;

    (void)parent;
    child_must(relock_lock(of->lock) == RELOCK_E_FORKED);
    child_must(relock_trylock(of->lock) == RELOCK_E_FORKED);
    child_must(relock_timedlock(of->lock, 10) == RELOCK_E_FORKED);
    child_must(relock_acquire(of->lock, NULL, &grant) == RELOCK_E_FORKED);
    child_must(grant.hold_count == 0);
    child_must(relock_unlock(of->lock) == RELOCK_E_FORKED);
    child_must(relock_release(of->lock, 1) == RELOCK_E_FORKED);
    child_must(relock_extend(of->lock, 0, 1000) == RELOCK_E_FORKED);
    child_must(relock_force_unlock(of->lock) == RELOCK_E_FORKED);
    child_must(relock_fairlock_set_patience(of->fair, 5000) == RELOCK_E_FORKED);
    child_must(relock_spinlock_set_pauses(of->spin, 1, 100) == RELOCK_E_FORKED);
    child_must(relock_semaphore_init(of->semaphore, 2, NULL) == RELOCK_E_FORKED);
    child_must(relock_semaphore_set(of->semaphore, 2) == RELOCK_E_FORKED);
    child_must(relock_semaphore_add(of->semaphore, 1) == RELOCK_E_FORKED);
    child_must(relock_semaphore_read(of->semaphore, &permits) == RELOCK_E_FORKED);
    child_must(relock_force_unlock_permit(of->semaphore, "00", NULL) == RELOCK_E_FORKED);
    child_must(relock_who_holds(of->lock, &holder) == RELOCK_E_FORKED);
    child_must(relock_is_locked(of->lock, &locked) == RELOCK_E_FORKED);
    child_must(relock_hold_count(of->lock, &count) == RELOCK_E_FORKED);
    child_must(relock_hold_count_of(of->lock, 1, &count) == RELOCK_E_FORKED);
    child_must(relock_ttl_ms(of->lock, &ttl_ms) == RELOCK_E_FORKED);
    child_must(relock_check(of->lock, 0, &grant) == RELOCK_E_FORKED);
    child_must(relock_valid_ms(of->lock) == 0);
    child_must(!relock_is_mine(of->lock));
    child_must(relock_lock_new(of->client, "late", &lock) == RELOCK_E_FORKED);
    child_must(relock_locks(of->client, "*", see_nothing, NULL) == RELOCK_E_FORKED);
    child_must(relock_events_new(of->client, &events) == RELOCK_E_FORKED);
    child_must(relock_client_ready(of->client, NULL) == RELOCK_E_FORKED);
    child_must(relock_client_set_password(of->client, NULL, "secret") == RELOCK_E_FORKED);
    child_must(relock_client_stats(of->client, &stats, sizeof(stats)) == RELOCK_E_FORKED);
    child_must(relock_stats_print(of->client, NULL, NULL, 0, &len) == RELOCK_E_FORKED);
    relock_client_shutdown(of->client);
    return EXIT_SUCCESS;
}

static void every_call_in_the_child_returns_forked(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct heritage heritage = {
        .f = f,
        .client = client,
        .lock = fixture_lock(f, client, "orders"),
        .fair = fixture_lock_of(f, client, "fair", relock_fairlock_new),
        .spin = fixture_lock_of(f, client, "spin", relock_spinlock_new),
        .semaphore = fixture_lock_of(f, client, "jobs", relock_semaphore_new),
    };

    assert_result(relock_lock(heritage.lock), RELOCK_OK);
    assert_int_equal(child_wait(child_start(use_everything, &heritage), SOON_MS), EXIT_SUCCESS);

    /* The shutdown was the child's own. */
    assert_result(relock_lock(heritage.lock), RELOCK_OK);
    assert_result(relock_unlock(heritage.lock), RELOCK_OK);
    assert_result(relock_unlock(heritage.lock), RELOCK_OK);
}

static int free_everything(struct child *parent, void *arg)
{
    struct heritage *of = arg;

    (void)parent;
    child_must(relock_lock_free(of->lock) == NULL);
    child_must(relock_client_free(of->client) == NULL);
    return EXIT_SUCCESS;
}

static void freeing_in_the_child_touches_nothing_of_the_parent(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct heritage heritage = {.client = client, .lock = fixture_lock(f, client, "orders")};

    assert_result(relock_lock(heritage.lock), RELOCK_OK);
    assert_int_equal(child_wait(child_start(free_everything, &heritage), SOON_MS), EXIT_SUCCESS);

    /* One may have been in flight. */
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 2));
    assert_result(relock_check(heritage.lock, 0, NULL), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_int_equal(stats_of(client).reconnects, 0);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_unlock(heritage.lock), RELOCK_OK);
}

/* With connections for calls, for renewals and for messages. */
static void freeing_in_the_child_closes_all_descriptors_of_the_client(void **state)
{
    struct fixture *f = *state;
    int64_t n_before = child_descriptors(NULL);
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[2];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actors_begin_lock(waiting, 2, lock);
    assert_true(wait_for_waiters(client, 2));
    assert_true(probe_wait_lock_channels(f->probe, 1));
    assert_true(child_descriptors(NULL) >= n_before + N_OF_A_CLIENT);
    assert_int_equal(child_descriptors(client), n_before);

    relock_client_shutdown(client);
    assert_results(waiting, 2, RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void freeing_in_the_child_works_while_connections_come_and_go(void **state)
{
    struct fixture *f = *state;
    int64_t n_before = child_descriptors(NULL);
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.url = f->server->tcp_url});

    for (int i = 0; i < N_FORKS; i++) {
        probe_int(f->probe, "CLIENT KILL TYPE normal SKIPME yes");
        sched_yield();
        assert_int_equal(child_descriptors(client), n_before);
    }
}

/* As a daemon does. */
static void close_all_but_the_standard_streams(void)
{
    for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
        (void)close(fd);
}

static int free_without_descriptors(struct child *parent, void *arg)
{
    const int untouched = 4711;
    struct heritage *of = arg;

    (void)parent;
    close_all_but_the_standard_streams();
    errno = untouched;
    child_must(relock_events_free(of->events) == NULL);
    child_must(errno == untouched);
    child_must(relock_client_free(of->client) == NULL);
    child_must(errno == untouched);
    return EXIT_SUCCESS;
}

static void freeing_in_a_child_that_has_closed_its_descriptors_sets_no_errno(void **state)
{
    struct fixture *f = *state;
    struct heritage heritage = {.client = fixture_client(f, NULL)};

    heritage.events = reactor_events(heritage.client);
    assert_int_equal(child_wait(child_start(free_without_descriptors, &heritage), SOON_MS),
                     EXIT_SUCCESS);
    assert_null(relock_events_free(heritage.events));
}

/* Threads of the parent are inside the library at the moment of the fork, and hold its mutexes. */
static void freeing_works_in_the_child_while_the_parents_threads_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct heritage heritage = {.client = client, .lock = fixture_lock(f, client, "orders")};
    struct actor *waiting[4];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actors_begin_lock(waiting, 4, heritage.lock);
    for (int i = 0; i < 20; i++)
        assert_int_equal(child_wait(child_start(free_everything, &heritage), SOON_MS),
                         EXIT_SUCCESS);

    relock_client_shutdown(client);
    assert_results(waiting, 4, RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static int compete(struct child *parent, void *arg)
{
    struct heritage *of = arg;
    struct relock_options options = {.url = of->f->server->unix_url,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    struct relock_client *client;
    struct relock_lock *lock;

    child_must(relock_client_new(&options, &client) == RELOCK_OK);
    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_trylock(lock) == RELOCK_BUSY);
    child_must(child_send(parent, 1));
    child_must(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)) == RELOCK_OK);
    child_must(relock_unlock(lock) == RELOCK_OK);
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

static void a_client_made_in_the_child_is_a_stranger(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct heritage heritage = {
        .f = f, .client = client, .lock = fixture_lock(f, client, "orders")};
    struct child *child;

    if (!child_can_have_threads())
        skip();
    assert_result(relock_lock(heritage.lock), RELOCK_OK);
    child = child_start(compete, &heritage);
    assert_true(child_await(child));
    assert_result(relock_unlock(heritage.lock), RELOCK_OK);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
}

static int say_id(struct child *parent, void *arg)
{
    struct heritage *of = arg;
    struct relock_options options = {.url = of->f->server->unix_url,
                                     .connect_timeout_ms = slow_ms(SOON_MS)};
    const char *before = relock_client_id(of->client);
    struct relock_client *client;
    bool same;

    (void)parent;
    child_must(relock_client_new(&options, &client) == RELOCK_OK);
    same = strcmp(before, relock_client_id(client)) == 0;
    child_must(child_send(parent, (int64_t)strtoull(relock_client_id(client), NULL, 16)));
    relock_client_free(client);
    return same;
}

/* Parent and children must not make the same ids. */
static void children_have_identities_of_their_own(void **state)
{
    struct fixture *f = *state;
    struct heritage heritage = {.f = f, .client = fixture_client(f, NULL)};
    int64_t ids[2];

    if (!child_can_have_threads())
        skip();
    for (int i = 0; i < 2; i++) {
        struct child *child = child_start(say_id, &heritage);

        assert_true(child_receive(child, &ids[i]));
        assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    }
    assert_true(ids[0] != ids[1]);
}

static int use_cancel(struct child *parent, void *arg)
{
    struct heritage *of = arg;

    (void)parent;
    relock_cancel_fire(of->cancel);
    relock_cancel_free(of->cancel);
    return EXIT_SUCCESS;
}

static void a_cancel_fired_in_the_child_is_the_childs_alone(void **state)
{
    struct fixture *f = *state;
    struct heritage heritage = {.f = f};
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&heritage.cancel), RELOCK_OK);
    how.cancel = heritage.cancel;
    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actor_begin_acquire(waiting, lock, &how);
    assert_true(wait_for_waiters(client, 1));
    assert_int_equal(child_wait(child_start(use_cancel, &heritage), SOON_MS), EXIT_SUCCESS);
    let_pass(20);
    assert_true(actor_is_busy(waiting));
    relock_cancel_fire(heritage.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    relock_cancel_free(heritage.cancel);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(every_call_in_the_child_returns_forked),
        SERVER_TEST(freeing_in_the_child_touches_nothing_of_the_parent),
        SERVER_TEST(freeing_in_the_child_closes_all_descriptors_of_the_client),
        SERVER_TEST(freeing_in_the_child_works_while_connections_come_and_go),
        SERVER_TEST(freeing_in_a_child_that_has_closed_its_descriptors_sets_no_errno),
        SERVER_TEST(freeing_works_in_the_child_while_the_parents_threads_lock),
        SERVER_TEST(a_client_made_in_the_child_is_a_stranger),
        SERVER_TEST(children_have_identities_of_their_own),
        SERVER_TEST(a_cancel_fired_in_the_child_is_the_childs_alone),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
