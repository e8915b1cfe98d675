/*
 * tutorial_test - how to test a program that uses the library, with a private server
 *
 * The code under test adds 1 to a number in a store, under a lock. The tests start a Redis or
 * Valkey server on a unix socket and run this code while another owner holds the lock, loses it to
 * an operator, or dies with it, and while the server hangs. The test's store is where the test
 * interferes: no test sleeps and hopes.
 *
 *     cc tutorial_test.c $(pkg-config --cflags --libs relock) -pthread -o tutorial_test
 *     ./tutorial_test                 exits with 77 if there is neither redis-server nor
 * valkey-server
 */
#include <relock.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the code under test ---- */

#define WAIT_MS 5000
#define WRITE_MS 20 /* longer than writing the number takes */

struct store {
    int (*read)(struct store *);
    int value;
};

static int add_one(struct relock_client *client, struct store *store)
{
    struct relock_lock *lock = NULL;
    int value, released, r;

    r = relock_lock_new(client, "number", &lock);
    if (r == RELOCK_OK)
        r = relock_timedlock(lock, WAIT_MS);
    if (r == RELOCK_OK) {
        value = store->read(store);
        if (relock_valid_ms(lock) >= WRITE_MS)
            store->value = value + 1;
        else
            r = RELOCK_LOST;
        released = relock_unlock(lock);
        r = r == RELOCK_OK ? released : r;
    }
    relock_lock_free(lock);
    return r;
}

/* ---- a private server ---- */

#define LEASE_MS 3000   /* shorter than WAIT_MS, so that a wait outlasts a dead holder */
#define SILENCE_MS 2000 /* how long the server may be silent */
#define EXIT_SKIP 77

static char folder[] = "/tmp/tutorial_test.XXXXXX", socket_path[64], url[80];
static pid_t server;
static sem_t lost; /* posted for each lost hold */

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "FAILED: %s\n", what);
    exit(EXIT_FAILURE);
}

static void run_server(const char *program)
{
    execlp(program, program, "--port", "0", "--unixsocket", socket_path, "--dir", folder, "--save",
           "", "--appendonly", "no", "--logfile", "/dev/null", NULL);
}

static void start_server(void)
{
    check(mkdtemp(folder) != NULL, "make a folder");
    snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
    snprintf(url, sizeof(url), "unix://%s", socket_path);
    server = fork(); /* before a client is made: a child cannot use its parent's */
    check(server >= 0, "fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the server ends with the test, however it ends */
        run_server("redis-server");
        run_server("valkey-server");
        _exit(EXIT_SKIP);
    }
}

static void stop_server(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(socket_path);
    rmdir(folder);
}

static void on_lost(const struct relock_lost *what, void *arg)
{
    (void)what;
    (void)arg;
    sem_post(&lost);
}

static struct relock_client *connect_client(void)
{
    const struct relock_options options = {
        .url = url,
        .flags = RELOCK_LAZY, /* the first client is made before the server has started */
        .command_timeout_ms = SILENCE_MS,
        .watchdog_timeout_ms = LEASE_MS,
        .log_level = RELOCK_LOG_ERROR, /* the losses are part of the tests */
        .on_lost = on_lost,
    };
    struct relock_client *client;

    check(relock_client_new(&options, &client) == RELOCK_OK, "make a client");
    return client;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Returns false if there is no server on this machine. */
static bool has_started(struct relock_client *client)
{
    struct relock_lock *lock;
    bool is_locked;
    int r = RELOCK_E_CONN;

    check(relock_lock_new(client, "number", &lock) == RELOCK_OK, "make a lock");
    for (int i = 0; i < 10 && r == RELOCK_E_CONN && !has_ended(server); i++)
        r = relock_is_locked(lock, &is_locked); /* tries for up to SILENCE_MS */
    relock_lock_free(lock);
    return r == RELOCK_OK;
}

/* ---- the tests ---- */

static int read_value(struct store *store)
{
    return store->value;
}

static void a_number_is_increased(struct relock_client *client)
{
    struct store store = {.read = read_value};

    check(add_one(client, &store) == RELOCK_OK, "the result is RELOCK_OK");
    check(store.value == 1, "the number was written");
}

static void a_held_lock_changes_nothing(struct relock_client *client)
{
    struct store store = {.read = read_value};
    const struct relock_how how = {.owner = relock_owner_new()}; /* plays another program */
    struct relock_lock *lock;

    check(relock_lock_new(client, "number", &lock) == RELOCK_OK, "make a lock");
    check(relock_acquire(lock, &how, NULL) == RELOCK_OK, "the last test released the lock");
    check(add_one(client, &store) == RELOCK_TIMEOUT, "the result is RELOCK_TIMEOUT");
    check(store.value == 0, "nothing was written");
    check(relock_release(lock, how.owner) == RELOCK_OK, "the other owner still held the lock");
    relock_lock_free(lock);
}

/* An operator forces the lock open after the value was read. Client tracking or the next
 * renewal tells this client. */
static int read_and_lose_the_lock(struct store *store)
{
    struct relock_client *operator= connect_client();
    struct relock_lock *lock;
    struct timespec deadline;

    check(relock_lock_new(operator, "number", &lock) == RELOCK_OK, "make the operator's lock");
    check(relock_force_unlock(lock) == RELOCK_OK, "force the lock open");
    relock_lock_free(lock);
    relock_client_free(operator);

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 10;
    check(sem_timedwait(&lost, &deadline) == 0, "the library reports the loss");
    return store->value;
}

static void a_lost_lock_is_not_written_under(struct relock_client *client)
{
    struct store store = {.read = read_and_lose_the_lock};

    check(add_one(client, &store) == RELOCK_LOST, "the result is RELOCK_LOST");
    check(store.value == 0, "nothing was written");
}

static void die_with_the_lock(void)
{
    struct relock_client *client = connect_client();
    struct relock_lock *lock;

    if (relock_lock_new(client, "number", &lock) == RELOCK_OK && relock_lock(lock) == RELOCK_OK)
        raise(SIGKILL);
    _exit(EXIT_FAILURE);
}

static void a_dead_holder_delays_for_its_lease(struct relock_client *client)
{
    struct store store = {.read = read_value};
    pid_t pid = fork(); /* the child makes a client of its own */
    int status;

    check(pid >= 0, "fork");
    if (pid == 0)
        die_with_the_lock();
    check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "the holder died");
    check(add_one(client, &store) == RELOCK_OK, "the wait lasts longer than the lease");
    check(store.value == 1, "the number was written");
}

static void a_server_that_hangs_ends_the_call(struct relock_client *client)
{
    struct store store = {.read = read_value};
    int r;

    kill(server, SIGSTOP);
    r = add_one(client, &store);
    kill(server, SIGCONT);
    check(r == RELOCK_E_CONN, "the result is RELOCK_E_CONN");
    check(store.value == 0, "nothing was written");
    check(add_one(client, &store) == RELOCK_OK, "the failed call left no lock behind");
}

#define RUN(test) (test(client), printf("ok: " #test "\n"))

int main(void)
{
    struct relock_client *client;

    sem_init(&lost, 0, 0);
    setlinebuf(stdout); /* else a child may print its parent's buffer again */
    start_server();
    atexit(stop_server);
    client = connect_client();
    if (!has_started(client))
        return EXIT_SKIP;
    RUN(a_number_is_increased);
    RUN(a_held_lock_changes_nothing);
    RUN(a_lost_lock_is_not_written_under);
    RUN(a_dead_holder_delays_for_its_lease);
    RUN(a_server_that_hangs_ends_the_call);
    relock_client_free(client);
    return EXIT_SUCCESS;
}
