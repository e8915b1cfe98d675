/*
 * kept - locks that stay with the process while nobody uses them: `keep_ms`
 *
 * A program works on the orders of its customers, one lock for each customer. Mostly the same
 * process gets the orders of a customer, so it keeps the locks. Then a second client, here in the
 * same program, wants one of them: it has it back in a moment.
 *
 *     cc kept.c $(pkg-config --cflags --libs relock) -pthread -o kept
 *     ./kept [URL]                                          default: redis://127.0.0.1:6379
 */
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_CUSTOMERS 8
#define N_ORDERS 20000

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "kept: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct relock_client *client_of(const char *url, uint64_t keep_ms)
{
    struct relock_options options = {.url = url, .keep_ms = keep_ms};
    struct relock_client *client;

    must(relock_client_new(&options, &client), "client");
    return client;
}

static struct relock_stats stats_of(struct relock_client *client)
{
    struct relock_stats stats;

    must(relock_client_stats(client, &stats, sizeof(stats)), "stats");
    return stats;
}

/* Returns the seconds that it took. */
static double work(struct relock_lock *customers[N_CUSTOMERS], int n_orders)
{
    double began_s = now_s();

    for (int i = 0; i < n_orders; i++) {
        must(relock_lock(customers[i % N_CUSTOMERS]), "lock");
        /* ... the order ... */
        must(relock_unlock(customers[i % N_CUSTOMERS]), "unlock");
    }
    return now_s() - began_s;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    struct relock_client *ours = client_of(url, 5000), *theirs = client_of(url, 0);
    struct relock_lock *customers[N_CUSTOMERS], *one;
    struct relock_stats stats;
    char name[32];
    double began_s;

    for (int i = 0; i < N_CUSTOMERS; i++) {
        snprintf(name, sizeof(name), "customer:%d", i);
        must(relock_lock_new(ours, name, &customers[i]), "handle");
    }
    must(relock_lock_new(theirs, "customer:3", &one), "handle");

    /* Locks are kept once the client hears when others want them: some milliseconds after its
     * start. */
    while (stats_of(ours).kept < N_CUSTOMERS)
        (void)work(customers, N_CUSTOMERS);
    printf("%d orders in %.3f s\n", N_ORDERS, work(customers, N_ORDERS));
    stats = stats_of(ours);
    printf("acquired from Redis: %llu times, from memory: %llu times; kept now: %llu\n",
           (unsigned long long)stats.acquired, (unsigned long long)stats.reused,
           (unsigned long long)stats.kept);

    printf("a try elsewhere: %s\n", relock_strerror(relock_trylock(one)));
    began_s = now_s();
    must(relock_timedlock(one, 10000), "the lock of a customer");
    printf("a wait elsewhere: acquired after %.1f ms\n", (now_s() - began_s) * 1000);
    must(relock_unlock(one), "unlock");
    printf("kept now: %llu\n", (unsigned long long)stats_of(ours).kept);

    for (int i = 0; i < N_CUSTOMERS; i++)
        relock_lock_free(customers[i]);
    relock_lock_free(one);
    relock_client_free(theirs);
    relock_client_free(ours); /* gives back what it has kept */
    return stats.reused < N_ORDERS / 2 ? EXIT_FAILURE : EXIT_SUCCESS;
}
