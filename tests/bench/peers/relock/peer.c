/*
 * relock, measured as ../README.md says.
 *
 *     relock-peer redis://HOST:PORT SECONDS
 *     relock-peer redis://HOST:PORT waiter SECONDS
 *     relock-peer redis://HOST:PORT hold LOCKS
 *     relock-peer redis://HOST:PORT beside HOLD_MS
 *
 * Any failure ends the program.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <pthread.h>
#include <relock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PASSES 100
#define WAITERS 32
#define WATCHED_S 10
#define CROWD_MAX 16
#define PREFIX "peer:relock:"

#define S_TO_NS 1000000000.0
#define MS_TO_NS 1000000

#define must(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(EXIT_FAILURE);                                             \
        }                                                                   \
    } while (0)

/* ---- tools --------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_ns(double ns)
{
    struct timespec span = {(time_t)(ns / S_TO_NS), 0};

    span.tv_nsec = (long)(ns - (double)span.tv_sec * S_TO_NS);
    nanosleep(&span, NULL);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double median_us(int64_t *ns, size_t n)
{
    qsort(ns, n, sizeof(*ns), compare);
    return (double)ns[n / 2] / 1000;
}

static struct relock_client *connect_to(const char *url)
{
    struct relock_client *client;

    must(relock_client_new(&(struct relock_options){.url = url}, &client) == RELOCK_OK);
    return client;
}

static struct relock_lock *lock_on(struct relock_client *client, const char *name)
{
    struct relock_lock *lock;

    must(relock_lock_new(client, name, &lock) == RELOCK_OK);
    return lock;
}

static void take(struct relock_lock *lock)
{
    must(relock_lock(lock) == RELOCK_OK);
}

static void give(struct relock_lock *lock)
{
    must(relock_unlock(lock) == RELOCK_OK);
}

/* ---- one thread ---------------------------------------------------------------------------- */

static double uncontended_us(struct relock_client *client, double seconds)
{
    struct relock_lock *lock = lock_on(client, PREFIX "uncontended");
    int64_t end_ns = now_ns() + (int64_t)(seconds * S_TO_NS);
    int64_t *took_ns = NULL;
    size_t n = 0, size = 0;
    double median;

    while (now_ns() < end_ns || n == 0) {
        int64_t begin_ns = now_ns();

        take(lock);
        give(lock);
        if (n == size) {
            size = size * 2 + 1024;
            took_ns = realloc(took_ns, size * sizeof(*took_ns));
            must(took_ns);
        }
        took_ns[n++] = now_ns() - begin_ns;
    }
    median = median_us(took_ns, n);
    free(took_ns);
    relock_lock_free(lock);
    return median;
}

/* ---- a crowd ------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct relock_lock *lock;
    atomic_bool *stop;
    atomic_long pairs;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(worker->stop)) {
        take(worker->lock);
        give(worker->lock);
        atomic_fetch_add(&worker->pairs, 1);
    }
    return NULL;
}

/* Pairs per second of all threads, each with its lock; `least_percent` is the smallest share. */
static double crowd(struct relock_lock **locks, unsigned n, double seconds, double *least_percent)
{
    struct worker workers[CROWD_MAX] = {0};
    long before[CROWD_MAX], sum = 0, least = -1;
    atomic_bool stop = false;
    int64_t begin_ns;
    double took_s;

    for (unsigned i = 0; i < n; i++) {
        workers[i].lock = locks[i];
        workers[i].stop = &stop;
        must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    sleep_ns(seconds / 2 * S_TO_NS);
    begin_ns = now_ns();
    for (unsigned i = 0; i < n; i++)
        before[i] = atomic_load(&workers[i].pairs);
    sleep_ns(seconds * S_TO_NS);
    took_s = (double)(now_ns() - begin_ns) / S_TO_NS;
    for (unsigned i = 0; i < n; i++) {
        long pairs = atomic_load(&workers[i].pairs) - before[i];

        sum += pairs;
        if (least < 0 || pairs < least)
            least = pairs;
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    *least_percent = sum > 0 ? 100.0 * (double)least / (double)sum : 0;
    return (double)sum / took_s;
}

static double own_locks_per_s(struct relock_client *client, double seconds)
{
    struct relock_lock *locks[16];
    double rate, least_percent;
    char name[64];

    for (unsigned i = 0; i < 16; i++) {
        snprintf(name, sizeof(name), PREFIX "own:%u", i);
        locks[i] = lock_on(client, name);
    }
    rate = crowd(locks, 16, seconds, &least_percent);
    for (unsigned i = 0; i < 16; i++)
        relock_lock_free(locks[i]);
    return rate;
}

static void warm_up(struct relock_client *client, double seconds)
{
    own_locks_per_s(client, 2 * seconds);
}

static double one_lock_per_s(struct relock_client *client, double seconds, double *least_percent)
{
    struct relock_lock *lock = lock_on(client, PREFIX "one");
    struct relock_lock *locks[8];
    double rate;

    for (unsigned i = 0; i < 8; i++)
        locks[i] = lock;
    rate = crowd(locks, 8, seconds, least_percent);
    relock_lock_free(lock);
    return rate;
}

/* ---- two processes ------------------------------------------------------------------------- */

/* The other process. For each message on its standard input, a socket, it acquires the lock once
 * and answers with the time. */
static void wait_for_lock(struct relock_client *client, double seconds)
{
    struct relock_lock *lock = lock_on(client, PREFIX "passing");
    int64_t ns;

    warm_up(client, seconds);
    while (read(STDIN_FILENO, &ns, sizeof(ns)) == sizeof(ns)) {
        take(lock);
        ns = now_ns();
        give(lock);
        must(write(STDIN_FILENO, &ns, sizeof(ns)) == sizeof(ns));
    }
    relock_lock_free(lock);
}

static pid_t start_waiter(const char *url, double seconds, int *socket)
{
    char text[32];
    int sockets[2];
    pid_t pid;

    snprintf(text, sizeof(text), "%f", seconds);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        dup2(sockets[1], STDIN_FILENO);
        execl("/proc/self/exe", "relock-peer", url, "waiter", text, (char *)NULL);
        _exit(127);
    }
    close(sockets[1]);
    *socket = sockets[0];
    return pid;
}

static int64_t one_pass(struct relock_lock *lock, int socket, double pause_ns)
{
    int64_t given_ns, taken_ns = 0;

    take(lock);
    must(write(socket, &taken_ns, sizeof(taken_ns)) == sizeof(taken_ns));
    sleep_ns(pause_ns);
    given_ns = now_ns();
    give(lock);
    must(read(socket, &taken_ns, sizeof(taken_ns)) == sizeof(taken_ns));
    return taken_ns - given_ns;
}

static double passing_us(struct relock_client *client, const char *url, double seconds)
{
    struct relock_lock *lock = lock_on(client, PREFIX "passing");
    int64_t took_ns[PASSES], end_ns;
    int socket, status;
    pid_t pid = start_waiter(url, seconds, &socket);

    one_pass(lock, socket, S_TO_NS); /* the other process starts and warms up */
    end_ns = now_ns() + (int64_t)(seconds * S_TO_NS);
    while (now_ns() < end_ns)
        one_pass(lock, socket, 5 * MS_TO_NS);
    for (unsigned i = 0; i < PASSES; i++)
        took_ns[i] = one_pass(lock, socket, (10 + i * 37 % 290) * MS_TO_NS);
    close(socket);
    must(waitpid(pid, &status, 0) == pid && status == 0);
    relock_lock_free(lock);
    return median_us(took_ns, PASSES);
}

/* ---- waiters ------------------------------------------------------------------------------- */

static redisContext *connect_bare(const char *url)
{
    redisContext *redis;
    char host[64];
    int port;

    must(sscanf(url, "redis://%63[^:]:%d", host, &port) == 2);
    redis = redisConnect(host, port);
    must(redis && !redis->err);
    return redis;
}

static int64_t processed(redisContext *redis)
{
    static const char field[] = "total_commands_processed:";
    redisReply *reply = redisCommand(redis, "INFO stats");
    const char *found;
    int64_t count;

    must(reply && reply->type == REDIS_REPLY_STRING);
    found = strstr(reply->str, field);
    must(found);
    count = strtoll(found + strlen(field), NULL, 10);
    freeReplyObject(reply);
    return count;
}

static void *wait_once(void *lock)
{
    take(lock);
    give(lock);
    return NULL;
}

static double commands_per_s(struct relock_client *client, const char *url)
{
    struct relock_lock *lock = lock_on(client, PREFIX "waiters");
    redisContext *redis = connect_bare(url);
    pthread_t threads[WAITERS];
    int64_t before, begin_ns;
    double rate;

    take(lock);
    for (unsigned i = 0; i < WAITERS; i++)
        must(pthread_create(&threads[i], NULL, wait_once, lock) == 0);
    sleep_ns(2 * S_TO_NS);
    before = processed(redis);
    begin_ns = now_ns();
    sleep_ns(WATCHED_S * S_TO_NS);
    rate = (double)(processed(redis) - before - 1) / ((double)(now_ns() - begin_ns) / S_TO_NS);
    give(lock);
    for (unsigned i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    redisFree(redis);
    relock_lock_free(lock);
    return rate;
}

/* ---- renewals ------------------------------------------------------------------------------ */

/* For renewals.py. */
static void hold(struct relock_client *client, unsigned long n)
{
    char name[64];

    for (unsigned long i = 0; i < n; i++) {
        snprintf(name, sizeof(name), PREFIX "held:%lu", i);
        take(lock_on(client, name)); /* released with the client */
    }
    puts("held");
    must(fflush(stdout) == 0);
    while (getchar() != EOF)
        ;
}

/* ---- beside a peer ------------------------------------------------------------------------- */

static double hold_ms;
static atomic_bool is_over;

static void *hold_again_and_again(void *arg)
{
    struct relock_lock *lock = arg;
    static unsigned long n;

    while (!atomic_load(&is_over)) {
        take(lock);
        sleep_ns(hold_ms * MS_TO_NS);
        give(lock);
        n++;
    }
    return &n;
}

/* For neighbour.py: a plain lock, until its input ends. */
static void beside(struct relock_client *client)
{
    struct relock_lock *lock;
    pthread_t thread;
    void *n;

    must(relock_plainlock_new(client, "peer:neighbour", &lock) == RELOCK_OK);
    must(pthread_create(&thread, NULL, hold_again_and_again, lock) == 0);
    while (getchar() != EOF)
        ;
    atomic_store(&is_over, true);
    pthread_join(thread, &n);
    printf("%lu\n", *(unsigned long *)n);
    relock_lock_free(lock);
}

/* -------------------------------------------------------------------------------------------- */

static void measure(struct relock_client *client, const char *url, double seconds)
{
    double commands, passing, uncontended, own_locks, one_lock, least_percent;

    commands = commands_per_s(client, url);
    passing = passing_us(client, url, seconds);
    warm_up(client, seconds);
    uncontended = uncontended_us(client, seconds);
    own_locks = own_locks_per_s(client, seconds);
    one_lock = one_lock_per_s(client, seconds, &least_percent);
    printf("{\"peer\": \"relock\", \"version\": \"%s\", \"rows\": {\"uncontended_p50_us\": %f, "
           "\"own_locks_16_pairs_per_s\": %f, \"one_lock_8_acquisitions_per_s\": %f, "
           "\"one_lock_8_least_percent\": %f, \"passing_p50_us\": %f, "
           "\"commands_per_s_32_waiters\": %f}}\n",
           RELOCK_VERSION, uncontended, own_locks, one_lock, least_percent, passing, commands);
}

int main(int argc, char **argv)
{
    struct relock_client *client;
    double seconds;

    must(argc == 3 || argc == 4);
    seconds = strtod(argv[argc - 1], NULL);
    client = connect_to(argv[1]);
    if (argc == 4 && strcmp(argv[2], "hold") == 0) {
        hold(client, strtoul(argv[3], NULL, 10));
        exit(EXIT_SUCCESS);
    }
    if (argc == 4 && strcmp(argv[2], "beside") == 0) {
        hold_ms = seconds;
        beside(client);
    } else if (argc == 4) {
        wait_for_lock(client, seconds);
    } else {
        measure(client, argv[1], seconds);
    }
    relock_client_free(client);
    return EXIT_SUCCESS;
}
