/*
 * timed - waits that end: after a time, at a deadline, on a word from another thread
 *
 * Another thread sits on the lock "printer" meanwhile. First a wait of 300 ms for it; then several
 * locks that share one deadline; last a wait without end that another thread calls off.
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

/* ---- the other thread that has the printer ---- */

struct sitter {
    struct relock_lock *printer;
    sem_t seated, leave;
};

static void *sit_on_it(void *arg)
{
    struct sitter *sitter = arg;

    must(relock_lock(sitter->printer), "printer");
    sem_post(&sitter->seated);
    sem_wait(&sitter->leave);
    must(relock_unlock(sitter->printer), "printer");
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
 * Takes all before the deadline, or none. Each may wait for what those before it left of the time.
 * Whoever takes several takes them in the same order; else two could wait for each other.
 */
static int take_all(struct relock_lock **locks, int n, int64_t deadline_ms)
{
    int taken, r = RELOCK_OK;

    for (taken = 0; taken < n; taken++) {
        /* Once the deadline is past, this is below 0: one try, and no wait for ever. */
        struct relock_how how = {.wait_ms = deadline_ms - now_ms()};

        r = relock_acquire(locks[taken], &how, NULL);
        if (r != RELOCK_OK)
            break;
    }
    if (r != RELOCK_OK) {
        while (taken > 0)
            relock_unlock(locks[--taken]);
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

    r = take_all(locks, 3, start_ms + 500);
    report("three locks, deadline in 500 ms", r, start_ms);

    for (int i = 0; i < 3; i++) {
        if (r == RELOCK_OK)
            relock_unlock(locks[i]);
        relock_lock_free(locks[i]);
    }
    return r;
}

static void *call_it_off(void *cancel)
{
    usleep(400 * 1000);
    relock_cancel_fire(cancel);
    return NULL;
}

static int wait_until_called_off(struct relock_lock *printer)
{
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    pthread_t thread;
    int64_t start_ms = now_ms();
    int r;

    must(relock_cancel_new(&how.cancel), "cancel");
    if (pthread_create(&thread, NULL, call_it_off, how.cancel) != 0)
        must(RELOCK_E_NOMEM, "thread");

    r = relock_acquire(printer, &how, NULL);
    report("for ever, called off after 400 ms", r, start_ms);
    if (r == RELOCK_OK)
        relock_unlock(printer);

    /* Nobody may name it any more: neither the wait, nor who fires it. */
    pthread_join(thread, NULL);
    relock_cancel_free(how.cancel);
    return r;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    struct relock_client *client;
    struct sitter sitter;
    pthread_t thread;
    bool as_told;

    must(relock_client_new(&options, &client), "connect");
    must(relock_lock_new(client, "printer", &sitter.printer), "printer");
    sem_init(&sitter.seated, 0, 0);
    sem_init(&sitter.leave, 0, 0);
    if (pthread_create(&thread, NULL, sit_on_it, &sitter) != 0)
        must(RELOCK_E_NOMEM, "thread");
    sem_wait(&sitter.seated);

    as_told = wait_a_while(sitter.printer) == RELOCK_TIMEOUT;
    as_told &= share_a_deadline(client) == RELOCK_TIMEOUT;
    as_told &= wait_until_called_off(sitter.printer) == RELOCK_CANCELLED;

    sem_post(&sitter.leave);
    pthread_join(thread, NULL);
    as_told &= share_a_deadline(client) == RELOCK_OK;

    relock_lock_free(sitter.printer);
    relock_client_free(client);
    return as_told ? EXIT_SUCCESS : EXIT_FAILURE;
}
