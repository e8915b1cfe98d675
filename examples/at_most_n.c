/*
 * at_most_n - at most N jobs at a time, in all processes together
 *
 * Four workers convert files. Each needs so much memory that only two may work at a time, so each
 * job takes a permit of a semaphore that has two. Here the workers are processes of this machine;
 * they may also run on several, or be Java programs that use Redisson's RPermitExpirableSemaphore.
 *
 * One worker is killed during its first job. Its permit comes back when its lease ends, so the
 * others go on by two again.
 *
 *     cc at_most_n.c $(pkg-config --cflags --libs relock) -o at_most_n
 *     ./at_most_n [URL]      default: redis://127.0.0.1:6379
 */
#include <relock.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_WORKERS 4
#define N_JOBS 3 /* of each worker */
#define N_PERMITS 2
#define LEASE_MS 2000
#define JOB_US 200000

/* Shared by the processes. Only this demonstration needs it, to count. */
struct count {
    atomic_int now, most, done;
};

static void convert(struct count *count, bool dies)
{
    int now = atomic_fetch_add(&count->now, 1) + 1, most = atomic_load(&count->most);

    while (now > most && !atomic_compare_exchange_weak(&count->most, &most, now))
        ;
    usleep(JOB_US);
    atomic_fetch_sub(&count->now, 1);
    if (dies)
        raise(SIGKILL);
    atomic_fetch_add(&count->done, 1);
}

/* The number of permits is set by the first worker, and stays in Redis. */
static int open_permits(struct relock_client *client, const char *name, struct relock_lock **slots)
{
    struct relock_permits permits;
    int r = relock_semaphore_new(client, name, slots);

    if (r == RELOCK_OK)
        r = relock_semaphore_init(*slots, N_PERMITS, NULL);
    if (r == RELOCK_OK)
        r = relock_semaphore_read(*slots, &permits);
    if (r == RELOCK_OK && permits.n_free + (int64_t)permits.n_out != N_PERMITS) {
        fprintf(stderr, "%s: the number of permits is another one\n", name);
        r = RELOCK_E_INVALID;
    }
    return r;
}

/* One worker, in a process of its own. */
static int work(const struct relock_options *options, const char *name, struct count *count,
                int worker)
{
    struct relock_client *client = NULL;
    struct relock_lock *slots = NULL;
    int r;

    r = relock_client_new(options, &client);
    if (r == RELOCK_OK)
        r = open_permits(client, name, &slots);
    for (int job = 0; job < N_JOBS && r == RELOCK_OK; job++) {
        r = relock_lock(slots); /* one permit; for more, relock_acquire() with `permits` */
        if (r == RELOCK_OK) {
            convert(count, worker == 1);
            r = relock_unlock(slots);
        }
    }
    if (r != RELOCK_OK)
        fprintf(stderr, "worker %d: %s\n", worker, relock_strerror(r));
    relock_lock_free(slots);
    relock_client_free(client);
    return r == RELOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool all_are_free(const struct relock_options *options, const char *name)
{
    struct relock_client *client = NULL;
    struct relock_lock *slots = NULL;
    struct relock_permits permits = {0};
    int r;

    r = relock_client_new(options, &client);
    if (r == RELOCK_OK)
        r = open_permits(client, name, &slots);
    if (r == RELOCK_OK)
        r = relock_semaphore_read(slots, &permits);
    printf("%lld permits are free\n", (long long)permits.n_free);
    relock_lock_free(slots);
    relock_client_free(client);
    return r == RELOCK_OK && permits.n_free == N_PERMITS;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL,
                                     .watchdog_timeout_ms = LEASE_MS};
    struct count *count =
        mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int n_killed = 0, n_failed = 0, status;
    char name[64];

    if (count == MAP_FAILED)
        return EXIT_FAILURE;
    snprintf(name, sizeof(name), "convert:run-%d", (int)getpid());
    for (int worker = 1; worker <= N_WORKERS; worker++)
        if (fork() == 0) /* no client exists here: each worker makes its own */
            return work(&options, name, count, worker);
    while (wait(&status) > 0) {
        n_killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        n_failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    printf("%d jobs are done, at most %d at a time; %d worker was killed during a job\n",
           atomic_load(&count->done), atomic_load(&count->most), n_killed);
    /* Its last lease has ended by then, a second later at most than LEASE_MS. */
    sleep((LEASE_MS + 1000) / 1000 + 1);
    return all_are_free(&options, name) && n_failed == 0 && atomic_load(&count->most) <= N_PERMITS
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
