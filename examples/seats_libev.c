/*
 * seats_libev - the server of seats.c on libev: one thread, 1000 locks
 *
 * relock adds one watcher to the loop. Its callback calls relock_events_dispatch(), which runs the
 * callbacks of the calls that have ended.
 *
 *     cc seats_libev.c seats.c seats_customers.c $(pkg-config --cflags --libs relock) -lev \
 *         -o seats_libev
 *     ./seats_libev [URL [PORT]]               default: redis://127.0.0.1:6379
 *
 * Without PORT, another process plays the customers, and the server ends after it.
 */
#include "seats.h"

#include <ev.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

struct server {
    struct seats seats;
    struct ev_loop *loop;
    ev_io listener, events;
    ev_signal interrupt, terminate;
    ev_child customers;
    ev_prepare drained;
    int status;
};

static struct server server;

static void on_connection(struct ev_loop *loop, ev_io *watcher, int revents)
{
    (void)loop;
    (void)revents;
    seats_read(watcher->data);
}

static void watch(struct connection *connection, int fd)
{
    ev_io *watcher = malloc(sizeof(*watcher));

    must(watcher != NULL, "memory");
    ev_io_init(watcher, on_connection, fd, EV_READ);
    watcher->data = connection;
    connection->watcher = watcher;
    ev_io_start(server.loop, watcher);
}

static void unwatch(struct connection *connection, int fd)
{
    (void)fd;
    ev_io_stop(server.loop, connection->watcher);
    free(connection->watcher);
}

static void on_listener(struct ev_loop *loop, ev_io *watcher, int revents)
{
    (void)loop;
    (void)watcher;
    (void)revents;
    seats_accept(&server.seats);
}

static void on_events(struct ev_loop *loop, ev_io *watcher, int revents)
{
    (void)loop;
    (void)watcher;
    (void)revents;
    relock_events_dispatch(server.seats.events);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void on_prepare(struct ev_loop *loop, ev_prepare *watcher, int revents)
{
    (void)watcher;
    (void)revents;
    if (!server.seats.connections)
        ev_break(loop, EVBREAK_ALL);
}

static void drain(void)
{
    ev_io_stop(server.loop, &server.listener);
    ev_prepare_start(server.loop, &server.drained);
    seats_drain(&server.seats);
}

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int revents)
{
    (void)loop;
    (void)watcher;
    (void)revents;
    drain();
}

static void on_child(struct ev_loop *loop, ev_child *watcher, int revents)
{
    (void)loop;
    (void)revents;
    server.status = watcher->rstatus;
    drain();
}

int main(int argc, char **argv)
{
    int customers;

    server.loop = ev_default_loop(EVFLAG_NOENV);
    must(server.loop != NULL, "libev");
    server.seats.watch = watch;
    server.seats.unwatch = unwatch;
    customers = seats_begin(&server.seats, argc, argv);

    ev_io_init(&server.listener, on_listener, server.seats.listener, EV_READ);
    ev_io_init(&server.events, on_events, relock_events_fd(server.seats.events), EV_READ);
    ev_signal_init(&server.interrupt, on_signal, SIGINT);
    ev_signal_init(&server.terminate, on_signal, SIGTERM);
    ev_child_init(&server.customers, on_child, customers, 0);
    ev_prepare_init(&server.drained, on_prepare);
    ev_io_start(server.loop, &server.listener);
    ev_io_start(server.loop, &server.events);
    ev_signal_start(server.loop, &server.interrupt);
    ev_signal_start(server.loop, &server.terminate);
    if (customers > 0)
        ev_child_start(server.loop, &server.customers);
    ev_run(server.loop, 0);

    ev_io_stop(server.loop, &server.events);
    seats_stop(&server.seats);
    ev_loop_destroy(server.loop);
    return server.status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
