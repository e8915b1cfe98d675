/*
 * Thread - mutexes, condition variables, futexes and threads whose functions cannot fail
 *
 * A pthread call that fails here is a bug in this library, so it aborts, and callers need no error
 * path. Starting a thread is the exception: the system may lack memory for it.
 *
 * Threads: any.
 */
#ifndef RELOCK_THREAD_H
#define RELOCK_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#define RELOCK_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define RELOCK_ANNOTATION(...)
#endif
#define RELOCK_CAPABILITY RELOCK_ANNOTATION(capability("mutex"))
#define RELOCK_ACQUIRES(m) RELOCK_ANNOTATION(acquire_capability(m))
#define RELOCK_TRY_ACQUIRES(m) RELOCK_ANNOTATION(try_acquire_capability(true, m))
#define RELOCK_RELEASES(m) RELOCK_ANNOTATION(release_capability(m))
#define RELOCK_REQUIRES(m) RELOCK_ANNOTATION(requires_capability(m))
#define RELOCK_ASSERTS(m) RELOCK_ANNOTATION(assert_capability(m))
#define RELOCK_UNCHECKED RELOCK_ANNOTATION(no_thread_safety_analysis)

struct RELOCK_CAPABILITY relock_mutex {
    pthread_mutex_t pthread;
    atomic_uint *to_wake; /* the futex to wake after the unlock, or NULL; guarded by this mutex */
};

struct relock_cond {
    pthread_cond_t pthread;
};

void relock_mutex_init(struct relock_mutex *mutex);
void relock_mutex_deinit(struct relock_mutex *mutex);
void relock_mutex_lock(struct relock_mutex *mutex) RELOCK_ACQUIRES(*mutex);
void relock_mutex_unlock(struct relock_mutex *mutex) RELOCK_RELEASES(*mutex);

/* Wakes the thread that sleeps at this futex right after the mutex has been unlocked. */
void relock_mutex_wake_after(struct relock_mutex *mutex, atomic_uint *futex)
    RELOCK_REQUIRES(*mutex);

void relock_cond_init(struct relock_cond *cond);
void relock_cond_deinit(struct relock_cond *cond);
void relock_cond_signal(struct relock_cond *cond);
void relock_cond_broadcast(struct relock_cond *cond);

/* Returns false once `deadline_ms` has passed; may also wake spuriously. */
bool relock_cond_wait_until(struct relock_cond *cond, struct relock_mutex *mutex,
                            uint64_t deadline_ms) RELOCK_REQUIRES(*mutex);

/*
 * A futex: sleeps until a word in memory changes, and wakes the sleeper. Waking uses the address
 * alone and does not access the word, which may have been freed by then. So a thread that sleeps at
 * the same address for another reason may be woken, and has to expect that.
 */

/* Sleeps while the word is `value`, for `ms` at most. May return early. */
void relock_futex_wait(atomic_uint *word, unsigned value, uint64_t ms);

/* Wakes one thread that sleeps at this address. */
void relock_futex_wake(atomic_uint *word);

/* Starts a thread in which all signals are blocked. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* The state of the thread that a public call leaves as it was. */
struct relock_thread_state {
    int cancel_state;
    int saved_errno;
};

/*
 * Between enter and restore, pthread_cancel does not end this thread: a thread that ended in the
 * middle of a call could leave behind a lock without an owner. The end also restores errno.
 */
void relock_thread_enter(struct relock_thread_state *before);
void relock_thread_restore(const struct relock_thread_state *before);

/*
 * Whether this thread is running a callback of the program. A callback must not make a call that
 * blocks: that call would wait for the very thread which the callback holds up.
 */
void relock_callback_enter(void);
void relock_callback_exit(void);
bool relock_callback_is_inside(void);

#endif
