/*
 * Many clients want one lock all the time: an acquisition costs a few scripts, its release
 * included, however many clients wait. For each kind of lock that announces its releases.
 */
#include "support/line.h"
#include "support/sides.h"

#define N_CLIENTS 16
#define N_ROUNDS 10
#define N_ACQUISITIONS (N_CLIENTS * N_ROUNDS)

/* An attempt that is refused and joins the line, the one that is granted, the release, and one when
 * a client begins to listen. */
#define SCRIPTS_MAX 4

struct crowd {
    struct relock_client *clients[N_CLIENTS];
    struct relock_lock *locks[N_CLIENTS];
    struct actor *actors[N_CLIENTS];
    uint64_t took_ms;
    long long n_scripts;
};

static void make_clients(struct crowd *crowd, struct fixture *f)
{
    for (int i = 0; i < N_CLIENTS; i++)
        crowd->clients[i] = line_client(f);
}

/* All clients wait when `held` is released. Their first attempts are not counted. */
static void all_take_turns(struct crowd *crowd, struct fixture *f, struct relock_lock *held)
{
    uint64_t began_ms;

    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < N_CLIENTS; i++) {
        crowd->actors[i] = actor_start();
        actor_begin_turns(crowd->actors[i], crowd->locks[i], N_ROUNDS);
        assert_true(wait_for_waiters(crowd->clients[i], 1));
    }
    crowd->n_scripts = probe_script_calls(f->probe);
    began_ms = now_ms();
    assert_result(relock_unlock(held), RELOCK_OK);
    for (int i = 0; i < N_CLIENTS; i++)
        assert_result(actor_result_within(crowd->actors[i], 6 * (uint64_t)SOON_MS), RELOCK_OK);
    crowd->took_ms = now_ms() - began_ms;
    crowd->n_scripts = probe_script_calls(f->probe) - crowd->n_scripts;
    print_message("%d acquisitions in %llu ms: %lld scripts\n", N_ACQUISITIONS,
                  (unsigned long long)crowd->took_ms, crowd->n_scripts);
}

static void all_take_turns_at(struct crowd *crowd, struct fixture *f, const char *name)
{
    make_clients(crowd, f);
    for (int i = 0; i < N_CLIENTS; i++)
        crowd->locks[i] = kind_lock(f, crowd->clients[i], name);
    all_take_turns(crowd, f, kind_lock(f, line_client(f), name));
}

/* On a machine that stood still, two clients ask for each reservation that ended. */
static long long scripts_max(const struct crowd *crowd)
{
    return SCRIPTS_MAX * N_ACQUISITIONS + 2 * (long long)(crowd->took_ms / LINE_RESERVED_MS);
}

static void an_acquisition_costs_four_scripts_at_most(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd;

    all_take_turns_at(&crowd, f, "orders");
    assert_true(crowd.n_scripts <= scripts_max(&crowd));
}

/* Only the first client polls, after 1 ms at the earliest. */
static void a_plain_lock_is_polled_by_one_client(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd;

    all_take_turns_at(&crowd, f, "orders");
    assert_true(crowd.n_scripts <= scripts_max(&crowd) + (long long)crowd.took_ms);
}

static void readers_and_writers_cost_no_more(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd;

    make_clients(&crowd, f);
    for (int i = 0; i < N_CLIENTS; i++) {
        struct sides sides = sides_of(f, crowd.clients[i]);

        crowd.locks[i] = i % 2 ? sides.read : sides.write;
    }
    all_take_turns(&crowd, f, sides_of(f, line_client(f)).write);
    assert_true(crowd.n_scripts <= scripts_max(&crowd));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(an_acquisition_costs_four_scripts_at_most, reentrant),
        KINDS_TEST_OF(an_acquisition_costs_four_scripts_at_most, fenced),
        KINDS_TEST_OF(an_acquisition_costs_four_scripts_at_most, write),
        KINDS_TEST_OF(an_acquisition_costs_four_scripts_at_most, fair),
        KINDS_TEST_OF(a_plain_lock_is_polled_by_one_client, plain),
        SERVER_TEST(readers_and_writers_cost_no_more),
    };

    return SERVER_TESTS_RUN(tests);
}
