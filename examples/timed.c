/*
 * timed - waits that end: after a time, at a deadline, or when another thread cancels them
 *
 * Another thread holds the lock "printer" meanwhile. The program waits 300 ms for it, then waits
 * for several locks with one common deadline, and then waits without a limit until another thread
 * cancels the wait.
 *
 *     cc timed.c $(pkg-config --cflags --libs relock) -pthread -o timed
 *     ./timed [URL]                                         default: redis://127.0.0.1:6379
 */
#include <pthread.h>
#include <relock.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "timed: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void report(const char *what, int r, int64_t since_ms)
{
    printf("%-36s %4lld ms: %s\n", what, (long long)(now_ms() - since_ms), relock_strerror(r));
}

/* ---- the thread that holds the printer ---- */

struct holder {
    struct relock_lock *printer;
    sem_t holding, leave;
};

static void *hold_it(void *arg)
{
    struct holder *holder = arg;

    must(relock_lock(holder->printer), "printer");
    sem_post(&holder->holding);
    sem_wait(&holder->leave);
    must(relock_unlock(holder->printer), "printer");
    return NULL;
}

/* ---- waits that end ---- */

static int wait_a_while(struct relock_lock *printer)
{
    int64_t start_ms = now_ms();
    int r;

    r = relock_timedlock(printer, 300);
    report("timedlock, 300 ms", r, start_ms);
    if (r == RELOCK_OK)
        relock_unlock(printer);
    return r;
}

/*
 * Acquires all locks before the deadline, or none. Each wait may use the time that is left. Every
 * caller must pass the locks in the same order, or two callers can deadlock; a multi lock
 * (relock_multilock_new) needs no such rule.
 */
static int acquire_all(struct relock_lock **locks, int n, int64_t deadline_ms)
{
    int n_held, r = RELOCK_OK;

    for (n_held = 0; n_held < n; n_held++) {
        /* After the deadline, wait_ms is negative: one attempt without waiting. */
        struct relock_how how = {.wait_ms = deadline_ms - now_ms()};

        r = relock_acquire(locks[n_held], &how, NULL);
        if (r != RELOCK_OK)
            break;
    }
    if (r != RELOCK_OK) {
        while (n_held > 0)
            relock_unlock(locks[--n_held]);
    }
    return r;
}

static int share_a_deadline(struct relock_client *client)
{
    static const char *const names[] = {"paper", "ink", "printer"};
    struct relock_lock *locks[3];
    int64_t start_ms = now_ms();
    int r;

    for (int i = 0; i < 3; i++)
        must(relock_lock_new(client, names[i], &locks[i]), names[i]);

    r = acquire_all(locks, 3, start_ms + 500);
    report("three locks, deadline in 500 ms", r, start_ms);

    for (int i = 0; i < 3; i++) {
        if (r == RELOCK_OK)
            relock_unlock(locks[i]);
        relock_lock_free(locks[i]);
    }
    return r;
}

static void *cancel_it(void *cancel)
{
    usleep(400 * 1000);
    relock_cancel_fire(cancel);
    return NULL;
}

static int wait_until_cancelled(struct relock_lock *printer)
{
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    pthread_t thread;
    int64_t start_ms = now_ms();
    int r;

    must(relock_cancel_new(&how.cancel), "cancel");
    if (pthread_create(&thread, NULL, cancel_it, how.cancel) != 0)
        must(RELOCK_E_NOMEM, "thread");

    r = relock_acquire(printer, &how, NULL);
    report("no limit, cancelled after 400 ms", r, start_ms);
    if (r == RELOCK_OK)
        relock_unlock(printer);

    /* Free the cancel only after the wait and the thread that fires it have ended. */
    pthread_join(thread, NULL);
    relock_cancel_free(how.cancel);
    return r;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    struct relock_client *client;
    struct holder holder;
    pthread_t thread;
    bool as_expected;

    must(relock_client_new(&options, &client), "connect");
    must(relock_lock_new(client, "printer", &holder.printer), "printer");
    sem_init(&holder.holding, 0, 0);
    sem_init(&holder.leave, 0, 0);
    if (pthread_create(&thread, NULL, hold_it, &holder) != 0)
        must(RELOCK_E_NOMEM, "thread");
    sem_wait(&holder.holding);

    as_expected = wait_a_while(holder.printer) == RELOCK_TIMEOUT;
    as_expected &= share_a_deadline(client) == RELOCK_TIMEOUT;
    as_expected &= wait_until_cancelled(holder.printer) == RELOCK_CANCELLED;

    sem_post(&holder.leave);
    pthread_join(thread, NULL);
    as_expected &= share_a_deadline(client) == RELOCK_OK;

    relock_lock_free(holder.printer);
    relock_client_free(client);
    return as_expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
