#include "io_thread.h"

#include "support/wait.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LONGEST_WAIT_MS 10 /* until it notices the order to stop */

enum { GOES, IS_TO_STOP, STANDS };

/* constant while the thread must stop */
static char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* "" with TCP */
static _Atomic(in_port_t) port;

static atomic_bool is_waiter;

static atomic_int state;

union address {
    struct sockaddr any;
    struct sockaddr_un local;
    struct sockaddr_in inet;
};

static bool is_meant(const union address *peer)
{
    if (peer->any.sa_family == AF_UNIX)
        return strcmp(peer->local.sun_path, path) == 0;
    return peer->any.sa_family == AF_INET && peer->inet.sin_port == port;
}

static bool has_connection(const struct pollfd *fds, nfds_t n)
{
    for (nfds_t i = 0; i < n; i++) {
        union address peer = {.any.sa_family = AF_UNSPEC};
        socklen_t size = sizeof(peer) - 1; /* so that a path is terminated in any case */

        if (getpeername(fds[i].fd, &peer.any, &size) == 0 && is_meant(&peer))
            return true;
    }
    return false;
}

static bool is_io_thread(void)
{
    char name[16] = "";

    (void)pthread_getname_np(pthread_self(), name, sizeof(name));
    return strcmp(name, "relock:io") == 0;
}

static void stand_still(void)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int stands = STANDS;

    atomic_store(&state, STANDS);
    while (atomic_load(&state) == STANDS && now_ms() < deadline_ms)
        let_pass(1);
    (void)atomic_compare_exchange_strong(&state, &stands, GOES);
}

static int wait_for(struct pollfd *fds, nfds_t n, int wait_ms)
{
    int (*next)(struct pollfd *, nfds_t, int) = NULL;
    int n_ready;

    *(void **)&next = dlsym(RTLD_NEXT, "poll");
    n_ready = next(fds, n, wait_ms);
    if (atomic_load(&state) == IS_TO_STOP && is_io_thread() != is_waiter && has_connection(fds, n))
        stand_still();
    return n_ready;
}

int poll(struct pollfd *fds, nfds_t n, int wait_ms)
{
    uint64_t until_ms = wait_ms < 0 ? UINT64_MAX : now_ms() + (uint64_t)wait_ms;
    int n_ready;

    do {
        uint64_t before_ms = now_ms();
        uint64_t left_ms = until_ms > before_ms ? until_ms - before_ms : 0;

        n_ready = wait_for(fds, n, left_ms < LONGEST_WAIT_MS ? (int)left_ms : LONGEST_WAIT_MS);
    } while (n_ready == 0 && now_ms() < until_ms);
    return n_ready;
}

static bool stands(void *arg)
{
    (void)arg;
    return atomic_load(&state) == STANDS;
}

static bool stop(const char *url, bool waiter)
{
    bool is_path = strncmp(url, "unix://", strlen("unix://")) == 0;

    (void)snprintf(path, sizeof(path), "%s", is_path ? url + strlen("unix://") : "");
    port = htons(is_path ? 0 : (uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    is_waiter = waiter;
    atomic_store(&state, IS_TO_STOP);
    return wait_until(stands, NULL, SOON_MS);
}

bool io_thread_stop(const char *url)
{
    return stop(url, false);
}

bool io_thread_stop_waiter(const char *url)
{
    return stop(url, true);
}

bool io_thread_go_on(void)
{
    return atomic_exchange(&state, GOES) == STANDS;
}
