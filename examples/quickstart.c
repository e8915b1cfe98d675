/*
 * quickstart - acquire a lock, work, release it
 *
 * Only one process at a time is between relock_lock() and relock_unlock(), on any machine. Start
 * two of them to see one wait.
 *
 *     cc quickstart.c $(pkg-config --cflags --libs relock) -o quickstart
 *     ./quickstart [URL]                                    default: redis://127.0.0.1:6379
 */
#include <relock.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    struct relock_client *client = NULL;
    struct relock_lock *lock = NULL;
    int r = relock_client_new(&options, &client);

    if (r == RELOCK_OK)
        r = relock_lock_new(client, "orders:42", &lock);
    if (r == RELOCK_OK)
        r = relock_lock(lock); /* waits until no other owner holds the lock */
    if (r == RELOCK_OK) {
        printf("only this process works on order 42 now\n");
        sleep(1);
        r = relock_unlock(lock); /* RELOCK_OK: no other owner held it meanwhile */
    }
    if (r != RELOCK_OK)
        fprintf(stderr, "orders:42: %s\n", relock_strerror(r));

    relock_lock_free(lock);
    relock_client_free(client);
    return r == RELOCK_OK ? 0 : 1;
}
