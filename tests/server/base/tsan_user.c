/*
 * A user's program that is built with ThreadSanitizer, while the library is not: locks of all kinds
 * guard plain counters.
 *
 *     tsan_user URL             it has no race: nothing may be reported
 *     tsan_user URL race        beside that, no lock guards a counter: this must be reported
 *     tsan_user URL tls FILE    its threads connect at the same time, over TLS and with the CA in
 *                               FILE: what OpenSSL does meanwhile may not be reported
 *
 * Ends with 0 if all went as it should. tsan_test.c runs it.
 */
#include <relock.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_THREADS 8
#define N_ROUNDS 24
#define LEASE_MS 6000 /* a renewal, after a third of it, finds a lost hold */
#define N_CLIENTS 4
#define N_VOTES 3
#define MAX_LOCKS 8

struct user {
    struct relock_options options;
    struct relock_client *client;
    struct relock_client *voters[N_VOTES];

    struct relock_lock *locks[MAX_LOCKS]; /* each its own counter */
    long counters[MAX_LOCKS];
    int n_locks;

    struct relock_lock *reads;  /* together with locks[0], which writes */
    struct relock_lock *broken; /* lost while it is held */
    struct relock_cancel *cancel;
    pthread_barrier_t start;
    long n_raced; /* guarded by nothing */
};

struct worker {
    struct user *user;
    int number;
    pthread_t thread;
};

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "tsan_user: not so: %s\n", what);
    exit(EXIT_FAILURE);
}

#define OK(call) must((call) == RELOCK_OK, #call)

static void keep_quiet(int level, const char *text, void *arg)
{
    (void)level, (void)text, (void)arg;
}

/* The hold of each kind guards its counter, and so does each further level. */
static void count(struct user *user, int i)
{
    struct relock_lock *lock = user->locks[i];
    long before;

    OK(relock_lock(lock));
    before = user->counters[i]++;
    OK(relock_lock(lock));
    OK(relock_check(lock, 0, NULL));
    must(user->counters[i] == before + 1, "the counter is ours alone");
    OK(relock_unlock(lock));
    user->counters[i]++;
    OK(relock_unlock(lock));
}

static void read_counter(struct user *user)
{
    OK(relock_lock(user->reads));
    must(user->counters[0] % 2 == 0, "a reader sees whole pairs");
    OK(relock_unlock(user->reads));
}

/* A name that comes with each request, as in a server. */
static void use_own_name(struct user *user, int number)
{
    struct relock_lock *lock;
    char name[32];

    snprintf(name, sizeof(name), "user:%d", number);
    OK(relock_lock_new(user->client, name, &lock));
    OK(relock_lock(lock));
    OK(relock_unlock(lock));
    relock_lock_free(lock);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct user *user = worker->user;

    for (int round = 0; round < N_ROUNDS; round++) {
        count(user, (round + worker->number) % user->n_locks);
        read_counter(user);
        if (round % 8 == 0)
            use_own_name(user, worker->number);
    }
    return NULL;
}

static void *race(void *arg)
{
    struct worker *worker = arg;

    worker->user->n_raced++;
    return work(arg);
}

/* Waits until somebody cancels it, or until the client is freed. */
static void *wait_in_vain(void *arg)
{
    struct user *user = ((struct worker *)arg)->user;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = user->cancel};

    must(relock_acquire(user->broken, &how, NULL) != RELOCK_OK, "somebody else has it");
    return NULL;
}

static void on_lost(const struct relock_lost *what, void *arg)
{
    long *levels = arg;

    *levels = (long)what->hold_count;
}

/* `on_lost` may write data that its owner reads after the last release. */
static void lose(struct user *user)
{
    long levels = 0;
    struct relock_how how = {.on_lost = on_lost, .arg = &levels};

    OK(relock_acquire(user->broken, &how, NULL));
    OK(relock_force_unlock(user->broken));
    while (relock_valid_ms(user->broken) > 0)
        sched_yield();
    must(relock_unlock(user->broken) == RELOCK_LOST, "a broken hold is lost");
    must(levels == 1 || levels == 0, "it was told of one level, or the release found out");
}

static void in_threads(struct user *user, void *run(void *))
{
    struct worker workers[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.user = user, .number = i};
        must(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0, "a thread");
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

static void cancel_waiters(struct user *user)
{
    struct worker waiter = {.user = user};
    uint64_t owner = relock_owner_new();

    OK(relock_acquire(user->broken, &(struct relock_how){.owner = owner}, NULL));
    must(pthread_create(&waiter.thread, NULL, wait_in_vain, &waiter) == 0, "a thread");
    relock_cancel_fire(user->cancel);
    pthread_join(waiter.thread, NULL);
    OK(relock_release(user->broken, owner));
}

static void open_clients(struct user *user, char *url)
{
    user->options =
        (struct relock_options){.url = url, .on_log = keep_quiet, .watchdog_timeout_ms = LEASE_MS};
    OK(relock_client_new(&user->options, &user->client));
    for (int i = 0; i < N_VOTES; i++)
        OK(relock_client_new(&user->options, &user->voters[i]));
}

/* A name for each vote: here they share a server. */
static struct relock_lock *make_red(struct user *user)
{
    struct relock_lock *votes[N_VOTES], *red;

    for (int i = 0; i < N_VOTES; i++) {
        char name[16];

        snprintf(name, sizeof(name), "red:%d", i);
        OK(relock_lock_new(user->voters[i], name, &votes[i]));
    }
    OK(relock_redlock_new(votes, N_VOTES, &red));
    for (int i = 0; i < N_VOTES; i++)
        relock_lock_free(votes[i]);
    return red;
}

static struct relock_lock *make_multi(struct user *user)
{
    struct relock_lock *members[2], *multi;

    OK(relock_lock_new(user->client, "multi:0", &members[0]));
    OK(relock_fairlock_new(user->client, "multi:1", &members[1]));
    OK(relock_multilock_new(members, 2, &multi));
    relock_lock_free(members[0]);
    relock_lock_free(members[1]);
    return multi;
}

static void open_locks(struct user *user)
{
    struct relock_client *client = user->client;
    struct relock_lock **next = user->locks;

    OK(relock_wrlock_new(client, "rw", next++));
    OK(relock_lock_new(client, "reentrant", next++));
    OK(relock_fairlock_new(client, "fair", next++));
    OK(relock_fencedlock_new(client, "fenced", next++));
    OK(relock_spinlock_new(client, "spin", next++));
    OK(relock_plainlock_new(client, "plain", next++));
    *next++ = make_multi(user);
    *next++ = make_red(user);
    user->n_locks = (int)(next - user->locks);

    OK(relock_rdlock_new(client, "rw", &user->reads));
    OK(relock_lock_new(client, "broken", &user->broken));
    OK(relock_cancel_new(&user->cancel));
}

static void close_all(struct user *user)
{
    for (int i = 0; i < user->n_locks; i++)
        relock_lock_free(user->locks[i]);
    relock_lock_free(user->reads);
    relock_lock_free(user->broken);
    relock_cancel_free(user->cancel);
    for (int i = 0; i < N_VOTES; i++)
        relock_client_free(user->voters[i]);
    relock_client_free(user->client);
}

/* OpenSSL passes memory between threads in ways that ThreadSanitizer does not see. So that this
 * happens in each connection, and not in one of a thousand, this replaces a function of OpenSSL. */
struct ssl_st;
typedef int shake_fn(struct ssl_st *ssl);
shake_fn SSL_do_handshake;

int SSL_do_handshake(struct ssl_st *ssl)
{
    static long n_shaken; /* guarded by nothing */
    shake_fn *shake;

    n_shaken++;
    *(void **)&shake = dlsym(RTLD_NEXT, "SSL_do_handshake");
    return shake(ssl);
}

static void *connect_first(void *arg)
{
    struct worker *worker = arg;

    (void)pthread_barrier_wait(&worker->user->start);
    use_own_name(worker->user, worker->number);
    return NULL;
}

/* Each with a connection of its own. */
static void connect_at_once(struct user *user, const char *url, const char *ca_file)
{
    user->options = (struct relock_options){.url = url,
                                            .tls_ca_file = ca_file,
                                            .connections = N_THREADS,
                                            .on_log = keep_quiet,
                                            .flags = RELOCK_LAZY};
    must(pthread_barrier_init(&user->start, NULL, N_THREADS) == 0, "a barrier");
    for (int i = 0; i < N_CLIENTS; i++) {
        OK(relock_client_new(&user->options, &user->client));
        in_threads(user, connect_first);
        relock_client_free(user->client);
    }
    pthread_barrier_destroy(&user->start);
}

static void use_all(struct user *user, char *url, void *run(void *))
{
    long sum = 0;

    open_clients(user, url);
    open_locks(user);

    in_threads(user, run);
    for (int i = 0; i < user->n_locks; i++)
        sum += user->counters[i];
    must(sum == 2L * N_THREADS * N_ROUNDS, "each round counted");

    lose(user);
    cancel_waiters(user);
    close_all(user);
}

int main(int argc, char **argv)
{
    struct user user = {0};

    must(argc >= 2 && argc <= 4, "usage: tsan_user URL [race | tls FILE]");
    if (argc == 4)
        connect_at_once(&user, argv[1], argv[3]);
    else
        use_all(&user, argv[1], argc == 3 ? race : work);
    return EXIT_SUCCESS;
}
