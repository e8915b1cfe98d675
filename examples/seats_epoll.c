/*
 * seats_epoll - the server of seats.c on epoll: one thread, 1000 locks
 *
 * relock adds one descriptor to the loop. When it is readable, relock_events_dispatch() runs the
 * callbacks of the calls that have ended.
 *
 *     cc seats_epoll.c seats.c seats_customers.c $(pkg-config --cflags --libs relock) \
 *         -o seats_epoll
 *     ./seats_epoll [URL [PORT]]               default: redis://127.0.0.1:6379
 *
 * Without PORT, another process plays the customers, and the server ends after it.
 */
#include "seats.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_READY 64

static int epoll, signals;

static void add(int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "watch a descriptor");
}

static void watch(struct connection *connection, int fd)
{
    add(fd, connection);
}

/* The kernel forgets a descriptor that is closed. */
static void unwatch(struct connection *connection, int fd)
{
    (void)connection;
    (void)fd;
}

/* All threads block these signals, so only the descriptor gets them. */
static void watch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD); /* the customers have gone */
    must(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "block signals");
    signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    must(signals >= 0, "signalfd");
}

/*
 * Returns whether a signal has arrived. The callbacks of relock run last: they free connections,
 * and `ready` may contain an event of one of these.
 */
static bool take_events(struct seats *seats)
{
    struct epoll_event ready[N_READY];
    struct signalfd_siginfo signal;
    bool is_due = false, is_signalled = false;
    int n = epoll_wait(epoll, ready, N_READY, -1);

    for (int i = 0; i < n; i++) {
        void *what = ready[i].data.ptr;

        if (what == seats->events)
            is_due = true;
        else if (what == &seats->listener)
            seats_accept(seats);
        else if (what == &signals)
            is_signalled = read(signals, &signal, sizeof(signal)) > 0;
        else
            seats_read(what);
    }
    if (is_due)
        relock_events_dispatch(seats->events);
    return is_signalled;
}

static void run(struct seats *seats)
{
    while (!take_events(seats))
        continue;
    must(epoll_ctl(epoll, EPOLL_CTL_DEL, seats->listener, NULL) == 0, "accept nobody");
    seats_drain(seats);
    while (seats->connections)
        take_events(seats);
}

int main(int argc, char **argv)
{
    struct seats seats = {.watch = watch, .unwatch = unwatch};
    int customers, status = EXIT_SUCCESS;

    watch_signals();
    customers = seats_begin(&seats, argc, argv);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    must(epoll >= 0, "epoll_create1");
    add(seats.listener, &seats.listener);
    add(relock_events_fd(seats.events), seats.events);
    add(signals, &signals);
    run(&seats);

    if (customers > 0)
        must(waitpid(customers, &status, 0) == customers, "waitpid");
    seats_stop(&seats);
    close(epoll);
    close(signals);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
