/*
 * server - a bank on a TCP port, with one thread per connection and one relock client for all
 *
 * Any number of servers may share a FILE, because each handler holds the lock of an account while
 * it uses the account. Requests are lines: `DEPOSIT acct n`, `TRANSFER from to n`, `AUDIT`, `QUIT`;
 * accounts are 0 to 9. SIGTERM or Ctrl-C drains the server: handlers that hold a lock finish, also
 * if they need a second one, and handlers that wait for their first lock answer with an error.
 *
 *     cc server.c $(pkg-config --cflags --libs relock) -pthread -o server
 *     ./server [URL [PORT [FILE]]]   default: redis://127.0.0.1:6379, 7070, and a temporary file
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <relock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_ACCOUNTS 10
#define N_CONNECTIONS 16 /* served concurrently; further ones wait to be accepted */
#define AMOUNT_MAX INT64_C(1000000000000)
#define LOCK_WAIT_MS 5000
#define WRITE_MS 100 /* longer than writing two balances takes */
#define DRAIN_S 10

struct server {
    struct relock_client *client;
    struct relock_lock *accounts[N_ACCOUNTS]; /* all threads share these handles */
    int file;                                 /* contains an int64_t per account */
    int listener;
};

/* A thread that serves one connection after the other. */
struct connection {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t mutex;
    struct {
        int fd; /* socket of the connection; -1 between two connections */
        bool drain;
    } guarded; /* by mutex */
};

static void must(bool done, const char *what)
{
    if (done)
        return;
    fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* ---- accounts ---- */

static int acquire(const struct connection *c, int acct)
{
    const struct relock_how how = {.wait_ms = LOCK_WAIT_MS};

    return relock_acquire(c->server->accounts[acct], &how, NULL);
}

/* Acquires the lock itself. If the caller already holds it, this adds a level. */
static int get_balance(const struct connection *c, int acct, int64_t *balance)
{
    ssize_t n;
    int r;

    r = acquire(c, acct);
    if (r != RELOCK_OK)
        return r;
    RELOCK_SCOPE(c->server->accounts[acct]);

    *balance = 0; /* for an account that the file does not contain yet */
    n = pread(c->server->file, balance, sizeof(*balance), acct * (off_t)sizeof(*balance));
    must(n >= 0, "read the file");
    return RELOCK_OK;
}

/* Check may_write() before the first write of a request: a check here could stop a transfer after
 * one of its two writes. */
static void put_balance(const struct connection *c, int acct, int64_t balance)
{
    ssize_t n;

    n = pwrite(c->server->file, &balance, sizeof(balance), acct * (off_t)sizeof(balance));
    must(n == sizeof(balance), "write the file");
}

static bool may_write(const struct connection *c, int acct)
{
    return relock_valid_ms(c->server->accounts[acct]) >= WRITE_MS;
}

/* ---- requests: each returns NULL on success, else the reason for the failure ---- */

static const char *deposit(const struct connection *c, int acct, int64_t n, int64_t *balance)
{
    int r;

    r = acquire(c, acct);
    if (r != RELOCK_OK)
        return relock_strerror(r);
    RELOCK_SCOPE(c->server->accounts[acct]);

    r = get_balance(c, acct, balance);
    if (r != RELOCK_OK)
        return relock_strerror(r);
    if (!may_write(c, acct))
        return relock_strerror(RELOCK_LOST);
    *balance += n;
    put_balance(c, acct, *balance);
    return NULL;
}

/* A crash between the two writes would lose money; transfers.c shows how to prevent this. */
static const char *transfer(const struct connection *c, int from, int to, int64_t n, int64_t *left)
{
    /* All transfers lock the lower account first, so they cannot deadlock. */
    int low = from < to ? from : to, high = from < to ? to : from;
    int64_t balance;
    int r;

    r = acquire(c, low);
    if (r != RELOCK_OK)
        return relock_strerror(r);
    RELOCK_SCOPE(c->server->accounts[low]);
    r = acquire(c, high);
    if (r != RELOCK_OK)
        return relock_strerror(r);
    RELOCK_SCOPE(c->server->accounts[high]);

    r = get_balance(c, from, left);
    if (r == RELOCK_OK)
        r = get_balance(c, to, &balance);
    if (r != RELOCK_OK)
        return relock_strerror(r);
    if (from == to || *left < n)
        return from == to ? "the accounts are the same" : "not enough money";
    if (!may_write(c, from) || !may_write(c, to))
        return relock_strerror(RELOCK_LOST);
    *left -= n;
    put_balance(c, from, *left);
    put_balance(c, to, balance + n);
    return NULL;
}

/* Sums the balances of one moment: it locks all accounts before it reads the first. */
static const char *audit(const struct connection *c, int64_t *sum)
{
    int64_t balance = 0;
    int n_held = 0, r = RELOCK_OK;

    while (n_held < N_ACCOUNTS && r == RELOCK_OK) {
        r = acquire(c, n_held);
        if (r == RELOCK_OK)
            n_held++;
    }
    *sum = 0;
    for (int i = 0; i < N_ACCOUNTS && r == RELOCK_OK; i++) {
        r = get_balance(c, i, &balance);
        *sum += balance;
    }
    while (n_held > 0)
        relock_unlock(c->server->accounts[--n_held]);
    return r == RELOCK_OK ? NULL : relock_strerror(r);
}

static bool is_account(int64_t x)
{
    return x >= 0 && x < N_ACCOUNTS;
}

static bool is_amount(int64_t x)
{
    return x > 0 && x <= AMOUNT_MAX;
}

static const char *answer(const struct connection *c, const char *line, int64_t *value)
{
    char verb[16] = "";
    int64_t x[3] = {-1, -1, -1};

    *value = 0;
    sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64, verb, &x[0], &x[1], &x[2]);
    if (strcmp(verb, "DEPOSIT") == 0 && is_account(x[0]) && is_amount(x[1]))
        return deposit(c, (int)x[0], x[1], value);
    if (strcmp(verb, "TRANSFER") == 0 && is_account(x[0]) && is_account(x[1]) && is_amount(x[2]))
        return transfer(c, (int)x[0], (int)x[1], x[2], value);
    if (strcmp(verb, "AUDIT") == 0)
        return audit(c, value);
    return "DEPOSIT acct n, TRANSFER from to n, AUDIT, QUIT";
}

/* ---- connections ---- */

static void set_fd(struct connection *c, int fd)
{
    pthread_mutex_lock(&c->mutex);
    c->guarded.fd = fd;
    if (fd >= 0 && c->guarded.drain)
        shutdown(fd, SHUT_RD);
    pthread_mutex_unlock(&c->mutex);
}

static void talk(const struct connection *c, FILE *in)
{
    char line[128];
    const char *error;
    int64_t value;

    while (fgets(line, sizeof(line), in) != NULL && strncmp(line, "QUIT", 4) != 0) {
        error = answer(c, line, &value);
        if (error == NULL)
            dprintf(fileno(in), "OK %" PRId64 "\n", value);
        else
            dprintf(fileno(in), "ERR %s\n", error);
    }
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    FILE *in;
    int fd;

    for (;;) {
        fd = accept(c->server->listener, NULL, NULL);
        if (fd < 0 && errno == EINVAL) /* shut down */
            return NULL;
        if (fd < 0)
            continue;
        in = fdopen(fd, "r");
        must(in != NULL, "fdopen");

        set_fd(c, fd);
        talk(c, in);
        set_fd(c, -1); /* before fclose(): another thread may get the number at once */
        fclose(in);
    }
}

static void start(struct server *server, struct connection *c)
{
    *c = (struct connection){.server = server, .guarded.fd = -1};
    pthread_mutex_init(&c->mutex, NULL);
    errno = pthread_create(&c->thread, NULL, serve, c);
    must(errno == 0, "pthread_create");
}

/*
 * From now on no handler can acquire its first lock: it gets RELOCK_E_CLOSED, and sends this to its
 * client. A handler that holds a lock goes on, so a transfer that waits for the second account is
 * completed, or fails after LOCK_WAIT_MS.
 */
static void drain(struct server *server, struct connection *connections)
{
    alarm(DRAIN_S); /* ends the program if a handler has not ended by then */
    relock_client_shutdown(server->client);
    shutdown(server->listener, SHUT_RDWR);

    for (int i = 0; i < N_CONNECTIONS; i++) {
        struct connection *c = &connections[i];

        pthread_mutex_lock(&c->mutex);
        c->guarded.drain = true;
        if (c->guarded.fd >= 0)
            shutdown(c->guarded.fd, SHUT_RD);
        pthread_mutex_unlock(&c->mutex);
    }
    for (int i = 0; i < N_CONNECTIONS; i++)
        pthread_join(connections[i].thread, NULL);
}

static int open_file(const char *path)
{
    FILE *file;

    if (path != NULL)
        return open(path, O_RDWR | O_CREAT, 0600);
    file = tmpfile();
    return file != NULL ? fileno(file) : -1;
}

static int listen_at(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof(address);
    int fd, yes = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    must(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 16) == 0, "listen");
    must(getsockname(fd, (struct sockaddr *)&address, &size) == 0, "getsockname");
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    return fd;
}

static int make_locks(struct server *server, const char *url)
{
    const struct relock_options options = {.url = url, .client_name = "bank"};
    char name[32];
    int r;

    r = relock_client_new(&options, &server->client);
    for (int i = 0; i < N_ACCOUNTS && r == RELOCK_OK; i++) {
        snprintf(name, sizeof(name), "bank:account:%d", i);
        r = relock_lock_new(server->client, name, &server->accounts[i]);
    }
    return r;
}

static void run(struct server *server, const sigset_t *until)
{
    struct connection connections[N_CONNECTIONS];
    int signo;

    for (int i = 0; i < N_CONNECTIONS; i++)
        start(server, &connections[i]);

    /* This thread waits for the signal: a handler must not call relock_client_shutdown(). */
    sigwait(until, &signo);
    drain(server, connections);
    printf("drained: all handlers have ended\n");
}

int main(int argc, char **argv)
{
    struct server server = {0};
    sigset_t signals;
    int r;

    setlinebuf(stdout);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before threads start: they inherit the mask */

    server.file = open_file(argc > 3 ? argv[3] : NULL);
    must(server.file >= 0, "open the file");
    server.listener = listen_at(argc > 2 ? (uint16_t)atoi(argv[2]) : 7070);

    r = make_locks(&server, argc > 1 ? argv[1] : NULL);
    if (r == RELOCK_OK)
        run(&server, &signals);
    else
        fprintf(stderr, "server: %s\n", relock_strerror(r));

    for (int i = 0; i < N_ACCOUNTS; i++)
        relock_lock_free(server.accounts[i]);
    relock_client_free(server.client);
    close(server.listener);
    close(server.file);
    return r == RELOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
