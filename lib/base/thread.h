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

/* ---- gate ------------------------------------------------------------------------------------ */

/*
 * Gate - one thread sleeps at it until another thread opens it
 *
 * A gate remembers that it was opened, so the order of opening and waiting does not matter; several
 * openings count as one. It carries no data: the reason for opening is stored elsewhere, under a
 * mutex of the opener.
 *
 * Threads: wait from one, open from any; init before others know the gate. It may be freed as soon
 * as no thread will open it any more, even if the last opener still holds the mutex of open_under.
 */

struct relock_gate {
    atomic_uint state;
};

void relock_gate_init(struct relock_gate *gate);
void relock_gate_open(struct relock_gate *gate);

/* Opens the gate while the caller holds `mutex`, which the waiting thread needs next. That thread
 * is woken only after the unlock, so that it does not run into the locked mutex. */
void relock_gate_open_under(struct relock_gate *gate, struct relock_mutex *mutex)
    RELOCK_REQUIRES(*mutex);

/*
 * For a thread that sleeps in poll(2) instead: between begin and end, an opener writes to the
 * eventfd. Begin returns false if the gate is open; end closes the gate and returns whether it was
 * open. An opener writes to the eventfd under the mutex of open_under, or under the mutex that
 * keeps the gate from being freed. Close the eventfd only when no opener can hold that mutex any
 * more.
 */
bool relock_gate_begin_poll(struct relock_gate *gate, int event_fd);
bool relock_gate_end_poll(struct relock_gate *gate);

/* Waits until the gate is open and closes it again. Returns false once `deadline_ms` has passed. */
bool relock_gate_wait(struct relock_gate *gate, uint64_t deadline_ms);

/* ---- tsan ------------------------------------------------------------------------------------ */

/*
 * Tsan - tells ThreadSanitizer about order that it cannot see
 *
 * A program may be built with ThreadSanitizer while this library is not. ThreadSanitizer then sees
 * our mutexes and system calls, but not our atomics. Without these calls it would report a race for
 * every reply that one thread reads and another frees. The same is true of OpenSSL, which nobody
 * builds with it. In other programs each call costs a comparison.
 *
 * Threads: any.
 */

/* Call this before the atomic operation that publishes memory which this thread wrote. */
void relock_tsan_release(void *at);

/* Call this with the same address after the atomic operation that receives that memory. */
void relock_tsan_acquire(void *at);

/* Between these two calls, ThreadSanitizer reports no access of this thread, but still sees its
 * mutexes. The calls do not nest. */
void relock_tsan_look_away(void);
void relock_tsan_look_again(void);

#endif
