/* Waking one thread, and never losing an opening. */
#include "base/thread.h"

#include "base/clock.h"
#include "support/late.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 1000

static uint64_t soon(void)
{
    return relock_clock_after(relock_clock_now_ms(), slow_ms(SOON_MS));
}

static int make_gate(void **state)
{
    static struct relock_gate gate;

    relock_gate_init(&gate);
    *state = &gate;
    return 0;
}

static void a_new_gate_is_closed(void **state)
{
    struct relock_gate *gate = *state;

    assert_false(relock_gate_wait(gate, 0));
    assert_false(relock_gate_wait(gate, relock_clock_now_ms()));
}

static void a_gate_opened_early_lets_one_wait_through(void **state)
{
    struct relock_gate *gate = *state;

    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, RELOCK_NEVER));
    assert_false(relock_gate_wait(gate, 0));
}

static void several_openings_count_as_one(void **state)
{
    struct relock_gate *gate = *state;

    relock_gate_open(gate);
    relock_gate_open(gate);
    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, soon()));
    assert_false(relock_gate_wait(gate, 0));
}

static void an_opening_counts_after_the_deadline(void **state)
{
    struct relock_gate *gate = *state;

    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, 0));
}

static void a_wait_ends_at_its_deadline_and_not_before(void **state)
{
    struct relock_gate *gate = *state;

    for (uint64_t ms = 1; ms <= 20; ms += 19) {
        uint64_t deadline_ms = relock_clock_after(relock_clock_now_ms(), ms);

        assert_false(relock_gate_wait(gate, deadline_ms));
        assert_true(relock_clock_now_ms() >= deadline_ms);
    }
}

static void a_gate_can_be_opened_after_a_wait_that_timed_out(void **state)
{
    struct relock_gate *gate = *state;

    assert_false(relock_gate_wait(gate, relock_clock_now_ms() + 1));
    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, soon()));
}

/* ---- gates that are polled ----------------------------------------------------------------- */

static int make_event(void)
{
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    assert_true(event_fd >= 0);
    return event_fd;
}

static bool has_event(int event_fd)
{
    eventfd_t count;

    return eventfd_read(event_fd, &count) == 0;
}

static void an_opening_wakes_a_thread_that_polls(void **state)
{
    struct relock_gate *gate = *state;
    struct relock_mutex mutex;
    int event_fd = make_event();

    relock_mutex_init(&mutex);
    assert_true(relock_gate_begin_poll(gate, event_fd));
    relock_gate_open(gate);
    assert_true(has_event(event_fd));
    assert_true(relock_gate_end_poll(gate));

    /* At once, though the mutex is locked: after the unlock the descriptor may be closed. */
    assert_true(relock_gate_begin_poll(gate, event_fd));
    relock_mutex_lock(&mutex);
    relock_gate_open_under(gate, &mutex);
    assert_true(has_event(event_fd));
    relock_mutex_unlock(&mutex);
    assert_true(relock_gate_end_poll(gate));
    relock_mutex_deinit(&mutex);
    close(event_fd);
}

static void a_gate_that_is_open_is_not_polled(void **state)
{
    struct relock_gate *gate = *state;
    int event_fd = make_event();

    relock_gate_open(gate);
    assert_false(relock_gate_begin_poll(gate, event_fd));
    assert_true(relock_gate_end_poll(gate));
    assert_false(has_event(event_fd));
    close(event_fd);
}

static void after_the_poll_an_opening_leaves_the_descriptor_alone(void **state)
{
    struct relock_gate *gate = *state;
    int event_fd = make_event();

    assert_true(relock_gate_begin_poll(gate, event_fd));
    assert_false(relock_gate_end_poll(gate));
    relock_gate_open(gate);
    assert_false(has_event(event_fd));
    assert_true(relock_gate_wait(gate, 0));
    close(event_fd);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* Two threads. Each opens the other's gate and waits at its own. */
struct pair {
    struct relock_gate there, back;
    int n_there; /* turns of the other thread */
};

static void *have_turns(void *arg)
{
    struct pair *pair = arg;

    while (pair->n_there < ROUNDS && relock_gate_wait(&pair->there, RELOCK_NEVER)) {
        pair->n_there++;
        relock_gate_open(&pair->back);
    }
    return NULL;
}

static void a_thread_is_woken_by_another(void **state)
{
    static struct pair pair;
    pthread_t thread;
    int n_back = 0;

    (void)state;
    relock_gate_init(&pair.there);
    relock_gate_init(&pair.back);
    assert_int_equal(pthread_create(&thread, NULL, have_turns, &pair), 0);

    /* Enough rounds that each of the two comes first at times. */
    while (n_back < ROUNDS) {
        relock_gate_open(&pair.there);
        if (!relock_gate_wait(&pair.back, soon()))
            break;
        n_back++;
    }
    assert_int_equal(n_back, ROUNDS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pair.n_there, ROUNDS);
}

/* A thread that passes a gate and then reads state that a mutex guards. */
struct sleeper {
    struct relock_gate gate;
    struct relock_mutex *mutex;
    struct relock_cond *cond;
    bool has_looked; /* guarded by `mutex` */
};

static void *sleep_and_look(void *arg)
{
    struct sleeper *sleeper = arg;

    /* Longer than the test waits: a thread that is not woken returns too late. */
    if (!relock_gate_wait(&sleeper->gate, deadline_in(3 * SOON_MS)))
        return NULL;
    relock_mutex_lock(sleeper->mutex);
    sleeper->has_looked = true;
    relock_cond_signal(sleeper->cond);
    relock_mutex_unlock(sleeper->mutex);
    return NULL;
}

static bool sleeps(void *gate)
{
    return atomic_load(&((struct relock_gate *)gate)->state) != 0;
}

/* Two such threads, both asleep. */
static struct relock_mutex mutex;
static struct relock_cond cond;
static struct sleeper sleepers[2];
static pthread_t threads[2];

static int start_sleepers(void **state)
{
    (void)state;
    relock_mutex_init(&mutex);
    relock_cond_init(&cond);
    for (int i = 0; i < 2; i++) {
        sleepers[i] = (struct sleeper){.mutex = &mutex, .cond = &cond};
        relock_gate_init(&sleepers[i].gate);
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_and_look, &sleepers[i]), 0);
        assert_true(wait_until(sleeps, &sleepers[i].gate, SOON_MS));
    }
    return 0;
}

static int join_sleepers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    relock_cond_deinit(&cond);
    relock_mutex_deinit(&mutex);
    return 0;
}

/* Call with the mutex held; it is released while this waits. */
static bool has_looked(int i) RELOCK_REQUIRES(mutex)
{
    uint64_t deadline_ms = soon();
    bool in_time = true;

    while (in_time && !sleepers[i].has_looked)
        in_time = relock_cond_wait_until(&cond, &mutex, deadline_ms);
    return in_time;
}

static void a_waiter_let_through_under_a_mutex_is_woken_by_the_unlock(void **state)
{
    bool looked;

    (void)state;
    relock_mutex_lock(&mutex);
    relock_gate_open_under(&sleepers[0].gate, &mutex);
    relock_gate_open_under(&sleepers[1].gate, &mutex);
    relock_mutex_unlock(&mutex);

    relock_mutex_lock(&mutex);
    looked = has_looked(0) && has_looked(1);
    relock_mutex_unlock(&mutex);
    assert_true(looked);
}

static void a_waiter_let_through_under_a_mutex_is_woken_by_a_wait(void **state)
{
    bool looked;

    (void)state;
    relock_mutex_lock(&mutex);
    relock_gate_open_under(&sleepers[0].gate, &mutex);
    looked = has_looked(0);
    relock_gate_open_under(&sleepers[1].gate, &mutex);
    looked = has_looked(1) && looked;
    relock_mutex_unlock(&mutex);
    assert_true(looked);
}

#define SLEEPER_TEST(function) \
    cmocka_unit_test_setup_teardown(function, start_sleepers, join_sleepers)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_new_gate_is_closed, make_gate),
        cmocka_unit_test_setup(a_gate_opened_early_lets_one_wait_through, make_gate),
        cmocka_unit_test_setup(several_openings_count_as_one, make_gate),
        cmocka_unit_test_setup(an_opening_counts_after_the_deadline, make_gate),
        cmocka_unit_test_setup(a_wait_ends_at_its_deadline_and_not_before, make_gate),
        cmocka_unit_test_setup(a_gate_can_be_opened_after_a_wait_that_timed_out, make_gate),
        cmocka_unit_test_setup(an_opening_wakes_a_thread_that_polls, make_gate),
        cmocka_unit_test_setup(a_gate_that_is_open_is_not_polled, make_gate),
        cmocka_unit_test_setup(after_the_poll_an_opening_leaves_the_descriptor_alone, make_gate),
        cmocka_unit_test(a_thread_is_woken_by_another),
        SLEEPER_TEST(a_waiter_let_through_under_a_mutex_is_woken_by_the_unlock),
        SLEEPER_TEST(a_waiter_let_through_under_a_mutex_is_woken_by_a_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
