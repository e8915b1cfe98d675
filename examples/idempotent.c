/*
 * idempotent - a job that is ordered many times and takes effect once
 *
 * A queue delivers the order "invoice-17" at least once, and again after a timeout or a crash. Each
 * worker acquires the lock of the order and checks whether a record says that the job is done. If
 * not, the worker does the job and writes the record before it releases the lock. If a worker dies
 * before the job, there is no record, so the next delivery does the job.
 *
 * The lock prevents two workers from doing the job concurrently. The record prevents a later worker
 * from repeating it. Keep the record where the effect is, if possible in the same transaction:
 * otherwise a worker that dies between the two leaves an effect without a record. Here the record
 * is a key in Redis.
 *
 *     cc idempotent.c $(pkg-config --cflags --libs relock hiredis) -pthread -o idempotent
 *     ./idempotent [URL [LEASE_MS]]         default: redis://127.0.0.1:6379; else unix:///PATH
 *
 * With a lease shorter than the job takes, no worker does it, and the program fails: the queue
 * would deliver the order again.
 */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <relock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ORDER "invoice-17"
#define N_DELIVERIES 4
#define JOB_MS 1000 /* the longest that the job and its record take */

static struct relock_client *client;
static const char *url;
static atomic_int n_sent; /* invoices: the effect that must happen once */

/* ---- the store ---- */

static redisContext *open_store(void)
{
    redisContext *store = url && strncmp(url, "unix://", 7) == 0 ? redisConnectUnix(url + 7)
                                                                 : redisConnect("127.0.0.1", 6379);

    if (!store || store->err)
        abort();
    return store;
}

static bool is_done(redisContext *store, const char *order)
{
    redisReply *reply = redisCommand(store, "EXISTS done:%s", order);
    bool done;

    if (!reply)
        abort();
    done = reply->integer == 1;
    freeReplyObject(reply);
    return done;
}

static void record(redisContext *store, const char *order)
{
    freeReplyObject(redisCommand(store, "SET done:%s 1 EX 86400", order));
}

/* ---- the job ---- */

static void send_invoice(redisContext *store, const char *order)
{
    usleep(100 * 1000);
    atomic_fetch_add(&n_sent, 1);
    record(store, order);
}

/* Returns RELOCK_OK if the job is done, now or earlier. Otherwise the queue delivers it again. */
static int handle(redisContext *store, const char *order)
{
    struct relock_lock *lock = NULL;
    char name[64];
    int r;

    snprintf(name, sizeof(name), "order:%s", order);
    r = relock_lock_new(client, name, &lock);
    if (r == RELOCK_OK)
        r = relock_timedlock(lock, 10000);
    if (r == RELOCK_OK) {
        bool done = is_done(store, order);

        if (!done && relock_valid_ms(lock) >= JOB_MS) {
            send_invoice(store, order);
            done = true;
        }
        r = relock_unlock(lock);
        if (r == RELOCK_OK && !done)
            r = RELOCK_LOST; /* too little of the lease was left for the job */
    }
    relock_lock_free(lock);
    return r;
}

static void *deliver(void *arg)
{
    redisContext *store = open_store();

    *(int *)arg = handle(store, ORDER);
    redisFree(store);
    return NULL;
}

int main(int argc, char **argv)
{
    struct relock_options options = {0};
    pthread_t threads[N_DELIVERIES];
    int results[N_DELIVERIES], r, n_failed = 0;

    url = argc > 1 ? argv[1] : NULL;
    options.url = url;
    options.watchdog_timeout_ms = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    r = relock_client_new(&options, &client);
    if (r != RELOCK_OK) {
        fprintf(stderr, "idempotent: %s\n", relock_strerror(r));
        return EXIT_FAILURE;
    }
    for (int i = 0; i < N_DELIVERIES; i++) {
        if (pthread_create(&threads[i], NULL, deliver, &results[i]) != 0)
            abort();
    }
    for (int i = 0; i < N_DELIVERIES; i++) {
        pthread_join(threads[i], NULL);
        n_failed += results[i] != RELOCK_OK;
    }
    printf("%s: delivered %d times, number of invoices sent: %d\n", ORDER, N_DELIVERIES,
           atomic_load(&n_sent));
    relock_client_free(client);
    return n_failed == 0 && atomic_load(&n_sent) <= 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
