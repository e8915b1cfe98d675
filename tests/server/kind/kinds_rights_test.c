/*
 * The lines of `relock acl` suffice for the whole life of each kind of lock. A script that
 * needs another right would leave a line in the log. One that can do without it would still leave
 * an entry in the log of the server.
 */
#include "support/actor.h"
#include "support/fair_queue.h"
#include "support/plain_peer.h"
#include "support/rights.h"
#include "support/ring.h"

#include <string.h>

#include <stdio.h>

#define LEASE_MS 2000
#define ABSENT "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:41"

static struct relock_client *client_with(struct fixture *f, const char *kind, unsigned flags)
{
    rights_give(f, kind, NULL);
    assert_int_equal(probe_int(f->probe, "ACL LOG RESET"), 0);
    return rights_client(f, slow_ms(LEASE_MS), flags);
}

static struct relock_client *client_of(struct fixture *f, const char *kind)
{
    return client_with(f, kind, 0);
}

static void nothing_was_refused(struct fixture *f)
{
    assert_int_equal(log_count(f->log, "NOPERM"), 0);
    assert_int_equal(log_count(f->log, "the server refused PUBLISH"), 0);
    assert_int_equal(log_count(f->log, "refused to tell"), 0);
    assert_int_equal(log_count(f->log, "not subscribed"), 0);
    assert_int_equal(log_count(f->log, "; without it "), 0);
    assert_int_equal(log_count(f->log, "each release of this lock wakes"), 0);
    assert_string_equal(probe_list(f->probe, "ACL LOG"), "");
}

/* Acquired, nested, renewed, queried, waited for, released, and freed by force. */
static void live(struct relock_client *client, struct relock_lock *held, struct relock_lock *wanted)
{
    struct actor *other = actor_start();
    struct relock_holder holder;

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(relock_extend(held, 0, slow_ms(LEASE_MS)), RELOCK_OK);
    assert_result(relock_who_holds(held, &holder), RELOCK_OK);
    assert_int_equal(holder.hold_count, 2);
    assert_true(wait_for_renewals(client, 0, 1));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_trylock(other, wanted), RELOCK_BUSY);
    assert_result(actor_wait_out(other, wanted, 30), RELOCK_TIMEOUT);
    actor_begin_lock(other, wanted);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_result(relock_force_unlock(wanted), RELOCK_OK);
    assert_result(actor_unlock(other, wanted), RELOCK_LOST);
}

#define N_TOGETHER 8

/* So that some are renewed by one script. */
static void live_together(struct fixture *f, struct relock_client *client,
                          fixture_constructor_fn *constructor)
{
    struct relock_lock *locks[N_TOGETHER];
    uint64_t renewed = stats_of(client).renewed;
    char name[32];

    for (size_t i = 0; i < N_TOGETHER; i++) {
        snprintf(name, sizeof(name), "orders%zu", i);
        locks[i] = fixture_lock_of(f, client, name, constructor);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    assert_true(wait_for_renewals(client, renewed, N_TOGETHER));
    for (size_t i = 0; i < N_TOGETHER; i++)
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
}

static void live_with(struct fixture *f, const char *kind, fixture_constructor_fn *held,
                      fixture_constructor_fn *wanted)
{
    struct relock_client *client = client_of(f, kind);

    live(client, fixture_lock_of(f, client, "orders", held),
         fixture_lock_of(f, client, "orders", wanted));
    live_together(f, client, held);
    fixture_free_client(f, client); /* before the rights are taken, to be given anew */
    nothing_was_refused(f);
}

static void the_rights_of_a_reentrant_lock_suffice(void **state)
{
    live_with(*state, "reentrant", relock_lock_new, relock_lock_new);
}

static void the_rights_of_a_spin_lock_suffice(void **state)
{
    live_with(*state, "spin", relock_spinlock_new, relock_spinlock_new);
}

static void the_rights_of_a_plain_lock_suffice(void **state)
{
    live_with(*state, "plain", relock_plainlock_new, relock_plainlock_new);
}

static void the_rights_of_an_announced_plain_lock_suffice(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, "announced-plain", RELOCK_ANNOUNCE_PLAIN);
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", relock_plainlock_new);

    live(client, lock, lock);
    fixture_free_client(f, client);
    nothing_was_refused(f);
}

static int like_python(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_plainlock_like(client, "python-redis-lock", name, lock);
}

static int like_node(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_plainlock_like(client, "simple-redis-mutex", name, lock);
}

static int like_spring(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_plainlock_like(client, "spring-integration:shop", name, lock);
}

static void the_rights_of_a_lock_like_another_librarys_suffice(void **state)
{
    live_with(*state, "python-redis-lock", like_python, like_python);
    assert_true(wait_for_no_keys(((struct fixture *)*state)->probe)); /* a list of a second */
    live_with(*state, "simple-redis-mutex", like_node, like_node);
    live_with(*state, "spring-integration", like_spring, like_spring);
}

/* Its releases are found by polling. */
static void a_plain_lock_without_the_right_to_its_channel_is_not_announced(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, "plain", RELOCK_ANNOUNCE_PLAIN);
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", relock_plainlock_new);
    struct actor *waiting = actor_start();

    live(client, lock, lock);
    assert_true(log_wait(f->log, "the server refused PUBLISH", SOON_MS));
    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, NEVER_MS));
    actor_begin_lock(waiting, lock);
    assert_true(log_wait(f->log, "orders}: not subscribed: ", SOON_MS));
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_gets_in(waiting, lock);
}

static void the_rights_of_a_fenced_lock_suffice(void **state)
{
    live_with(*state, "fenced", relock_fencedlock_new, relock_fencedlock_new);
}

static void the_rights_of_a_semaphore_suffice(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "semaphore");
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", relock_semaphore_new);
    struct relock_how how = {.permits = 2};
    struct relock_permits permits;
    struct actor *other = actor_start();
    struct relock_holder holder;

    assert_result(relock_semaphore_init(lock, 1, NULL), RELOCK_OK);
    assert_result(relock_semaphore_set(lock, 2), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_semaphore_read(lock, &permits), RELOCK_OK);
    assert_result(relock_extend(lock, 0, slow_ms(LEASE_MS)), RELOCK_OK);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_int_equal(holder.hold_count, 2);
    assert_true(wait_for_renewals(client, 0, 1));
    assert_result(actor_trylock(other, lock), RELOCK_BUSY);
    assert_result(actor_wait_out(other, lock, 30), RELOCK_TIMEOUT);
    actor_begin_lock(other, lock);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(actor_unlock(other, lock), RELOCK_LOST);
    fixture_free_client(f, client);
    nothing_was_refused(f);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

/* Behind a dead waiter, and before one whose deadline allows for those ahead. */
static void the_rights_of_a_fair_lock_suffice(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "fair");
    struct relock_lock *lock = fair_handle(f, client);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *first = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    live(client, lock, lock);
    assert_result(relock_lock(lock), RELOCK_OK);
    fair_queue_add_dead(f, ABSENT, -1);
    fair_queue_add_dead(f, ABSENT "1", -1);
    actor_begin_acquire(first, lock, &how);
    assert_true(fair_queue_wait(f, 1)); /* the dead were dropped */
    fair_queue_add_dead(f, ABSENT, 100L * NEVER_MS);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    assert_true(fair_queue_wait(f, 1));
    fair_queue_begin(f, first, lock, 2);
    fair_queue_remove(f, ABSENT);
    fair_queue_add_dead(f, ABSENT, 100L * NEVER_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(first, lock);
    fair_queue_remove(f, ABSENT);
    relock_cancel_free(how.cancel);
    fixture_free_client(f, client);
    nothing_was_refused(f);
}

static void the_rights_of_a_read_write_lock_suffice(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "read-write");
    struct relock_lock *read = fixture_lock_of(f, client, "orders", relock_rdlock_new);
    struct relock_lock *write = fixture_lock_of(f, client, "orders", relock_wrlock_new);

    live(client, write, read);
    assert_result(relock_lock(write), RELOCK_OK);
    assert_result(relock_lock(read), RELOCK_OK);
    assert_result(relock_unlock(write), RELOCK_OK); /* steps down */
    assert_result(relock_unlock(read), RELOCK_OK);
    fixture_free_client(f, client);
    live_with(f, "read-write", relock_rdlock_new, relock_wrlock_new);
    live_with(f, "read-write", relock_wrlock_new, relock_wrlock_new);
}

/* ---- rights that are rarely needed --------------------------------------------------------- */

/* Tests of relock acl try all others, tests/cli/acl_test.c. */
static void a_right_for_dead_waiters_is_needed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *lock;

    rights_give(f, "fair", "+lpop");
    client = rights_client(f, slow_ms(LEASE_MS), 0);
    lock = fair_handle(f, client);
    fair_queue_add_dead(f, ABSENT, -1);
    assert_result(relock_trylock(lock), RELOCK_E_AUTH);
    assert_int_equal(probe_int(f->probe, "DEL redisson_lock_queue:{orders}"), 1);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    fixture_free_client(f, client);
}

/* Two clients wait for each other. Returns what was refused. */
static const char *deadlock(struct fixture *f, const char *kind, const char *without,
                            fixture_constructor_fn *make)
{
    static const char *const names[] = {"orders:a", "orders:b"};
    struct relock_client *clients[2];
    struct ring ring;

    rights_give(f, kind, without);
    assert_int_equal(probe_int(f->probe, "ACL LOG RESET"), 0);
    for (int i = 0; i < 2; i++)
        clients[i] = fixture_client(f, &(struct relock_options){.user = RIGHTS_USER,
                                                                .password = RIGHTS_PASSWORD,
                                                                .deadlock_ms = DEADLOCK_MS});
    ring = ring_of_locks(f, clients, names, 2, make);
    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
    actor_end_all();
    for (int i = 0; i < 2; i++)
        fixture_free_client(f, clients[i]);
    return probe_list(f->probe, "ACL LOG");
}

static void a_right_for_deadlocks_is_needed(void **state)
{
    static const struct {
        const char *name;
        fixture_constructor_fn *make;
    } kinds[] = {{"spin", relock_spinlock_new}, {"plain", relock_plainlock_new}};
    struct fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(deadlock(f, kinds[i].name, NULL, kinds[i].make), "");
        assert_non_null(strstr(deadlock(f, kinds[i].name, "+publish", kinds[i].make), "publish"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_rights_of_a_reentrant_lock_suffice),
        SERVER_TEST(the_rights_of_a_spin_lock_suffice),
        SERVER_TEST(the_rights_of_a_plain_lock_suffice),
        SERVER_TEST(the_rights_of_an_announced_plain_lock_suffice),
        SERVER_TEST(the_rights_of_a_lock_like_another_librarys_suffice),
        SERVER_TEST(a_plain_lock_without_the_right_to_its_channel_is_not_announced),
        FENCED_TEST(the_rights_of_a_fenced_lock_suffice),
        SERVER_TEST(the_rights_of_a_semaphore_suffice),
        SERVER_TEST(the_rights_of_a_fair_lock_suffice),
        SERVER_TEST(the_rights_of_a_read_write_lock_suffice),
        SERVER_TEST(a_right_for_dead_waiters_is_needed),
        SERVER_TEST(a_right_for_deadlocks_is_needed),
    };

    return SERVER_TESTS_RUN(tests);
}
