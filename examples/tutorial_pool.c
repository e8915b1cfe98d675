/*
 * tutorial_pool - nested locks in a thread pool, and one deadline for all waits of an order
 *
 * Four workers sell the items of a shop. sell() acquires the lock of an item and calls take(),
 * which acquires the same lock again, because other functions call take() without the lock. One
 * item is locked for a stocktaking all the time: orders for it end at their deadline. At the end, a
 * parcel is locked by one thread and released by another one.
 *
 *     cc tutorial_pool.c $(pkg-config --cflags --libs relock) -pthread -o tutorial_pool
 *     ./tutorial_pool [URL]                                 default: redis://127.0.0.1:6379
 */
#include <pthread.h>
#include <relock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_WORKERS 4
#define N_ITEMS 3
#define STOCKTAKING 0   /* the item that nobody can buy today */
#define STOCK 10        /* of each item */
#define N_ORDERS 48     /* 16 for each item: more than there are */
#define PATIENCE_MS 100 /* for each order */

struct shop {
    struct relock_lock *locks[N_ITEMS]; /* all threads share the handles */
    int stock[N_ITEMS];                 /* each is guarded by the lock of its item */
    atomic_int next_order, n_sold, n_sold_out, n_late;
};

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "tutorial_pool: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

/* ---- nested locks ---- */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int acquire(struct relock_lock *lock, int64_t deadline_ms)
{
    /* After the deadline, wait_ms is negative: one attempt without waiting. */
    const struct relock_how how = {.wait_ms = deadline_ms - now_ms()};

    return relock_acquire(lock, &how, NULL);
}

/* Takes one piece out of the stock. The caller may hold the lock of the item or not. */
static int take(struct shop *shop, int item, int64_t deadline_ms)
{
    int r = acquire(shop->locks[item], deadline_ms);

    if (r != RELOCK_OK)
        return r;
    shop->stock[item]--;
    return relock_unlock(shop->locks[item]);
}

/* Returns RELOCK_OK if the order was handled, sold or not. */
static int sell(struct shop *shop, int item, int64_t deadline_ms)
{
    int r, released;

    r = acquire(shop->locks[item], deadline_ms);
    if (r != RELOCK_OK)
        return r;
    if (shop->stock[item] > 0) { /* stays true until the release below */
        r = take(shop, item, deadline_ms);
        shop->n_sold += r == RELOCK_OK;
    } else {
        shop->n_sold_out++;
    }
    released = relock_unlock(shop->locks[item]);
    return r == RELOCK_OK ? released : r;
}

/* ---- the pool ---- */

static void *work(void *arg)
{
    struct shop *shop = arg;
    int order, r;

    while ((order = atomic_fetch_add(&shop->next_order, 1)) < N_ORDERS) {
        r = sell(shop, order % N_ITEMS, now_ms() + PATIENCE_MS);
        if (r == RELOCK_TIMEOUT)
            shop->n_late++; /* the customer may try again */
        else
            must(r, "sell");
    }
    return NULL;
}

static void run_pool(struct shop *shop)
{
    pthread_t workers[N_WORKERS];

    for (int i = 0; i < N_WORKERS; i++) {
        if (pthread_create(&workers[i], NULL, work, shop) != 0)
            must(RELOCK_E_NOMEM, "thread");
    }
    for (int i = 0; i < N_WORKERS; i++)
        pthread_join(workers[i], NULL);
}

/* ---- a hold that moves to another thread ---- */

struct parcel {
    struct relock_lock *lock;
    uint64_t owner;
    int result;
};

static void *ship(void *arg)
{
    struct parcel *parcel = arg;

    parcel->result = relock_release(parcel->lock, parcel->owner);
    return NULL;
}

/* Returns the result of the release. */
static int pack_here_and_ship_elsewhere(struct relock_lock *lock)
{
    struct parcel parcel = {.lock = lock, .owner = relock_owner_new()};
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = parcel.owner};
    pthread_t thread;

    must(relock_acquire(lock, &how, NULL), "pack");
    if (pthread_create(&thread, NULL, ship, &parcel) != 0)
        must(RELOCK_E_NOMEM, "thread");
    pthread_join(thread, NULL);
    return parcel.result;
}

/* Each piece was sold or is left, and each order ended in one way. */
static bool report(struct shop *shop)
{
    int n_left = 0;

    printf("%d orders: %d sold, %d sold out, %d timed out\n", N_ORDERS, shop->n_sold,
           shop->n_sold_out, shop->n_late);
    for (int item = 0; item < N_ITEMS; item++) {
        printf("item:%d: %d left\n", item, shop->stock[item]);
        n_left += shop->stock[item];
    }
    return shop->n_sold + n_left == N_ITEMS * STOCK && shop->stock[STOCKTAKING] == STOCK &&
           shop->n_sold + shop->n_sold_out + shop->n_late == N_ORDERS;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    struct relock_client *client;
    struct shop shop = {0};
    char name[16];
    int shipped;
    bool as_expected;

    must(relock_client_new(&options, &client), "connect");
    for (int item = 0; item < N_ITEMS; item++) {
        snprintf(name, sizeof(name), "item:%d", item);
        must(relock_lock_new(client, name, &shop.locks[item]), name);
        shop.stock[item] = STOCK;
    }

    must(relock_lock(shop.locks[STOCKTAKING]), "stocktaking");
    run_pool(&shop);
    must(relock_unlock(shop.locks[STOCKTAKING]), "stocktaking");
    as_expected = report(&shop);

    shipped = pack_here_and_ship_elsewhere(shop.locks[STOCKTAKING]);
    printf("a parcel that another thread released: %s\n", relock_strerror(shipped));

    for (int item = 0; item < N_ITEMS; item++)
        relock_lock_free(shop.locks[item]);
    relock_client_free(client);
    return as_expected && shipped == RELOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
