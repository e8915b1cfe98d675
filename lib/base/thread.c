#include "base/thread.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <relock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- futex ----------------------------------------------------------------------------------- */

void relock_futex_wait(atomic_uint *word, unsigned value, uint64_t ms)
{
    struct timespec ts = relock_clock_span(ms);

    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts);
}

/* A call of its own and no jump, for lib/relock.supp knows it by its name on the stack. */
__attribute__((noinline)) void relock_futex_wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
    atomic_signal_fence(memory_order_seq_cst); /* so that syscall is not the last call */
}

/* ---- mutexes and condition variables -------------------------------------------------------- */

/* The pauses of a thread that finds a mutex locked, before it sleeps. */
#define MIN_SPIN_NS 500
#define MAX_SPIN_NS 4000

static void check(int err)
{
    if (err != 0)
        abort();
}

void relock_mutex_init(struct relock_mutex *mutex)
{
    check(pthread_mutex_init(&mutex->pthread, NULL));
    mutex->to_wake = NULL;
}

void relock_mutex_deinit(struct relock_mutex *mutex)
{
    check(pthread_mutex_destroy(&mutex->pthread));
}

static void spin(uint64_t ns)
{
    uint64_t until_ns = relock_clock_now_ns() + ns;

    while (relock_clock_now_ns() < until_ns)
        ;
}

/*
 * To sleep and to be woken mostly takes longer than another thread keeps one of our mutexes. So a
 * thread that finds a mutex locked tries again before it sleeps. It leaves the mutex alone between
 * two attempts, for otherwise it would slow down the thread that has it.
 *
 * Unchecked: clang does not know what pthread does to the mutex inside.
 */
RELOCK_UNCHECKED void relock_mutex_lock(struct relock_mutex *mutex)
{
    for (uint64_t ns = MIN_SPIN_NS; ns <= MAX_SPIN_NS; ns *= 2) {
        if (pthread_mutex_trylock(&mutex->pthread) == 0)
            return;
        spin(ns);
    }
    check(pthread_mutex_lock(&mutex->pthread));
}

/* Replaces the futex that the next unlock wakes. Returns the one before; NULL if there was none. */
static atomic_uint *swap_to_wake(struct relock_mutex *mutex, atomic_uint *futex)
{
    atomic_uint *before = mutex->to_wake;

    mutex->to_wake = futex;
    return before;
}

static void wake(atomic_uint *futex)
{
    if (futex)
        relock_futex_wake(futex);
}

/* Unchecked: as relock_mutex_lock. */
RELOCK_UNCHECKED void relock_mutex_unlock(struct relock_mutex *mutex)
{
    atomic_uint *to_wake = swap_to_wake(mutex, NULL);

    check(pthread_mutex_unlock(&mutex->pthread));
    wake(to_wake);
}

/* A mutex remembers one futex, which is the usual case. Earlier ones are woken at once. */
void relock_mutex_wake_after(struct relock_mutex *mutex, atomic_uint *futex)
{
    wake(swap_to_wake(mutex, futex));
}

void relock_cond_init(struct relock_cond *cond)
{
    pthread_condattr_t attr;

    check(pthread_condattr_init(&attr));
    check(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    check(pthread_cond_init(&cond->pthread, &attr));
    check(pthread_condattr_destroy(&attr));
}

void relock_cond_deinit(struct relock_cond *cond)
{
    check(pthread_cond_destroy(&cond->pthread));
}

void relock_cond_signal(struct relock_cond *cond)
{
    check(pthread_cond_signal(&cond->pthread));
}

void relock_cond_broadcast(struct relock_cond *cond)
{
    check(pthread_cond_broadcast(&cond->pthread));
}

/* Condition variables cannot use the clock of our deadlines, which counts during suspend. */
static struct timespec monotonic_after(uint64_t ms)
{
    struct timespec ts = relock_clock_span(ms);
    uint64_t now_ns = relock_clock_now_ns() + (uint64_t)ts.tv_nsec;

    ts.tv_sec += (time_t)(now_ns / 1000000000);
    ts.tv_nsec = (long)(now_ns % 1000000000);
    return ts;
}

bool relock_cond_wait_until(struct relock_cond *cond, struct relock_mutex *mutex,
                            uint64_t deadline_ms)
{
    uint64_t now_ms;
    struct timespec ts;
    int err;

    wake(swap_to_wake(mutex, NULL)); /* the wait unlocks the mutex without relock_mutex_unlock */
    if (deadline_ms == RELOCK_NEVER) {
        check(pthread_cond_wait(&cond->pthread, &mutex->pthread));
        return true;
    }
    now_ms = relock_clock_now_ms();
    if (now_ms >= deadline_ms)
        return false;

    ts = monotonic_after(deadline_ms - now_ms);
    err = pthread_cond_timedwait(&cond->pthread, &mutex->pthread, &ts);
    if (err == ETIMEDOUT)
        return relock_clock_now_ms() < deadline_ms;
    check(err);
    return true;
}

int relock_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    int err;

    sigfillset(&all);
    check(pthread_sigmask(SIG_SETMASK, &all, &before));
    err = pthread_create(thread, NULL, run, arg);
    check(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (err != 0)
        return RELOCK_E_NOMEM;

    /* The name is for people who inspect the process; setting it may fail. */
    (void)pthread_setname_np(*thread, name);
    return RELOCK_OK;
}

void relock_thread_enter(struct relock_thread_state *before)
{
    before->saved_errno = errno;
    check(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->cancel_state));
}

void relock_thread_restore(const struct relock_thread_state *before)
{
    check(pthread_setcancelstate(before->cancel_state, NULL));
    errno = before->saved_errno;
}

/* ---- callbacks ------------------------------------------------------------------------------ */

static _Thread_local unsigned depth;

void relock_callback_enter(void)
{
    depth++;
}

void relock_callback_exit(void)
{
    depth--;
}

bool relock_callback_is_inside(void)
{
    return depth > 0;
}
