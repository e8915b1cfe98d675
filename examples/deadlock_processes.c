/*
 * deadlock_processes - processes that wait for each other, and how they go on
 *
 * Three processes transfer money, each from its own account to that of the next one. Each holds its
 * account and waits for the other: a cycle, which would never end. After `deadlock_ms` the library
 * refuses one of the waits. That process releases everything, pauses and starts again; so the
 * others get what it held.
 *
 *     cc deadlock_processes.c $(pkg-config --cflags --libs relock) -o deadlock_processes
 *     ./deadlock_processes [URL]                            default: redis://127.0.0.1:6379
 */
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_PROCESSES 3

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "deadlock_processes: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

static struct relock_lock *account_of(struct relock_client *client, int n)
{
    char name[32];
    struct relock_lock *account;

    snprintf(name, sizeof(name), "account:%d", n);
    must(relock_lock_new(client, name, &account), name);
    return account;
}

/* Tells the others that this process holds its account, and waits until all do. */
static void meet(int to_parent, int from_parent)
{
    char byte = 0;

    if (write(to_parent, &byte, 1) != 1 || read(from_parent, &byte, 1) != 1)
        exit(EXIT_FAILURE);
}

/* Returns how often it was refused. */
static int transfer(struct relock_client *client, int n, int to_parent, int from_parent)
{
    int next = n % N_PROCESSES + 1, n_refused = 0, r;
    struct relock_lock *from = account_of(client, n), *to = account_of(client, next);
    struct timespec pause = {.tv_nsec = 20000000};

    must(relock_lock(from), "own account");
    meet(to_parent, from_parent);
    printf("process %d holds its account, and waits for that of process %d\n", n, next);
    fflush(stdout);
    while ((r = relock_lock(to)) == RELOCK_E_DEADLOCK) {
        n_refused++;
        must(relock_unlock(from), "release"); /* everything: the others wait for it */
        nanosleep(&pause, NULL);              /* let them go first; longer each time */
        pause.tv_nsec = pause.tv_nsec < 320000000 ? 2 * pause.tv_nsec : pause.tv_nsec;
        must(relock_lock(from), "own account, again");
    }
    must(r, "the other account");
    must(relock_unlock(to), "release");
    must(relock_unlock(from), "release");
    relock_lock_free(to);
    relock_lock_free(from);
    return n_refused;
}

static int run(const char *url, int n, int to_parent, int from_parent)
{
    const struct relock_options options = {.url = url, .log_level = RELOCK_LOG_ERROR};
    struct relock_client *client; /* made after fork(): a client belongs to one process */
    int n_refused;

    must(relock_client_new(&options, &client), "client");
    n_refused = transfer(client, n, to_parent, from_parent);
    relock_client_free(client);
    return n_refused;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    int up[2], down[2], status, n_refused = 0;
    char bytes[N_PROCESSES] = {0};

    if (pipe(up) != 0 || pipe(down) != 0)
        return EXIT_FAILURE;
    for (int n = 1; n <= N_PROCESSES; n++)
        if (fork() == 0)
            exit(100 + run(url, n, up[1], down[0]));
    for (int n = 0; n < N_PROCESSES; n++)
        if (read(up[0], bytes, 1) != 1)
            return EXIT_FAILURE;
    if (write(down[1], bytes, N_PROCESSES) != N_PROCESSES)
        return EXIT_FAILURE;
    for (int n = 0; n < N_PROCESSES; n++) {
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) < 100)
            return EXIT_FAILURE;
        n_refused += WEXITSTATUS(status) - 100;
    }
    printf("%d was refused, released what it held, and started again\n", n_refused);
    printf("all three transfers are done\n");
    return n_refused > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
