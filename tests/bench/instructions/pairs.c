/*
 * pairs URL N: acquires and releases an uncontended lock N times, for counting instructions.
 */
#include <relock.h>

#include <stdio.h>
#include <stdlib.h>

static int use(struct relock_lock *lock, long n)
{
    int r = RELOCK_OK;

    for (long i = 0; i < n && r == RELOCK_OK; i++) {
        r = relock_lock(lock);
        if (r == RELOCK_OK)
            r = relock_unlock(lock);
    }
    return r;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc == 3 ? argv[1] : NULL,
                                     .connect_timeout_ms = 30000, /* under valgrind */
                                     /* what depends on time, not on pairs, would be counted */
                                     .flags = RELOCK_NO_SPIN | RELOCK_NO_TRACKING};
    struct relock_client *client = NULL;
    struct relock_lock *lock = NULL;
    int r;

    if (argc != 3) {
        fprintf(stderr, "usage: pairs URL N\n");
        return 2;
    }
    r = relock_client_new(&options, &client);
    if (r == RELOCK_OK)
        r = relock_lock_new(client, "orders:42", &lock);
    if (r == RELOCK_OK)
        r = use(lock, strtol(argv[2], NULL, 10));
    if (r != RELOCK_OK)
        fprintf(stderr, "%s\n", relock_strerror(r));
    relock_lock_free(lock);
    relock_client_free(client);
    return r == RELOCK_OK ? 0 : 1;
}
