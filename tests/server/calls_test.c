/* Every call leaves errno, signals and the cancellation of threads alone. */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define UNTOUCHED 4711

#define assert_leaves_errno(call)           \
    do {                                    \
        errno = UNTOUCHED;                  \
        (void)!(call);                      \
        assert_int_equal(errno, UNTOUCHED); \
    } while (0)

static void no_call_sets_errno(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.command_timeout_ms = 200};
    struct relock_client *client = fixture_client(f, &options), *second = NULL;
    struct relock_lock *lock = fixture_lock(f, client, "orders"), *none = NULL;
    struct relock_lock *taken = fixture_lock(f, client, "taken");
    struct relock_cancel *cancel;
    bool locked;

    assert_true(peer_lock(f->probe, "taken", PEER, PEER_LEASE_MS));
    options = fixture_options(f, &options);
    assert_leaves_errno(relock_lock_new(client, "", &none));
    assert_leaves_errno(relock_lock(lock));
    assert_leaves_errno(relock_lock(lock));
    assert_leaves_errno(relock_extend(lock, 0, 60000));
    assert_leaves_errno(relock_check(lock, 0, NULL));
    assert_leaves_errno(relock_unlock(lock));
    assert_leaves_errno(relock_unlock(lock));
    assert_leaves_errno(relock_unlock(lock));
    assert_leaves_errno(relock_timedlock(taken, 30));
    assert_leaves_errno(relock_is_locked(taken, &locked));
    assert_leaves_errno(relock_cancel_new(&cancel));
    assert_leaves_errno((relock_cancel_fire(cancel), 0));
    assert_leaves_errno(relock_cancel_free(cancel));
    assert_leaves_errno(relock_client_new(&options, &second));
    assert_leaves_errno(relock_client_free(second));

    server_pause(f->server);
    assert_leaves_errno(relock_trylock(lock));
    server_resume(f->server);
    probe_int(f->probe, "CLIENT KILL TYPE normal SKIPME yes");
    assert_leaves_errno(relock_trylock(lock));
    if (relock_is_mine(lock))
        assert_leaves_errno(relock_unlock(lock));
    options.url = "unix:///nonexistent/socket";
    assert_leaves_errno(relock_client_new(&options, &second));
    assert_true(peer_unlock(f->probe, "taken", PEER));
}

static atomic_int n_signals;
static pthread_t signalled;

static void on_signal(int signal)
{
    (void)signal;
    signalled = pthread_self();
    atomic_fetch_add(&n_signals, 1);
}

/* Without SA_RESTART: the signal interrupts sleeps and reads. */
static void handle_signal(int signal)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(signal, &action, NULL);
    atomic_store(&n_signals, 0);
}

struct target {
    struct relock_lock *lock;
    _Atomic(pthread_t) thread;
    atomic_bool begun, over;
    int64_t wait_ms;
};

static int wait_as_target(void *arg)
{
    struct target *target = arg;

    atomic_store(&target->thread, pthread_self());
    atomic_store(&target->begun, true);
    return relock_timedlock(target->lock, target->wait_ms);
}

static void no_signal_ends_a_wait(void **state)
{
    struct fixture *f = *state;
    struct target target = {.lock = fixture_lock(f, fixture_client(f, NULL), "orders"),
                            .wait_ms = 1500}; /* Redis answers in it */
    struct actor *waiting = actor_start();

    handle_signal(SIGUSR1);
    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    do { /* until one came in time */
        actor_begin(waiting, wait_as_target, &target);
        while (actor_is_busy(waiting)) {
            if (atomic_load(&target.begun))
                pthread_kill(atomic_load(&target.thread), SIGUSR1);
            let_pass(1);
        }
        assert_result(actor_result(waiting), RELOCK_TIMEOUT);
        assert_true(actor_took_ms(waiting) >= (uint64_t)target.wait_ms - TWO_CLOCKS_MS);
    } while (atomic_load(&n_signals) == 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    signal(SIGUSR1, SIG_IGN); /* a signal may still be in flight */
}

static int lock_and_unlock_often(void *arg)
{
    struct target *target = arg;

    atomic_store(&target->thread, pthread_self());
    atomic_store(&target->begun, true);
    while (!atomic_load(&target->over)) {
        int r = relock_lock(target->lock);

        if (r == RELOCK_OK)
            r = relock_unlock(target->lock);
        if (r != RELOCK_OK)
            return r;
    }
    return RELOCK_OK;
}

static void no_signal_harms_a_command(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct target target = {.lock = fixture_lock(f, client, "orders")};
    struct actor *other = actor_start();

    handle_signal(SIGUSR1);
    actor_begin(other, lock_and_unlock_often, &target);
    while (actor_is_busy(other) && atomic_load(&n_signals) < 1000) {
        if (atomic_load(&target.begun))
            pthread_kill(atomic_load(&target.thread), SIGUSR1);
    }
    atomic_store(&target.over, true);
    assert_result(actor_result(other), RELOCK_OK);
    assert_int_equal(stats_of(client).reconnects, 0);
    signal(SIGUSR1, SIG_IGN); /* a signal may still be in flight */
}

static bool was_signalled(void *arg)
{
    return atomic_load(&n_signals) == *(int *)arg;
}

/* A signal to the process goes to a thread that does not block it; the library's threads block all.
 */
static void signals_to_the_process_stay_with_the_program(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;
    sigset_t set;
    int one = 1;

    handle_signal(SIGUSR2);
    lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR2);
    let_pass(50);
    assert_int_equal(atomic_load(&n_signals), 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    assert_true(wait_until(was_signalled, &one, SOON_MS));
    assert_true(pthread_equal(signalled, pthread_self()));
    assert_result(relock_unlock(lock), RELOCK_OK);
    signal(SIGUSR2, SIG_DFL);
}

struct cancelled {
    struct relock_lock *lock;
    atomic_int locked, unlocked, went_on;
};

static void *lock_then_be_cancelled(void *arg)
{
    struct cancelled *cancelled = arg;

    atomic_store(&cancelled->locked, relock_lock(cancelled->lock));
    atomic_store(&cancelled->unlocked, relock_unlock(cancelled->lock));
    pthread_testcancel();
    atomic_store(&cancelled->went_on, 1);
    return NULL;
}

static void no_call_is_a_cancellation_point(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct cancelled cancelled = {
        .lock = fixture_lock(f, client, "orders"), .locked = 1, .unlocked = 1};
    pthread_t thread;
    void *ended;

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_int_equal(pthread_create(&thread, NULL, lock_then_be_cancelled, &cancelled), 0);
    assert_true(wait_for_waiters(client, 1));
    pthread_cancel(thread);
    let_pass(20);
    assert_int_equal(stats_of(client).waiters, 1);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    pthread_join(thread, &ended);

    assert_result(atomic_load(&cancelled.locked), RELOCK_OK);
    assert_result(atomic_load(&cancelled.unlocked), RELOCK_OK);
    assert_ptr_equal(ended, PTHREAD_CANCELED);
    assert_int_equal(atomic_load(&cancelled.went_on), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(no_call_sets_errno),
        SERVER_TEST(no_signal_ends_a_wait),
        SERVER_TEST(no_signal_harms_a_command),
        SERVER_TEST(signals_to_the_process_stay_with_the_program),
        SERVER_TEST(no_call_is_a_cancellation_point),
    };

    return SERVER_TESTS_RUN(tests);
}
