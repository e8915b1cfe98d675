/*
 * tutorial_deadlock - four deadlocks, and what the library does about each of them
 *
 * Two threads acquire two locks in opposite orders: one of them is refused, releases what it holds
 * and starts again. A multi lock has one order for all. A reader asks to write. A function that
 * must not nest is called by itself. A thread holds a lock through one client, and acquires it
 * through another.
 *
 *     cc tutorial_deadlock.c $(pkg-config --cflags --libs relock) -pthread -o tutorial_deadlock
 *     ./tutorial_deadlock [URL]                             default: redis://127.0.0.1:6379
 */
#include <pthread.h>
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_MS 300
#define PAUSE_MIN_NS 1000000
#define PAUSE_MAX_NS 64000000

static const struct relock_how patiently = {.wait_ms = PATIENCE_MS};

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "tutorial_deadlock: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_as_expected(const char *what, int r, int expected, int64_t since_ms)
{
    printf("%-41s %4lld ms: %s\n", what, (long long)(now_ms() - since_ms), relock_strerror(r));
    return r == expected;
}

/* ---- two threads, two locks ---- */

struct transfer {
    struct relock_lock *from, *to;
    pthread_barrier_t *together;
    int result;
    unsigned n_refused;
};

/* Each thread holds one account and waits for that of the other. */
static void *lock_one_after_the_other(void *arg)
{
    struct timespec pause = {.tv_nsec = PAUSE_MIN_NS};
    struct transfer *transfer = arg;

    must(relock_lock(transfer->from), "from");
    pthread_barrier_wait(transfer->together);
    while ((transfer->result = relock_lock(transfer->to)) == RELOCK_E_DEADLOCK) {
        transfer->n_refused++;
        must(relock_unlock(transfer->from), "from"); /* the other thread needs it */
        nanosleep(&pause, NULL);
        pause.tv_nsec *= pause.tv_nsec < PAUSE_MAX_NS ? 2 : 1; /* longer each time */
        must(relock_lock(transfer->from), "from, again");
    }
    if (transfer->result == RELOCK_OK)
        must(relock_unlock(transfer->to), "to");
    must(relock_unlock(transfer->from), "from");
    return NULL;
}

static void *lock_both_at_once(void *arg)
{
    const struct relock_how how = {.wait_ms = 10000};
    struct transfer *transfer = arg;
    struct relock_lock *accounts[] = {transfer->from, transfer->to};
    struct relock_lock *both;
    struct relock_grant grant;
    int r;

    must(relock_multilock_new(accounts, 2, &both), "both accounts");
    pthread_barrier_wait(transfer->together);
    r = relock_acquire(both, &how, &grant);
    if (r != RELOCK_OK) /* neither account is held */
        fprintf(stderr, "%s: %s\n", grant.failed_member, relock_strerror(r));
    else
        r = relock_unlock(both);
    relock_lock_free(both);
    transfer->result = r;
    return NULL;
}

/* Transfers from ann to bob and from bob to ann at the same time. */
static bool transfer_both_ways(struct relock_client *client, void *(*how)(void *), const char *what,
                               unsigned n_refused)
{
    int64_t start_ms = now_ms();
    struct relock_lock *ann, *bob;
    pthread_barrier_t together;
    pthread_t threads[2];

    must(relock_lock_new(client, "account:ann", &ann), "ann");
    must(relock_lock_new(client, "account:bob", &bob), "bob");
    pthread_barrier_init(&together, NULL, 2);

    struct transfer transfers[] = {{ann, bob, &together, 0, 0}, {bob, ann, &together, 0, 0}};
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, how, &transfers[i]) != 0)
            must(RELOCK_E_NOMEM, "thread");
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    pthread_barrier_destroy(&together);
    relock_lock_free(ann);
    relock_lock_free(bob);
    if (transfers[0].n_refused + transfers[1].n_refused != n_refused)
        return false;
    return is_as_expected(what, transfers[0].result, RELOCK_OK, start_ms) &&
           transfers[1].result == RELOCK_OK;
}

/* ---- one thread that waits for itself ---- */

static bool reader_asks_to_write(struct relock_client *client)
{
    int64_t start_ms = now_ms();
    struct relock_lock *reader, *writer;
    int r;

    must(relock_rdlock_new(client, "catalogue", &reader), "reader");
    must(relock_wrlock_new(client, "catalogue", &writer), "writer");
    must(relock_lock(reader), "read");
    r = relock_lock(writer); /* would wait until this thread stops reading */
    must(relock_unlock(reader), "read");
    relock_lock_free(reader);
    relock_lock_free(writer);
    return is_as_expected("a reader that asks to write", r, RELOCK_E_DEADLOCK, start_ms);
}

static bool nests_by_mistake(struct relock_client *client)
{
    const struct relock_how alone = {.wait_ms = PATIENCE_MS, .flags = RELOCK_NON_REENTRANT};
    int64_t start_ms = now_ms();
    struct relock_lock *lock;
    int r;

    must(relock_lock_new(client, "invoice-number", &lock), "lock");
    must(relock_acquire(lock, &alone, NULL), "first level");
    r = relock_acquire(lock, &alone, NULL);
    must(relock_unlock(lock), "unlock");
    relock_lock_free(lock);
    return is_as_expected("a second level, which is forbidden", r, RELOCK_E_DEADLOCK, start_ms);
}

static bool waits_through_another_client(const struct relock_options *options,
                                         struct relock_client *client)
{
    int64_t start_ms = now_ms();
    struct relock_client *another;
    struct relock_lock *here, *there;
    int r;

    must(relock_client_new(options, &another), "connect again");
    must(relock_lock_new(client, "orders", &here), "orders");
    must(relock_lock_new(another, "orders", &there), "orders");
    must(relock_lock(here), "orders");
    r = relock_acquire(there, &patiently, NULL); /* to Redis, two clients are two owners */
    must(relock_unlock(here), "orders");
    relock_lock_free(here);
    relock_lock_free(there);
    relock_client_free(another);
    return is_as_expected("the same lock through another client", r, RELOCK_TIMEOUT, start_ms);
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    struct relock_client *client;
    bool as_expected;

    must(relock_client_new(&options, &client), "connect");
    as_expected = transfer_both_ways(client, lock_one_after_the_other,
                                     "two locks, in opposite orders, 1 refused", 1);
    as_expected &=
        transfer_both_ways(client, lock_both_at_once, "the same two, as a multi lock", 0);
    as_expected &= reader_asks_to_write(client);
    as_expected &= nests_by_mistake(client);
    as_expected &= waits_through_another_client(&options, client);
    relock_client_free(client);
    return as_expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
