/* Threads, conditions and the delay of pthread_cancel. */
#include "base/thread.h"

#include "base/clock.h"
#include "support/late.h"
#include "support/wait.h"

#include <relock.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct seen {
    sigset_t blocked;
};

static void *look(void *arg)
{
    struct seen *seen = arg;

    pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    return NULL;
}

static void no_signal_of_the_program_comes_to_a_started_thread(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGCHLD, SIGPIPE};
    struct seen seen;
    sigset_t before;
    sigset_t after;
    pthread_t thread;

    (void)state;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(relock_thread_start(&thread, "relock:test", look, &seen), RELOCK_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(pthread_join(thread, NULL), 0);

    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        assert_int_equal(sigismember(&seen.blocked, signals[i]), 1);
        assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
}

/* ---- conditions ---------------------------------------------------------------------------- */

#define N_WAITERS 8

static struct relock_mutex mutex;
static struct relock_cond cond;
static int n_waiting, n_in_time; /* by mutex */
static bool over;                /* by mutex */

static int init_condition(void **state)
{
    (void)state;
    relock_mutex_init(&mutex);
    relock_cond_init(&cond);
    n_waiting = n_in_time = 0;
    over = false;
    return 0;
}

static int deinit_condition(void **state)
{
    (void)state;
    relock_cond_deinit(&cond);
    relock_mutex_deinit(&mutex);
    return 0;
}

static void a_wait_for_a_condition_ends_at_the_deadline(void **state)
{
    uint64_t deadline_ms = relock_clock_after(relock_clock_now_ms(), 20);

    (void)state;

    relock_mutex_lock(&mutex);
    while (relock_cond_wait_until(&cond, &mutex, deadline_ms))
        ;
    relock_mutex_unlock(&mutex);
    assert_true(relock_clock_now_ms() >= deadline_ms);
}

static void a_wait_with_a_past_deadline_returns_at_once(void **state)
{
    (void)state;

    relock_mutex_lock(&mutex);
    assert_false(relock_cond_wait_until(&cond, &mutex, 0));
    assert_false(relock_cond_wait_until(&cond, &mutex, relock_clock_now_ms()));
    relock_mutex_unlock(&mutex);
}

static void *wait_till_over(void *arg)
{
    bool in_time = true;

    relock_mutex_lock(&mutex);
    n_waiting++;
    relock_cond_broadcast(&cond);
    while (!over && in_time)
        in_time = relock_cond_wait_until(&cond, &mutex, *(const uint64_t *)arg);
    n_in_time += over;
    relock_mutex_unlock(&mutex);
    return NULL;
}

static void a_broadcast_wakes_sleepers_with_any_deadline(void **state)
{
    uint64_t soon_ms = relock_clock_after(relock_clock_now_ms(), slow_ms(SOON_MS));
    uint64_t deadlines[] = {RELOCK_NEVER, RELOCK_NEVER - 1, soon_ms};
    pthread_t threads[N_WAITERS];

    (void)state;

    for (int i = 0; i < N_WAITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_till_over, &deadlines[i % 3]), 0);
    relock_mutex_lock(&mutex);
    while (n_waiting < N_WAITERS)
        (void)relock_cond_wait_until(&cond, &mutex, RELOCK_NEVER);
    over = true;
    relock_cond_broadcast(&cond);
    relock_mutex_unlock(&mutex);
    for (int i = 0; i < N_WAITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(n_in_time, N_WAITERS);
}

/* ---- futexes ------------------------------------------------------------------------------- */

static atomic_uint *new_word(void)
{
    atomic_uint *word = malloc(sizeof(*word));

    assert_non_null(word);
    return word;
}

/* Under valgrind it fails if lib/relock.supp does not know the wake by its stack. */
static void a_word_may_be_freed_before_it_is_woken(void **state)
{
    atomic_uint *first = new_word(), *second = new_word();

    (void)state;

    relock_mutex_lock(&mutex);
    relock_mutex_wake_after(&mutex, first);
    free(first);
    relock_mutex_wake_after(&mutex, second); /* wakes the first one */
    free(second);
    relock_mutex_unlock(&mutex); /* wakes the second one; as a last call it becomes a jump */
}

/* ---- cancellation -------------------------------------------------------------------------- */

static int cancel_state(void)
{
    int now;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &now);
    pthread_setcancelstate(now, NULL);
    return now;
}

static void cancelling_waits_for_the_outermost_call(void **state)
{
    struct relock_thread_state outer, inner;

    (void)state;

    assert_int_equal(cancel_state(), PTHREAD_CANCEL_ENABLE);
    relock_thread_enter(&outer);
    assert_int_equal(cancel_state(), PTHREAD_CANCEL_DISABLE);
    relock_thread_enter(&inner);
    relock_thread_restore(&inner);
    assert_int_equal(cancel_state(), PTHREAD_CANCEL_DISABLE);
    relock_thread_restore(&outer);
    assert_int_equal(cancel_state(), PTHREAD_CANCEL_ENABLE);
}

static void disabled_cancelling_stays_disabled(void **state)
{
    struct relock_thread_state entered;
    int before;

    (void)state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    relock_thread_enter(&entered);
    relock_thread_restore(&entered);
    assert_int_equal(cancel_state(), PTHREAD_CANCEL_DISABLE);
    pthread_setcancelstate(before, NULL);
}

#define CONDITION_TEST(function) \
    cmocka_unit_test_setup_teardown(function, init_condition, deinit_condition)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_signal_of_the_program_comes_to_a_started_thread),
        CONDITION_TEST(a_wait_for_a_condition_ends_at_the_deadline),
        CONDITION_TEST(a_wait_with_a_past_deadline_returns_at_once),
        CONDITION_TEST(a_broadcast_wakes_sleepers_with_any_deadline),
        CONDITION_TEST(a_word_may_be_freed_before_it_is_woken),
        cmocka_unit_test(cancelling_waits_for_the_outermost_call),
        cmocka_unit_test(disabled_cancelling_stays_disabled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
