/*
 * red - one lock on several servers that know nothing of each other
 *
 * The lock is held while a majority of the servers says so. So it works while a minority is down.
 * In this demonstration, some urls may have the same server and different databases; in production,
 * each server needs a machine of its own.
 *
 *     cc red.c $(pkg-config --cflags --libs relock) -o red
 *     ./red URL URL URL...                                  3, 5, 7 or 9 urls
 */
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>

#define N_MAX 9

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "red: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

/* Clients and members on n servers. A server that is down now can come back later. */
static void make_members(char **urls, int n, struct relock_client **clients,
                         struct relock_lock **members)
{
    for (int i = 0; i < n; i++) {
        const struct relock_options options = {.url = urls[i], .flags = RELOCK_LAZY};

        must(relock_client_new(&options, &clients[i]), urls[i]);
        must(relock_lock_new(clients[i], "orders", &members[i]), urls[i]);
    }
}

int main(int argc, char **argv)
{
    struct relock_client *clients[N_MAX];
    struct relock_lock *members[N_MAX], *orders;
    int n = argc - 1, released;

    if (n < 3 || n > N_MAX || n % 2 == 0) {
        fprintf(stderr, "usage: red URL URL URL...     3, 5, 7 or 9 urls\n");
        return EXIT_FAILURE;
    }
    make_members(argv + 1, n, clients, members);
    must(relock_redlock_new(members, (size_t)n, &orders), "make the red lock");

    must(relock_timedlock(orders, 5000), "acquire");
    printf("held for at least another %llu ms\n", (unsigned long long)relock_valid_ms(orders));
    released = relock_unlock(orders); /* RELOCK_OK: a majority has confirmed it */
    printf("released: %s\n", relock_strerror(released));

    relock_lock_free(orders);
    for (int i = 0; i < n; i++) {
        relock_lock_free(members[i]);
        relock_client_free(clients[i]);
    }
    return released == RELOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
