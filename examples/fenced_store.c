/*
 * fenced_store - a holder that is paused for longer than its lease, and a store that refuses it
 *
 * A process asks whether the lock is still its own, is told so, and is stopped before it writes: by
 * SIGSTOP here, by a debugger, a machine that swaps or a suspended VM elsewhere. Its watchdog is
 * stopped with it, so its lease ends, and another process takes the lock and writes. Then the first
 * one goes on and writes what it believes to be the newest.
 *
 * No lock can prevent that, for no question can be asked so late that nothing may happen behind it.
 * The store can: each hold of a fenced lock has a token greater than those of all holds before, the
 * writer hands it over, and the store refuses a token smaller than the greatest it has seen. Here
 * first a store that does not look, then one that does.
 *
 *     cc fenced_store.c $(pkg-config --cflags --libs relock) -pthread -o fenced_store
 *     ./fenced_store [URL]                                  default: redis://127.0.0.1:6379
 */
#include <pthread.h>
#include <relock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCK_NAME "price-list"
#define LEASE_MS 2000

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "fenced_store: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fenced_store: failed: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- the store: in memory that both processes share, as a file or a database would be ---- */

struct store {
    bool checks_tokens;
    pthread_mutex_t mutex;
    struct {
        uint64_t greatest_token;
        char value[16];
    } guarded; /* by mutex */
};

static struct store *make_store(bool checks_tokens)
{
    pthread_mutexattr_t attr;
    struct store *store =
        mmap(NULL, sizeof(*store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    expect(store != MAP_FAILED, "make the store");
    store->checks_tokens = checks_tokens;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&store->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return store;
}

/* Compares and writes in one step: else a pause between the two would be the same hole again. */
static bool put(struct store *store, uint64_t token, const char *value)
{
    bool is_stale;

    pthread_mutex_lock(&store->mutex);
    is_stale = store->checks_tokens && token < store->guarded.greatest_token;
    if (!is_stale) {
        store->guarded.greatest_token = token;
        snprintf(store->guarded.value, sizeof(store->guarded.value), "%s", value);
    }
    pthread_mutex_unlock(&store->mutex);
    printf("    %s, token %llu: %s\n", value, (unsigned long long)token,
           is_stale ? "refused" : "written");
    return !is_stale;
}

/* ---- two writers ---- */

struct writer {
    struct relock_client *client;
    struct relock_lock *lock;
    struct relock_grant grant;
};

static void take_lock(struct writer *writer, const char *url)
{
    const struct relock_options options = {
        .url = url,
        .watchdog_timeout_ms = LEASE_MS,
        .log_level = RELOCK_LOG_ERROR, /* that a hold is lost is what is to be seen here */
    };
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    must(relock_client_new(&options, &writer->client), "connect");
    must(relock_fencedlock_new(writer->client, LOCK_NAME, &writer->lock), "make the lock");
    must(relock_acquire(writer->lock, &how, &writer->grant), "take the lock");
}

static int give_lock_up(struct writer *writer)
{
    int r;

    r = relock_unlock(writer->lock);
    relock_lock_free(writer->lock);
    relock_client_free(writer->client);
    return r;
}

/* The first one, in a process of its own. It does all that a holder can do. */
static void write_after_a_pause(struct store *store, const char *url)
{
    struct writer writer;

    take_lock(&writer, url);
    expect(relock_valid_ms(writer.lock) > 0, "the lock is certain, just before the write");
    raise(SIGSTOP); /* and somebody else has it when this returns */
    put(store, writer.grant.fencing_token, "the older");
    expect(give_lock_up(&writer) == RELOCK_LOST, "the release tells what happened: too late");
}

static void write_meanwhile(struct store *store, const char *url)
{
    struct writer writer;

    take_lock(&writer, url); /* waits for the lease of the first to end */
    expect(put(store, writer.grant.fencing_token, "the newer"), "who holds the lock may write");
    must(give_lock_up(&writer), "give the lock up");
}

/* Returns whether what was written last under the lock is in the store. */
static bool try_store(struct store *store, const char *url)
{
    pid_t pid = fork(); /* before there is a client: it does not cross fork() */
    bool is_newer;
    int status;

    expect(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        write_after_a_pause(store, url);
        exit(EXIT_SUCCESS);
    }
    expect(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "the first is stopped");
    write_meanwhile(store, url);
    kill(pid, SIGCONT);
    expect(waitpid(pid, &status, 0) == pid && status == 0, "the first ends as it should");

    is_newer = strcmp(store->guarded.value, "the newer") == 0;
    printf("    in the store: %s\n", store->guarded.value);
    return is_newer;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    bool is_kept, is_kept_by_tokens;

    setlinebuf(stdout); /* so that nothing is printed twice by a child, or never */
    printf("a store that takes every write:\n");
    is_kept = try_store(make_store(false), url);
    printf("a store that refuses a token smaller than the greatest it has seen:\n");
    is_kept_by_tokens = try_store(make_store(true), url);
    return !is_kept && is_kept_by_tokens ? EXIT_SUCCESS : EXIT_FAILURE;
}
