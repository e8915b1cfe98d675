/*
 * seats - a single-threaded server that holds a lock for each seat that its customers reserve
 *
 * A customer sends `SEAT n`, waits for `YOURS`, and has the seat until the connection ends. If
 * another customer has it, the server waits for the seat; after WAIT_MS it answers `TAKEN`. `LOST`
 * means that the server has lost the lock, so another server may sell the seat. Any number of
 * servers may share the seats.
 *
 * This part is the same for every event loop. seats_epoll.c and seats_libev.c are the loops.
 */
#include "seats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define WAIT_MS 60000
#define BACKLOG 1024

void must(int done, const char *what)
{
    if (done)
        return;
    fprintf(stderr, "seats: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static void must_be_ok(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "seats: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

/* ---- connections --------------------------------------------------------------------------- */

/* A customer who does not read the few bytes of an answer does not get it. */
static void answer(const struct connection *c, const char *text)
{
    if (c->fd >= 0)
        (void)send(c->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void hang_up(struct connection *c)
{
    if (c->fd < 0)
        return;
    c->seats->unwatch(c, c->fd);
    close(c->fd);
    c->fd = -1;
}

static void free_connection(struct connection *c)
{
    hang_up(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        c->seats->connections = c->next;
    if (c->next)
        c->next->prev = c->prev;
    relock_lock_free(c->lock);
    relock_cancel_free(c->cancel);
    free(c);
}

/* ---- a seat -------------------------------------------------------------------------------- */

/* From now on the library does not call on_lost() for this connection. */
static void released(int result, void *arg)
{
    struct connection *c = arg;

    if (result != RELOCK_OK && result != RELOCK_LOST)
        fprintf(stderr, "seats: release: %s\n", relock_strerror(result));
    free_connection(c);
}

static void release(struct connection *c)
{
    c->state = LEAVES;
    c->seats->n_reserved--;
    must_be_ok(relock_release_async(c->lock, c->owner, c->seats->events, released, c), "release");
}

/* Another server may already have sold the seat. */
static void on_lost(const struct relock_lost *what, void *arg)
{
    struct connection *c = arg;

    (void)what;
    answer(c, "LOST\n");
    if (c->state != HAS_SEAT)
        return; /* the release is on its way */
    hang_up(c);
    release(c);
}

static void acquired(int result, const struct relock_grant *grant, void *arg)
{
    struct connection *c = arg;

    if (result != RELOCK_OK) {
        if (result == RELOCK_TIMEOUT)
            answer(c, "TAKEN\n");
        else if (result != RELOCK_CANCELLED)
            answer(c, "ERROR\n");
        free_connection(c);
        return;
    }
    c->owner = grant->owner;
    c->state = HAS_SEAT;
    c->seats->n_reserved++;
    if (c->fd < 0)
        release(c); /* the customer left in the last moment */
    else
        answer(c, "YOURS\n");
}

static void reserve(struct connection *c, unsigned seat)
{
    struct relock_how how = {.wait_ms = WAIT_MS, .on_lost = on_lost, .arg = c};
    char name[32];

    snprintf(name, sizeof(name), "seats:%u", seat);
    must_be_ok(relock_lock_new(c->seats->client, name, &c->lock), "make a lock");
    must_be_ok(relock_cancel_new(&c->cancel), "make a cancel");
    how.cancel = c->cancel;
    must_be_ok(relock_acquire_async(c->lock, &how, c->seats->events, acquired, c), "acquire");
    c->state = WAITS;
}

/* The customer has left. The lock is released, or its wait ended, before the memory is freed. */
static void leave(struct connection *c)
{
    hang_up(c);
    if (c->state == IDLE)
        free_connection(c);
    else if (c->state == WAITS)
        relock_cancel_fire(c->cancel);
    else if (c->state == HAS_SEAT)
        release(c);
}

/* ---- what the loop calls ------------------------------------------------------------------- */

void seats_accept(struct seats *seats)
{
    int fd = accept(seats->listener, NULL, NULL);
    struct connection *c;

    if (fd < 0)
        return;
    must(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    c = calloc(1, sizeof(*c));
    must(c != NULL, "memory");
    c->seats = seats;
    c->fd = fd;
    c->next = seats->connections;
    if (c->next)
        c->next->prev = c;
    seats->connections = c;
    seats->watch(c, fd);
}

/* A request arrives in one piece here; a larger protocol would collect the pieces. */
void seats_read(struct connection *c)
{
    char line[64];
    unsigned seat;
    ssize_t n;

    n = recv(c->fd, line, sizeof(line) - 1, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    line[n > 0 ? n : 0] = '\0';
    if (c->state == IDLE && sscanf(line, "SEAT %u", &seat) == 1 && seat < N_SEATS)
        reserve(c, seat);
    else
        leave(c);
}

void seats_drain(struct seats *seats)
{
    struct connection *c, *next;

    for (c = seats->connections; c; c = next) {
        next = c->next;
        leave(c);
    }
}

/* ---- start and stop ------------------------------------------------------------------------ */

/* A connection for each seat, and one for each customer who waits. */
static void allow_many_descriptors(void)
{
    struct rlimit limit;

    must(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

uint16_t seats_listen(struct seats *seats, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof(address);
    int on = 1;

    allow_many_descriptors();
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    seats->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must(seats->listener >= 0, "socket");
    setsockopt(seats->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    must(bind(seats->listener, (struct sockaddr *)&address, size) == 0, "bind");
    must(listen(seats->listener, BACKLOG) == 0, "listen");
    must(getsockname(seats->listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
    return ntohs(address.sin_port);
}

void seats_start(struct seats *seats, const char *url)
{
    const struct relock_options options = {.url = url, .client_name = "seats"};

    must_be_ok(relock_client_new(&options, &seats->client), "connect");
    must_be_ok(relock_events_new(seats->client, &seats->events), "make a queue");
}

void seats_stop(struct seats *seats)
{
    close(seats->listener);
    relock_events_free(seats->events);
    relock_client_free(seats->client);
}

/* The process is forked before the client is made, so it has nothing of the library. */
int seats_begin(struct seats *seats, int argc, char **argv)
{
    uint16_t port = seats_listen(seats, (uint16_t)(argc > 2 ? atoi(argv[2]) : 0));
    pid_t pid = argc > 2 ? 0 : fork();

    must(pid >= 0, "fork");
    if (pid == 0 && argc <= 2) {
        close(seats->listener); /* else the customers would outlive a server that fails */
        _exit(customers_run(port));
    }
    seats_start(seats, argc > 1 ? argv[1] : NULL);
    if (argc > 2)
        printf("listening on 127.0.0.1:%u\n", port);
    fflush(stdout);
    return pid;
}
