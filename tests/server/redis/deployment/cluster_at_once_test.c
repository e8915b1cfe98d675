/*
 * Slots that move at once (Valkey's CLUSTER MIGRATESLOTS, Redis' CLUSTER MIGRATION): at one moment
 * all keys of a slot have a new owner. No lock is lost, none has two holders, and waiters get it.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/kinds.h"
#include "support/tracked.h"

#include <stdatomic.h>
#include <stdlib.h>

#define NAME "orders"
#define COUNTER "redisson_lock_token:{" NAME "}"
#define LEASE_MS \
    9000 /* of one that is renewed; outlives a second in which a machine stands still */
#define N_WAITERS 3

/* Only a message wakes a waiter: no lease ends before. */
static struct relock_client *client_of(struct clustered *c)
{
    return clustered_client(c, &(struct relock_options){.watchdog_timeout_ms = NEVER_MS,
                                                        .recheck_ms = NEVER_MS,
                                                        .command_timeout_ms = 20000});
}

static struct relock_lock *lock_of(struct clustered *c)
{
    return kind_lock(c->f, client_of(c), NAME);
}

static void move(struct clustered *c)
{
    int slot = cluster_slot(c->cluster, NAME);

    cluster_move_at_once(c->cluster, slot, clustered_other(c, slot));
}

/* Of a kind that excludes the one of the case: while readers hold it, a writer waits. */
static struct relock_lock *rival_of(struct clustered *c, struct relock_client *client)
{
    fixture_constructor_fn *make = kind_now()->constructor;

    return fixture_lock_of(c->f, client, NAME,
                           make == relock_rdlock_new ? relock_wrlock_new : make);
}

/* ---- holders and waiters ------------------------------------------------------------------- */

static void a_lock_stays_with_its_holder_and_goes_to_the_waiter(void **state)
{
    struct clustered *c = *state;
    struct relock_client *waiting = client_of(c);
    struct relock_lock *held = lock_of(c);
    struct relock_lock *wanted = rival_of(c, waiting), *other = rival_of(c, client_of(c));
    struct actor *waiter = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiter, wanted);
    assert_true(wait_for_waiters(waiting, 1));
    move(c);
    assert_result(relock_trylock(other), RELOCK_BUSY);
    assert_result(relock_extend(held, 0, NEVER_MS), RELOCK_OK);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_true(actor_is_busy(waiter));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_result(relock_trylock(other), RELOCK_BUSY);
    assert_result(actor_unlock(waiter, wanted), RELOCK_OK);
    assert_int_equal(losses_count(c->f->losses), 0);
    actor_end_all();
}

static void a_lease_is_renewed_where_its_slot_went(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = clustered_lock(c, LEASE_MS);

    assert_result(relock_lock(hold.lock), RELOCK_OK);
    move(c);
    assert_true(wait_for_renewals(hold.client, stats_of(hold.client).renewed, 2));
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "EXISTS " NAME), 1);
    assert_result(relock_unlock(hold.lock), RELOCK_OK);
    assert_int_equal(losses_count(c->f->losses), 0);
}

/* ---- turns --------------------------------------------------------------------------------- */

#define N_TURNERS 6
#define N_MOVES 4
#define TURNS_BETWEEN 12 /* two for each */
#define WRITER 1000      /* more than there are readers */

static atomic_int inside, n_overlaps, n_turns, turns_wanted;
static atomic_bool over;

struct turner {
    struct relock_lock *lock;
    bool is_reader;
};

static int turn(struct turner *turner)
{
    int me = turner->is_reader ? 1 : WRITER;
    int r = relock_lock(turner->lock);
    int others;

    if (r != RELOCK_OK)
        return r;
    others = atomic_fetch_add(&inside, me);
    if (others >= WRITER || (others > 0 && !turner->is_reader))
        atomic_fetch_add(&n_overlaps, 1);
    let_pass(1);
    atomic_fetch_sub(&inside, me);
    atomic_fetch_add(&n_turns, 1);
    return relock_unlock(turner->lock);
}

static int take_turns(void *arg)
{
    int r = RELOCK_OK;

    while (r == RELOCK_OK && !atomic_load(&over))
        r = turn(arg);
    return r;
}

static bool have_turned(void *arg)
{
    (void)arg;
    return atomic_load(&n_turns) >= atomic_load(&turns_wanted);
}

static void await_turns(void)
{
    atomic_store(&turns_wanted, atomic_load(&n_turns) + TURNS_BETWEEN);
    assert_true(wait_until(have_turned, NULL, 3 * SOON_MS));
}

/* For reads: every other owner reads. */
static void a_lock_has_one_holder_while_its_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct turner turners[N_TURNERS];
    struct actor *actors[N_TURNERS];

    atomic_store(&over, false);
    for (int i = 0; i < N_TURNERS; i++) {
        struct relock_client *client = client_of(c);

        turners[i].is_reader = kind_now() == &kinds[KIND_READ] && i % 2 == 0;
        turners[i].lock =
            turners[i].is_reader ? kind_lock(c->f, client, NAME) : rival_of(c, client);
        actors[i] = actor_start();
        actor_begin(actors[i], take_turns, &turners[i]);
    }
    for (int i = 0; i < N_MOVES; i++) {
        await_turns();
        move(c);
    }
    await_turns();
    atomic_store(&over, true);
    for (int i = 0; i < N_TURNERS; i++)
        assert_result(actor_result_within(actors[i], 3 * SOON_MS), RELOCK_OK);
    assert_int_equal(atomic_load(&n_overlaps), 0);
    assert_int_equal(losses_count(c->f->losses), 0);
    actor_end_all();
}

/* ---- what single kinds promise -------------------------------------------------------------- */

static atomic_int n_arrived;
static int arrival[N_WAITERS]; /* written by its holder */

struct arriving {
    struct relock_lock *lock;
    int number;
};

static int arrive(void *arg)
{
    const struct arriving *arriving = arg;
    int r = relock_lock(arriving->lock);

    if (r != RELOCK_OK)
        return r;
    arrival[atomic_fetch_add(&n_arrived, 1)] = arriving->number;
    return relock_unlock(arriving->lock);
}

struct queue {
    struct probe *probe;
    int length;
};

/* After the move, waiters subscribe at the new node. One that has not yet is passed over. */
static bool all_are_subscribed(void *arg)
{
    const struct queue *queue = arg;

    return probe_n_sharded_channels(queue->probe) >= queue->length;
}

static bool has_length(void *arg)
{
    const struct queue *queue = arg;

    return probe_int(queue->probe, "LLEN redisson_lock_queue:{" NAME "}") == queue->length;
}

/* The waiters came in the order of their numbers. */
static void a_fair_queue_keeps_its_order(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *held;
    struct arriving waiters[N_WAITERS];
    struct actor *actors[N_WAITERS];
    struct queue queue = {cluster_probe(c->cluster, NAME), 0};

    held = lock_of(c);
    assert_result(relock_lock(held), RELOCK_OK);
    atomic_store(&n_arrived, 0);
    for (int i = 0; i < N_WAITERS; i++) {
        waiters[i] = (struct arriving){lock_of(c), i};
        actors[i] = actor_start();
        actor_begin(actors[i], arrive, &waiters[i]);
        queue.length = i + 1;
        assert_true(wait_until(has_length, &queue, SOON_MS));
    }
    move(c);
    queue.probe = cluster_probe(c->cluster, NAME);
    assert_true(wait_until(all_are_subscribed, &queue, slow_ms(SOON_MS)));
    assert_result(relock_unlock(held), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++) {
        assert_result(actor_result(actors[i]), RELOCK_OK);
        assert_int_equal(arrival[i], i);
    }
    actor_end_all();
}

static uint64_t take_token(struct relock_lock *lock)
{
    struct relock_grant grant = {0};

    assert_result(relock_acquire(lock, &(struct relock_how){.wait_ms = SOON_MS}, &grant),
                  RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    return grant.fencing_token;
}

static void tokens_grow(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *locks[2];
    uint64_t last = 0;

    locks[0] = lock_of(c);
    locks[1] = lock_of(c);
    for (int i = 0; i < 4; i++) {
        uint64_t token = take_token(locks[i % 2]);

        assert_true(token > last);
        last = token;
        move(c);
    }
}

static void a_kept_lock_is_given_to_another_process(void **state)
{
    struct clustered *c = *state;
    struct relock_client *keeping = clustered_client(
        c, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS), .keep_ms = NEVER_MS});
    struct relock_lock *kept = fixture_lock(c->f, keeping, NAME);
    struct relock_lock *wanted = fixture_lock(c->f, client_of(c), NAME);

    for (int i = 0; i < 2; i++) {
        assert_result(relock_lock(kept), RELOCK_OK);
        assert_result(relock_unlock(kept), RELOCK_OK);
        move(c);
        assert_result(relock_timedlock(wanted, SOON_MS), RELOCK_OK);
        assert_result(relock_trylock(kept), RELOCK_BUSY);
        assert_result(relock_unlock(wanted), RELOCK_OK);
    }
}

struct checks {
    struct probe *probe;
    long long before;
};

/* The checks that this node has tracked so far. */
static struct checks checks_of(struct clustered *c, size_t node)
{
    struct probe *probe = c->cluster->node[node].probe;

    return (struct checks){probe, tracked_count(probe)};
}

static bool are_more(void *arg)
{
    const struct checks *checks = arg;

    return tracked_count(checks->probe) > checks->before;
}

/* No renewal tells the client of the move, and none finds the loss: the nodes do. */
static void a_deleted_lock_is_lost_at_once(void **state)
{
    struct clustered *c = *state;
    const struct relock_how how = {.wait_ms = SOON_MS, .lease_ms = NEVER_MS};
    struct relock_lock *lock = fixture_lock(c->f, client_of(c), NAME);
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = clustered_other(c, slot);
    struct checks old = checks_of(c, cluster_owner(c->cluster, slot)), new = checks_of(c, to);

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_true(wait_until(are_more, &old, SOON_MS));
    cluster_move_at_once(c->cluster, slot, to);
    assert_true(wait_until(are_more, &new, SOON_MS));
    assert_int_equal(losses_count(c->f->losses), 0);
    assert_int_equal(probe_int(new.probe, "DEL " NAME), 1);
    assert_true(losses_wait(c->f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* ---- the cases ------------------------------------------------------------------------------ */

static int start(void **state)
{
    void *fixture;
    bool can;

    if (fixture_start(&fixture) != 0)
        return -1;
    can = cluster_can_move_at_once(((struct fixture *)fixture)->probe);
    if (fixture_stop(&fixture) != 0)
        return -1;
    if (!can) {
        print_error("the server has neither MIGRATESLOTS nor MIGRATION: skipped\n");
        exit(SERVER_EXIT_SKIP);
    }
    return clustered_start(state);
}

/* The counter of tokens stays. */
static int end(void **state)
{
    struct clustered *c = *state;

    probe_int(cluster_probe(c->cluster, NAME), "DEL " COUNTER);
    return clustered_end(state);
}

#define BEGIN_OF(kind, which)             \
    static int begin_##kind(void **state) \
    {                                     \
        kind_choose(which);               \
        return clustered_begin(state);    \
    }

BEGIN_OF(reentrant, KIND_REENTRANT)
BEGIN_OF(fenced, KIND_FENCED)
BEGIN_OF(spin, KIND_SPIN)
BEGIN_OF(fair, KIND_FAIR)
BEGIN_OF(plain, KIND_PLAIN)
BEGIN_OF(read, KIND_READ)
BEGIN_OF(write, KIND_WRITE)

#define TEST_OF(function, kind)                                 \
    {                                                           \
#kind ": " #function, function, begin_##kind, end, NULL \
    }
#define TEST_OF_ALL(function)                                                         \
    TEST_OF(function, reentrant), TEST_OF(function, fenced), TEST_OF(function, spin), \
        TEST_OF(function, fair), TEST_OF(function, plain), TEST_OF(function, read),   \
        TEST_OF(function, write)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF_ALL(a_lock_stays_with_its_holder_and_goes_to_the_waiter),
        TEST_OF(a_lease_is_renewed_where_its_slot_went, reentrant),
        TEST_OF_ALL(a_lock_has_one_holder_while_its_slot_moves),
        TEST_OF(a_fair_queue_keeps_its_order, fair),
        TEST_OF(tokens_grow, fenced),
        TEST_OF(a_kept_lock_is_given_to_another_process, reentrant),
        TEST_OF(a_deleted_lock_is_lost_at_once, reentrant),
    };

    return cmocka_run_group_tests(tests, start, clustered_stop);
}
