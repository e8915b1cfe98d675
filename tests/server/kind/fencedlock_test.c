/* Fenced locks: each hold has a token greater than that of every hold before. */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define COUNTER "redisson_lock_token:{orders}"
#define LONG_MS 60000 /* leases, and a hand-off budget */
#define DEPTH 5
#define N_PROCESSES 2 /* beside this one */
#define N_THREADS 3   /* of each client */
#define N_ROUNDS 60

static struct relock_lock *fencedlock(struct fixture *f, struct relock_client *client)
{
    return fixture_lock_of(f, client, "orders", relock_fencedlock_new);
}

/* Takes the lock for a moment. */
static uint64_t draw(struct relock_lock *lock)
{
    struct relock_grant grant;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    return grant.fencing_token;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static void each_hold_has_a_greater_token(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = fencedlock(f, fixture_client(f, NULL));
    struct relock_lock *theirs = fencedlock(f, fixture_client(f, NULL));
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        uint64_t token = draw(i % 3 ? ours : theirs);

        assert_true(token > last);
        last = token;
    }
    assert_int_equal(probe_int(f->probe, "GET " COUNTER), last);
}

static void the_token_is_the_same_at_every_level(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fencedlock(f, fixture_client(f, NULL));
    struct relock_grant grant;
    uint64_t token = 0;

    draw(lock);
    for (int level = 1; level <= DEPTH; level++) {
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        if (level == 1)
            token = grant.fencing_token;
        assert_true(grant.fencing_token == token);
        assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
        assert_true(grant.fencing_token == token);
    }
    assert_int_equal(probe_int(f->probe, "GET " COUNTER), token);
    for (int level = DEPTH; level > 0; level--) {
        assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
        assert_true(grant.fencing_token == token);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_result(relock_check(lock, 0, &grant), RELOCK_NOT_OWNER);
    assert_true(grant.fencing_token == 0);
    assert_true(draw(lock) > token);
}

/* A hold keeps its token, even if the counter changes. */
static void a_hold_keeps_its_token_when_the_counter_changes(void **state)
{
    static const char *const changes[] = {"DEL " COUNTER, "SET " COUNTER " 1000"};
    struct fixture *f = *state;
    struct relock_lock *lock = fencedlock(f, fixture_client(f, NULL));
    struct relock_grant grant;
    uint64_t token;

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        token = grant.fencing_token;
        probe_int(f->probe, changes[i]);
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        assert_true(grant.fencing_token == token);
        assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
        assert_true(grant.fencing_token == token);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_int_equal(draw(lock), 1001);
}

static void a_refused_try_draws_none(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = fencedlock(f, fixture_client(f, NULL));
    struct relock_lock *theirs = fencedlock(f, fixture_client(f, NULL));
    struct relock_grant grant, refused;

    assert_result(relock_acquire(ours, NULL, &grant), RELOCK_OK);
    assert_result(relock_acquire(theirs, NULL, &refused), RELOCK_BUSY);
    assert_true(refused.fencing_token == 0);
    assert_result(fixture_timedlock(theirs, 30), RELOCK_TIMEOUT);
    assert_int_equal(probe_int(f->probe, "GET " COUNTER), grant.fencing_token);
    assert_result(relock_unlock(ours), RELOCK_OK);
}

static void without_a_token_nothing_is_held(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fencedlock(f, client);

    probe_int(f->probe, "SET " COUNTER " text");
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_int_equal(stats_of(client).holds, 0);
}

/* ---- all of several processes -------------------------------------------------------------- */

/* The tokens in the order of the holds: each is written while the lock is held. */
struct record {
    atomic_int n;
    _Atomic uint64_t tokens[2 * (N_PROCESSES + 1) * N_THREADS * N_ROUNDS];
};

struct drawer {
    struct relock_lock *lock;
    struct record *record;
};

static int rounds(void)
{
    return N_ROUNDS / (int)slow_ms(1);
}

static int draw_often(void *arg)
{
    struct drawer *drawer = arg;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct relock_grant grant;

    for (int i = 0; i < rounds(); i++) {
        int r = relock_acquire(drawer->lock, &how, &grant);

        if (r == RELOCK_OK) {
            atomic_store(&drawer->record->tokens[atomic_load(&drawer->record->n)],
                         grant.fencing_token);
            atomic_fetch_add(&drawer->record->n, 1);
            r = relock_unlock(drawer->lock);
        }
        if (r != RELOCK_OK)
            return r;
    }
    return RELOCK_OK;
}

/* Two clients with some threads each. Returns the first result that was not RELOCK_OK. */
static int draw_in_threads(const struct relock_options *options, struct record *record)
{
    struct relock_client *clients[2] = {NULL};
    struct drawer drawers[2] = {{.record = record}, {.record = record}};
    struct actor *actors[2 * N_THREADS];
    int result = RELOCK_OK;

    for (int i = 0; i < 2; i++) {
        if (relock_client_new(options, &clients[i]) != RELOCK_OK ||
            relock_fencedlock_new(clients[i], "orders", &drawers[i].lock) != RELOCK_OK)
            abort();
    }
    for (int i = 0; i < 2 * N_THREADS; i++) {
        actors[i] = actor_start();
        actor_begin(actors[i], draw_often, &drawers[i % 2]);
    }
    for (int i = 0; i < 2 * N_THREADS; i++) {
        int r = actor_result_within(actors[i], 6 * (uint64_t)SOON_MS);

        result = r != RELOCK_OK ? r : result;
        actor_end(actors[i]);
    }
    for (int i = 0; i < 2; i++) {
        relock_lock_free(drawers[i].lock);
        relock_client_free(clients[i]);
    }
    return result;
}

struct family {
    struct fixture *f;
    struct record *record;
};

static int draw_in_process(struct child *parent, void *arg)
{
    struct family *family = arg;
    struct relock_options options = {.url = family->f->server->unix_url,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};

    child_must(child_await(parent));
    child_must(draw_in_threads(&options, family->record) == RELOCK_OK);
    return EXIT_SUCCESS;
}

static void tokens_grow_over_all_threads_clients_and_processes(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = fixture_options(f, NULL);
    struct record *record =
        mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct family family = {f, record};
    struct child *children[N_PROCESSES];
    uint64_t last = 0;

    assert_true(record != MAP_FAILED);
    for (int i = 0; i < N_PROCESSES; i++)
        children[i] = child_start(draw_in_process, &family);
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_send(children[i], 1));
    assert_result(draw_in_threads(&options, record), RELOCK_OK);
    for (int i = 0; i < N_PROCESSES; i++)
        assert_int_equal(child_wait(children[i], 6 * (uint64_t)SOON_MS), EXIT_SUCCESS);

    assert_int_equal(atomic_load(&record->n), 2 * (N_PROCESSES + 1) * N_THREADS * rounds());
    for (int i = 0; i < atomic_load(&record->n); i++) {
        uint64_t token = atomic_load(&record->tokens[i]);

        assert_true(token > last);
        last = token;
    }
    munmap(record, sizeof(*record));
}

/* ---- from hold to hold --------------------------------------------------------------------- */

static void a_hold_is_never_handed_off(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS, .recheck_ms = NEVER_MS});
    struct relock_lock *lock = fencedlock(f, client);
    struct actor *waiting[3];
    struct relock_grant grant;
    uint64_t last;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    last = grant.fencing_token;
    for (int i = 0; i < 3; i++) {
        waiting[i] = actor_start();
        actor_begin_acquire(waiting[i], lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER});
        assert_true(wait_for_waiters(client, (uint64_t)i + 1));
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        assert_true(actor_grant(waiting[i]).fencing_token > last);
        last = actor_grant(waiting[i]).fencing_token;
        assert_result(actor_unlock(waiting[i], lock), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).passed_on, 0);
    assert_int_equal(stats_of(client).acquired, 4);
}

/* As when its lease has nearly ended. */
static void let_end(struct fixture *f, uint64_t rest_ms)
{
    assert_int_equal(probe_int(f->probe, "PEXPIRE orders %llu", (unsigned long long)rest_ms), 1);
}

static void the_next_holder_of_a_lost_lock_has_a_greater_token(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = fencedlock(f, fixture_client(f, NULL));
    struct relock_lock *theirs = fencedlock(f, fixture_client(f, NULL));
    struct relock_grant stale, grant;

    assert_result(relock_acquire(ours, &(struct relock_how){.lease_ms = LONG_MS}, &stale),
                  RELOCK_OK);
    let_end(f, 300);
    assert_result(relock_timedlock(theirs, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_check(theirs, 0, &grant), RELOCK_OK);
    assert_true(grant.fencing_token > stale.fencing_token);
    assert_result(relock_unlock(ours), RELOCK_LOST);

    stale = grant;
    assert_result(relock_force_unlock(ours), RELOCK_OK);
    assert_true(draw(ours) > stale.fencing_token);
    assert_result(relock_unlock(theirs), RELOCK_LOST);
}

static void it_excludes_reentrant_locks_of_its_name(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *fenced = fencedlock(f, fixture_client(f, NULL));
    struct relock_client *another = woken_client(f);
    struct relock_lock *reentrant = fixture_lock(f, another, "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(fenced), RELOCK_OK);
    assert_result(relock_trylock(reentrant), RELOCK_BUSY);
    actor_begin_lock(waiting, reentrant);
    assert_true(wait_for_waiters(another, 1));
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));
    assert_result(relock_unlock(fenced), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_trylock(fenced), RELOCK_BUSY);
    assert_result(actor_unlock(waiting, reentrant), RELOCK_OK);
}

/* ---- the counter --------------------------------------------------------------------------- */

static void the_counter_outlives_the_lock_and_its_clients(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fencedlock(f, client);
    struct relock_grant grant;

    assert_result(relock_acquire(lock, &(struct relock_how){.lease_ms = LONG_MS}, &grant),
                  RELOCK_OK);
    assert_int_equal(probe_pttl(f->probe, COUNTER), -1);
    let_end(f, 300);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    fixture_free_client(f, client);

    assert_int_equal(probe_pttl(f->probe, COUNTER), -1);
    assert_true(draw(fencedlock(f, fixture_client(f, NULL))) > grant.fencing_token);
}

/* As Redisson's MultiLock does. */
static void a_lease_that_another_gave_the_counter_is_taken_off(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = fencedlock(f, fixture_client(f, NULL));
    struct relock_lock *theirs = fencedlock(f, fixture_client(f, NULL));

    draw(ours);
    assert_int_equal(probe_int(f->probe, "PEXPIRE " COUNTER " 60000"), 1);
    assert_result(relock_lock(ours), RELOCK_OK);
    assert_int_equal(probe_pttl(f->probe, COUNTER), -1);
    assert_int_equal(probe_int(f->probe, "PEXPIRE " COUNTER " 60000"), 1);
    assert_result(relock_lock(ours), RELOCK_OK);
    assert_int_equal(probe_pttl(f->probe, COUNTER), -1);
    assert_int_equal(probe_int(f->probe, "PEXPIRE " COUNTER " 60000"), 1);
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_int_equal(probe_pttl(f->probe, COUNTER), -1);
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(relock_unlock(ours), RELOCK_OK);
}

static void names_with_a_tag_have_a_counter_in_the_same_slot(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    draw(fixture_lock_of(f, client, "{shop}:orders", relock_fencedlock_new));
    assert_int_equal(probe_int(f->probe, "GET redisson_lock_token:{shop}:orders"), 1);
    draw(fixture_lock_of(f, client, "a {b", relock_fencedlock_new));
    assert_int_equal(probe_int(f->probe, "GET %s", "redisson_lock_token:a {b"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(each_hold_has_a_greater_token),
        FENCED_TEST(the_token_is_the_same_at_every_level),
        FENCED_TEST(a_hold_keeps_its_token_when_the_counter_changes),
        FENCED_TEST(a_refused_try_draws_none),
        FENCED_TEST(without_a_token_nothing_is_held),
        FENCED_TEST(tokens_grow_over_all_threads_clients_and_processes),
        FENCED_TEST(a_hold_is_never_handed_off),
        FENCED_TEST(the_next_holder_of_a_lost_lock_has_a_greater_token),
        FENCED_TEST(it_excludes_reentrant_locks_of_its_name),
        FENCED_TEST(the_counter_outlives_the_lock_and_its_clients),
        FENCED_TEST(a_lease_that_another_gave_the_counter_is_taken_off),
        FENCED_TEST(names_with_a_tag_have_a_counter_in_the_same_slot),
    };

    return SERVER_TESTS_RUN(tests);
}
