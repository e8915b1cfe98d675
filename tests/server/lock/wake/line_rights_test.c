/*
 * The line of waiting clients and the rights that it needs: those of `relock acl` suffice,
 * and a user without them waits outside of the line, where each release wakes it.
 */
#include "support/actor.h"
#include "support/rights.h"

#define LEASE_MS 30000
#define N_CLIENTS 4

static const struct kind_of_lock {
    const char *rights; /* on the page */
    fixture_constructor_fn *holder, *waiter;
    unsigned flags;
} kinds[] = {
    {"reentrant", relock_lock_new, relock_lock_new, 0},
    {"fenced", relock_fencedlock_new, relock_fencedlock_new, 0},
    {"read-write", relock_wrlock_new, relock_wrlock_new, 0},
    {"read-write", relock_wrlock_new, relock_rdlock_new, 0},
    {"announced-plain", relock_plainlock_new, relock_plainlock_new, RELOCK_ANNOUNCE_PLAIN},
};

#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

/* Clients that wait for the lock, each to release it at once; the first one also holds it. */
struct crowd {
    struct fixture *f;
    struct relock_client *clients[N_CLIENTS];
    struct relock_lock *held, *locks[N_CLIENTS];
    struct actor *waiting[N_CLIENTS];
};

static void come(struct crowd *crowd, struct fixture *f, const struct kind_of_lock *kind)
{
    crowd->f = f;
    for (int i = 0; i < N_CLIENTS; i++) {
        crowd->clients[i] = rights_client(f, slow_ms(LEASE_MS), kind->flags);
        crowd->locks[i] = fixture_lock_of(f, crowd->clients[i], "orders", kind->waiter);
        crowd->waiting[i] = actor_start();
    }
    crowd->held = fixture_lock_of(f, crowd->clients[0], "orders", kind->holder);
    assert_result(relock_lock(crowd->held), RELOCK_OK);
    for (int i = 0; i < N_CLIENTS; i++) {
        actor_begin(crowd->waiting[i], actor_take_turn, crowd->locks[i]);
        assert_true(wait_for_waiters(crowd->clients[i], 1));
    }
}

/* The third client leaves. */
static void get_in(struct crowd *crowd)
{
    fixture_free_client(crowd->f, crowd->clients[2]);
    assert_result(actor_result(crowd->waiting[2]), RELOCK_E_CLOSED);
    assert_result(relock_unlock(crowd->held), RELOCK_OK);
    for (int i = 0; i < N_CLIENTS; i++)
        if (i != 2)
            assert_result(actor_result(crowd->waiting[i]), RELOCK_OK);
}

/* Before the user gets other rights. */
static void go(struct crowd *crowd)
{
    for (int i = 0; i < N_CLIENTS; i++) {
        if (i != 2)
            fixture_free_client(crowd->f, crowd->clients[i]);
        fixture_free_lock(crowd->f, crowd->locks[i]);
    }
    fixture_free_lock(crowd->f, crowd->held);
}

static void the_rights_of_each_kind_suffice_for_its_line(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < N_KINDS; i++) {
        struct crowd crowd;

        rights_give(f, kinds[i].rights, NULL);
        come(&crowd, f, &kinds[i]);
        /* A thread that waits for another of its process does not ask, unless it is to read. */
        assert_true(probe_wait_in_line(f->probe, "orders",
                                       N_CLIENTS - (kinds[i].waiter != relock_rdlock_new)));
        get_in(&crowd);
        go(&crowd);
        assert_int_equal(log_count(f->log, "NOPERM"), 0);
        assert_int_equal(log_count(f->log, "not subscribed"), 0);
        assert_int_equal(log_count(f->log, "each release of this lock wakes"), 0);
    }
}

/* The lock is free after its release, whatever the rest of the script may not do. */
static void without_the_right_to_the_time_nothing_is_reserved(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < N_KINDS; i++) {
        struct crowd crowd;

        rights_give(f, kinds[i].rights, "+time");
        come(&crowd, f, &kinds[i]);
        get_in(&crowd);
        go(&crowd);
    }
}

/* ---- without them -------------------------------------------------------------------------- */

static const struct missing {
    const char *right, *log; /* which each client logs once */
} missing[] = {
    {"~relock_waiters", "orders: each release of this lock wakes this process"},
    {"&relock_client", "not subscribed"},
};

#define N_MISSING (sizeof(missing) / sizeof(*missing))

static void assert_is_outside(struct fixture *f, const struct kind_of_lock *kind)
{
    bool is_rw = kind->holder == relock_wrlock_new;
    bool is_read = kind->waiter == relock_rdlock_new;

    assert_true(probe_wait_subscribers(
        f->probe, is_rw ? "redisson_rwlock:{orders}" : "redisson_lock__channel:{orders}",
        N_CLIENTS - !is_read));
    assert_int_equal(probe_int(f->probe, "EXISTS relock_waiters:{orders}"), 0);
}

static void without_a_right_each_release_wakes_each_client(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < N_KINDS * N_MISSING; i++) {
        const struct kind_of_lock *kind = &kinds[i / N_MISSING];
        const struct missing *without = &missing[i % N_MISSING];
        struct crowd crowd;

        log_clear(f->log);
        rights_give(f, kind->rights, without->right);
        come(&crowd, f, kind);
        assert_is_outside(f, kind);
        get_in(&crowd);
        go(&crowd);
        assert_int_equal(log_count_grave(f->log, RELOCK_LOG_WARNING),
                         log_count(f->log, without->log));
        assert_in_range(log_count(f->log, without->log), N_CLIENTS - 1, N_CLIENTS);
    }
}

/* The lock goes to and fro between a client of this user and one of a user with all rights. */
static void pass_to_and_fro(struct fixture *f, struct relock_client *outside)
{
    struct relock_client *clients[] = {woken_client(f), outside};
    struct relock_lock *locks[2];
    struct actor *actors[2];

    for (int i = 0; i < 2; i++) {
        locks[i] = fixture_lock(f, clients[i], "orders");
        actors[i] = actor_start();
    }
    assert_result(actor_lock(actors[0], locks[0]), RELOCK_OK);
    for (int turn = 0; turn < 6; turn++) {
        int i = turn % 2;

        actor_begin_lock(actors[1 - i], locks[1 - i]);
        if (i == 0)
            assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));
        else
            assert_true(probe_wait_in_line(f->probe, "orders", 1));
        assert_result(actor_unlock(actors[i], locks[i]), RELOCK_OK);
        assert_result(actor_result(actors[1 - i]), RELOCK_OK);
    }
    assert_result(actor_unlock(actors[0], locks[0]), RELOCK_OK);
    for (int i = 0; i < 2; i++)
        fixture_free_client(f, clients[i]);
}

static void clients_inside_and_outside_of_the_line_wake_each_other(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < N_MISSING; i++) {
        rights_give(f, "reentrant", missing[i].right);
        pass_to_and_fro(f, rights_client(f, slow_ms(LEASE_MS), 0));
        assert_int_equal(log_count(f->log, "NOPERM: this user may not"), 0);
    }
}

/* Of the commands that lines need, it may run those that fair locks need, too. */
static void a_user_of_fair_locks_with_a_right_to_all_keys_is_outside(void **state)
{
    struct fixture *f = *state;

    rights_give(f, "fair", NULL);
    assert_int_equal(probe_int(f->probe, "ACL SETUSER locker ~* allchannels"), 0);
    pass_to_and_fro(f, rights_client(f, slow_ms(LEASE_MS), 0));
    assert_int_equal(log_count(f->log, "NOPERM"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(the_rights_of_each_kind_suffice_for_its_line),
        FENCED_TEST(without_the_right_to_the_time_nothing_is_reserved),
        FENCED_TEST(without_a_right_each_release_wakes_each_client),
        SERVER_TEST(clients_inside_and_outside_of_the_line_wake_each_other),
        SERVER_TEST(a_user_of_fair_locks_with_a_right_to_all_keys_is_outside),
    };

    return SERVER_TESTS_RUN(tests);
}
