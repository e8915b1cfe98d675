/*
 * by_user - one lock per user, with lock names that come with the requests
 *
 * Four threads handle requests for three users. Each request derives its lock's name from the
 * user's number. So requests for one user run one at a time, and requests for different users run
 * concurrently. Handles are cheap: make one per request and free it when the request ends.
 *
 *     cc by_user.c $(pkg-config --cflags --libs relock) -pthread -o by_user
 *     ./by_user [URL]                                       default: redis://127.0.0.1:6379
 */
#include <pthread.h>
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>

#define N_THREADS 4
#define N_USERS 3
#define N_REQUESTS 50 /* per thread */

static struct relock_client *client;
static int points[N_USERS]; /* per user; each is guarded by the lock `user:%d` */

/* Handles a request. Returns RELOCK_OK, or why the user did not get the point. */
static int give_point(int user)
{
    struct relock_lock *lock = NULL;
    char name[32];
    int r;

    snprintf(name, sizeof(name), "user:%d", user);
    r = relock_lock_new(client, name, &lock);
    if (r == RELOCK_OK)
        r = relock_timedlock(lock, 5000);
    if (r == RELOCK_OK) {
        points[user]++;
        r = relock_unlock(lock);
    }
    relock_lock_free(lock); /* accepts NULL; does not release the lock */
    return r;
}

/* Returns the number of requests that failed. */
static void *serve(void *arg)
{
    size_t n_failed = 0;

    for (int i = 0; i < N_REQUESTS; i++) {
        int r = give_point(i % N_USERS);

        if (r != RELOCK_OK) {
            fprintf(stderr, "user:%d: %s\n", i % N_USERS, relock_strerror(r));
            n_failed++;
        }
    }
    (void)arg;
    return (void *)n_failed;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    pthread_t threads[N_THREADS];
    size_t n_failed = 0;
    int sum = 0, r;

    r = relock_client_new(&options, &client);
    if (r != RELOCK_OK) {
        fprintf(stderr, "by_user: %s\n", relock_strerror(r));
        return EXIT_FAILURE;
    }
    for (int i = 0; i < N_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, serve, NULL) != 0)
            abort();
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        n_failed += (size_t)failed;
    }
    for (int user = 0; user < N_USERS; user++) {
        printf("user:%d has %d points\n", user, points[user]);
        sum += points[user];
    }
    relock_client_free(client);
    return n_failed == 0 && sum == N_THREADS * N_REQUESTS ? EXIT_SUCCESS : EXIT_FAILURE;
}
