/*
 * fenced_store - a holder that is paused for longer than its lease, and a store that rejects it
 *
 * A process checks that it still holds the lock, and is stopped before it writes: here by SIGSTOP,
 * in practice by a debugger, by swapping or by a suspended virtual machine. Its watchdog stops with
 * it, so its lease expires, and another process acquires the lock and writes. Then the first
 * process continues and writes old data over new.
 *
 * No lock can prevent this, because the pause can always come between the check and the write. The
 * store can. Each hold of a fenced lock has a token that is greater than the tokens of all earlier
 * holds. The writer sends its token with the data, and the store rejects a token that is smaller
 * than the greatest it has seen. This program runs a store that ignores the tokens, then one that
 * checks.
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

/* ---- the store: shared memory in place of a file or a database ---- */

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

/* Compares and writes in one step: a pause between the two would be the same gap again. */
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
    printf("    write \"%s\" with token %llu: %s\n", value, (unsigned long long)token,
           is_stale ? "rejected" : "done");
    return !is_stale;
}

/* ---- two writers ---- */

struct writer {
    struct relock_client *client;
    struct relock_lock *lock;
    struct relock_grant grant;
};

static void acquire_lock(struct writer *writer, const char *url)
{
    const struct relock_options options = {
        .url = url,
        .watchdog_timeout_ms = LEASE_MS,
        .log_level = RELOCK_LOG_ERROR, /* the loss is part of the demonstration */
    };
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    must(relock_client_new(&options, &writer->client), "connect");
    must(relock_fencedlock_new(writer->client, LOCK_NAME, &writer->lock), "make the lock");
    must(relock_acquire(writer->lock, &how, &writer->grant), "acquire the lock");
}

static int release_lock(struct writer *writer)
{
    int r;

    r = relock_unlock(writer->lock);
    relock_lock_free(writer->lock);
    relock_client_free(writer->client);
    return r;
}

/* The first writer, in a process of its own. It checks the lock as late as it can. */
static void write_after_a_pause(struct store *store, const char *url)
{
    struct writer writer;

    acquire_lock(&writer, url);
    expect(relock_valid_ms(writer.lock) > 0, "the hold is certain just before the write");
    raise(SIGSTOP); /* when this returns, another process holds the lock */
    put(store, writer.grant.fencing_token, "old price");
    expect(release_lock(&writer) == RELOCK_LOST, "the release reports the loss, too late");
}

static void write_meanwhile(struct store *store, const char *url)
{
    struct writer writer;

    acquire_lock(&writer, url); /* waits until the first writer's lease has expired */
    expect(put(store, writer.grant.fencing_token, "new price"), "the holder may write");
    must(release_lock(&writer), "release the lock");
}

/* Returns whether the store has the data that was written last under the lock. */
static bool try_store(struct store *store, const char *url)
{
    pid_t pid = fork(); /* before a client is made: a child cannot use its parent's */
    bool is_newer;
    int status;

    expect(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        write_after_a_pause(store, url);
        exit(EXIT_SUCCESS);
    }
    expect(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status),
           "the first writer is stopped");
    write_meanwhile(store, url);
    kill(pid, SIGCONT);
    expect(waitpid(pid, &status, 0) == pid && status == 0, "the first writer ends normally");

    is_newer = strcmp(store->guarded.value, "new price") == 0;
    printf("    the store contains \"%s\"\n", store->guarded.value);
    return is_newer;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    bool is_kept, is_kept_by_tokens;

    setlinebuf(stdout); /* else a child may print its parent's buffer again */
    printf("a store that accepts every write:\n");
    is_kept = try_store(make_store(false), url);
    printf("a store that rejects tokens smaller than the greatest it has seen:\n");
    is_kept_by_tokens = try_store(make_store(true), url);
    return !is_kept && is_kept_by_tokens ? EXIT_SUCCESS : EXIT_FAILURE;
}
