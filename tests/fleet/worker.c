/*
 * A process of a fleet, which follows the orders of a test: support/player.h.
 *
 *     fleet-worker URL RECHECK_MS KEEP_MS FILE WHO
 *
 * The same source is built with the library of this tree and with that of an earlier commit, so it
 * uses relock.h alone, and of that what both have. THREAD in an order is an owner of its own:
 *
 *     THREAD lock KIND NAME         waits until it holds the lock; the answer is the result
 *     THREAD unlock KIND NAME       the same
 *     THREAD pass KIND NAME US      lock, a hold of US microseconds, unlock: "RESULT FROM TO", the
 *                                   time of the hold in ns on the monotonic clock
 *     THREAD contend KIND NAME US   pass after pass until "stop": "RESULT N MS", the number of
 * passes and the longest wait THREAD stop                   ends them asleep THREAD "yes" if a
 * single thread waits, and sleeps die                           frees all and ends the process
 *
 * FILE gets a line for each pass, as support/held.h reads it. The holder is WHO and the thread, and
 * CLIENT LIST shows the connections as "relock:WHO:".
 */
#include <inttypes.h>
#include <pthread.h>
#include <relock.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OWNERS 32
#define MAX_HANDLES 32
#define WORD_MAX 32
#define COMMAND_MS 20000

#define N_PERMITS 2

/* An earlier version has none, and gets no orders for one. */
static int new_semaphore(struct relock_client *client, const char *name, struct relock_lock **lock)
{
#ifdef RELOCK_SEMAPHORE_MAX
    int r = relock_semaphore_new(client, name, lock);

    return r == RELOCK_OK ? relock_semaphore_init(*lock, N_PERMITS, NULL) : r;
#else
    (void)client;
    (void)name;
    (void)lock;
    return RELOCK_E_UNSUPPORTED;
#endif
}

static const struct kind {
    const char *name;
    int (*make)(struct relock_client *client, const char *name, struct relock_lock **lock);
} kinds[] = {
    {"reentrant", relock_lock_new},  {"fenced", relock_fencedlock_new},
    {"spin", relock_spinlock_new},   {"fair", relock_fairlock_new},
    {"plain", relock_plainlock_new}, {"read", relock_rdlock_new},
    {"write", relock_wrlock_new},    {"semaphore", new_semaphore},
};

struct owner {
    char name[WORD_MAX];
    uint64_t number;
};

struct handle {
    const struct kind *kind;
    struct relock_lock *lock;
};

/* Changed by the main thread alone, except the answers and the records. */
static struct worker {
    struct relock_client *client;
    const char *who;
    FILE *records;
    pthread_mutex_t mutex; /* of the records and of the answers */
    struct owner owners[MAX_OWNERS];
    struct handle handles[MAX_HANDLES];
    atomic_bool is_over;
    uint64_t waits; /* before the last order */
} worker = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct order {
    unsigned number;
    char verb[WORD_MAX];
    const struct owner *owner;
    const struct handle *handle;
    uint64_t hold_us;
};

static void fail(const char *what)
{
    fprintf(stderr, "worker %s: %s\n", worker.who, what);
    exit(EXIT_FAILURE);
}

static void answer(unsigned number, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void answer(unsigned number, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    pthread_mutex_lock(&worker.mutex);
    printf("%u ", number);
    vprintf(format, ap);
    printf("\n");
    fflush(stdout);
    pthread_mutex_unlock(&worker.mutex);
    va_end(ap);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void let_pass(uint64_t us)
{
    struct timespec time = {.tv_nsec = (long)us * 1000};

    nanosleep(&time, NULL);
}

/* ---- orders -------------------------------------------------------------------------------- */

static int lock(const struct order *order, uint64_t *token)
{
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = order->owner->number};
    struct relock_grant grant = {0};
    int r;

#ifdef RELOCK_SEMAPHORE_MAX
    how.permits = order->handle->kind->make == new_semaphore;
#endif
    r = relock_acquire(order->handle->lock, &how, &grant);
    *token = grant.fencing_token;
    return r;
}

static int unlock(const struct order *order)
{
    return relock_release(order->handle->lock, order->owner->number);
}

struct passed {
    uint64_t began_ns, from_ns, to_ns, token;
};

static void record(const struct order *order, const struct passed *passed)
{
    const char *name = relock_lock_name(order->handle->lock);

    pthread_mutex_lock(&worker.mutex);
    fprintf(worker.records, "%s.%s %s %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", worker.who,
            order->owner->name, order->handle->kind->name, name, passed->from_ns, passed->to_ns,
            passed->token);
    pthread_mutex_unlock(&worker.mutex);
}

static int pass(const struct order *order, struct passed *passed)
{
    int r;

    passed->began_ns = now_ns();
    r = lock(order, &passed->token);
    if (r != RELOCK_OK)
        return r;
    passed->from_ns = now_ns();
    let_pass(order->hold_us);
    passed->to_ns = now_ns();
    r = unlock(order);
    record(order, passed);
    return r;
}

static void pass_once(const struct order *order)
{
    struct passed passed = {0};
    int r = pass(order, &passed);

    answer(order->number, "%d %" PRIu64 " %" PRIu64 " %" PRIu64, r, passed.from_ns, passed.to_ns,
           passed.token);
}

static void contend(const struct order *order)
{
    uint64_t n = 0, longest_ns = 0;
    struct passed passed;
    int r = RELOCK_OK;

    for (; !atomic_load(&worker.is_over) && r == RELOCK_OK; n++) {
        r = pass(order, &passed);
        if (r == RELOCK_OK && passed.from_ns - passed.began_ns > longest_ns)
            longest_ns = passed.from_ns - passed.began_ns;
        let_pass(order->hold_us);
    }
    answer(order->number, "%d %" PRIu64 " %" PRIu64, r, n, longest_ns / 1000000);
}

static void *obey(void *arg)
{
    struct order *order = arg;
    uint64_t token;

    if (strcmp(order->verb, "contend") == 0) {
        contend(order);
    } else if (strcmp(order->verb, "pass") == 0) {
        pass_once(order);
    } else if (strcmp(order->verb, "lock") == 0) {
        answer(order->number, "%d", lock(order, &token));
    } else if (strcmp(order->verb, "unlock") == 0) {
        answer(order->number, "%d", unlock(order));
    } else {
        atomic_store(&worker.is_over, true);
        answer(order->number, "0");
    }
    free(order);
    return NULL;
}

/* ---- the main thread ----------------------------------------------------------------------- */

static struct owner *owner_of(const char *name)
{
    for (int i = 0; i < MAX_OWNERS; i++) {
        struct owner *owner = &worker.owners[i];

        if (owner->number == 0) {
            snprintf(owner->name, sizeof(owner->name), "%s", name);
            owner->number = relock_owner_new();
        }
        if (strcmp(owner->name, name) == 0)
            return owner;
    }
    fail("too many owners");
    return NULL;
}

static const struct kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    fail("no such kind");
    return NULL;
}

static struct handle *handle_of(const struct kind *kind, const char *name)
{
    for (int i = 0; i < MAX_HANDLES; i++) {
        struct handle *handle = &worker.handles[i];

        if (!handle->lock) {
            handle->kind = kind;
            if (kind->make(worker.client, name, &handle->lock) != RELOCK_OK)
                fail("no handle");
        }
        if (handle->kind == kind && strcmp(relock_lock_name(handle->lock), name) == 0)
            return handle;
    }
    fail("too many locks");
    return NULL;
}

static struct relock_stats stats(void)
{
    struct relock_stats now;

    if (relock_client_stats(worker.client, &now, sizeof(now)) != RELOCK_OK)
        fail("no stats");
    return now;
}

static void begin(unsigned number, const char *line)
{
    struct order *order = calloc(1, sizeof(*order));
    char owner[WORD_MAX], kind[WORD_MAX] = "", name[WORD_MAX] = "";
    pthread_t thread;

    if (!order)
        fail("no memory");
    sscanf(line, "%31s %31s %31s %31s %" SCNu64, owner, order->verb, kind, name, &order->hold_us);
    order->number = number;
    order->owner = owner_of(owner);
    order->handle = name[0] != '\0' ? handle_of(kind_of(kind), name) : NULL;
    worker.waits = stats().waits;
    if (pthread_create(&thread, NULL, obey, order) != 0)
        fail("no thread");
    pthread_detach(thread);
}

static void play(void)
{
    char line[256];

    for (unsigned number = 1; fgets(line, sizeof(line), stdin); number++) {
        struct relock_stats now = stats();

        if (strncmp(line, "die", 3) == 0)
            break;
        if (strncmp(line, "asleep ", 7) == 0)
            answer(number, now.waiters == 1 && now.waits > worker.waits ? "yes" : "no");
        else
            begin(number, line);
    }
}

int main(int argc, char **argv)
{
    struct relock_options options = {.command_timeout_ms = COMMAND_MS,
                                     .connect_timeout_ms = COMMAND_MS,
                                     .handoff_ms = 1,
                                     .deadlock_ms = 300,
                                     .flags = RELOCK_ANNOUNCE_PLAIN | RELOCK_NO_SPIN};
    char client_name[WORD_MAX];

    if (argc != 6)
        return EXIT_FAILURE;
    snprintf(client_name, sizeof(client_name), "relock:%s", argv[5]);
    options.url = argv[1];
    options.client_name = client_name;
    options.recheck_ms = strtoull(argv[2], NULL, 10);
    options.keep_ms = strtoull(argv[3], NULL, 10);
    worker.records = fopen(argv[4], "w");
    worker.who = argv[5];
    if (!worker.records || relock_client_new(&options, &worker.client) != RELOCK_OK)
        fail("it cannot begin");
    printf("ready\n");
    fflush(stdout);
    play();
    for (int i = 0; i < MAX_HANDLES; i++)
        relock_lock_free(worker.handles[i].lock);
    relock_client_free(worker.client);
    return fclose(worker.records) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
