#include "support/hub.h"

#include "support/late.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_RELAYS 128
#define BYTE_MS 1 /* how often it is looked whether a byte was read */

static void die(const char *what)
{
    perror(what);
    abort();
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void unix_address(struct sockaddr_un *address, const char *path)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
}

static int listen_unix(const struct hub *hub)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    unix_address(&address, hub->path);
    unlink(hub->path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, SOMAXCONN) != 0)
        die("hub: listen");
    return fd;
}

static int listen_tcp(const struct hub *hub)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)hub->port.number)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, SOMAXCONN) != 0)
        die("hub: listen");
    return fd;
}

/* The port is also kept while connections are refused. */
static void choose_address(struct hub *hub, const char *path)
{
    if (path) {
        snprintf(hub->path, sizeof(hub->path), "%s", path);
        snprintf(hub->url, sizeof(hub->url), "unix://%s", path);
        return;
    }
    if (!port_reserve(&hub->port, false))
        die("hub: no free port");
    snprintf(hub->url, sizeof(hub->url), "%s://127.0.0.1:%d", hub->key ? "rediss" : "redis",
             hub->port.number);
}

static int connect_server(const struct hub *hub)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    unix_address(&address, hub->guarded.server);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void accept_one(struct hub *hub)
{
    int client = accept4(hub->guarded.listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client >= 0 ? connect_server(hub) : -1;
    const int on = 1;
    struct relay *relay;

    if (server < 0) {
        if (client >= 0)
            close(client);
        return;
    }
    if (hub->port.number > 0)
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    relay = relay_new(client, server, ++hub->guarded.n_relays, hub->key ? seal_new(hub->key) : NULL,
                      hub->ops, hub->arg);
    relay->delay_ms = hub->guarded.delay_ms;
    if (hub->guarded.n_to_break > 0) {
        hub->guarded.n_to_break--;
        relay->left = hub->guarded.break_after;
    }
    relay->next = hub->guarded.relays;
    hub->guarded.relays = relay;
}

static void stop_listening(struct hub *hub)
{
    if (hub->guarded.listener < 0)
        return;
    close(hub->guarded.listener);
    hub->guarded.listener = -1;
    if (hub->path[0])
        unlink(hub->path);
}

static void start_listening(struct hub *hub)
{
    if (hub->guarded.listener < 0)
        hub->guarded.listener = hub->path[0] ? listen_unix(hub) : listen_tcp(hub);
}

/* All that can be done now. */
static void turn(struct hub *hub)
{
    struct relay **link = &hub->guarded.relays;

    if (hub->guarded.refuse)
        stop_listening(hub);
    else
        start_listening(hub);
    while (*link) {
        struct relay *relay = *link;

        if (relay_step(relay, hub->guarded.by_byte)) {
            link = &relay->next;
        } else {
            *link = relay->next;
            relay_free(relay);
        }
    }
    hub->guarded.done = hub->guarded.asked;
    pthread_cond_broadcast(&hub->changed);
}

/* How long there is nothing to do unless something happens; -1: for ever. */
static int idle_ms(const struct hub *hub)
{
    uint64_t due_ms = UINT64_MAX, now = now_ms();

    for (struct relay *relay = hub->guarded.relays; relay; relay = relay->next) {
        uint64_t relay_ms = relay_due_ms(relay);

        if (hub->guarded.by_byte && relay->out[RELAY_CLIENT].n > 0)
            relay_ms = now + BYTE_MS;
        due_ms = relay_ms < due_ms ? relay_ms : due_ms;
    }
    if (due_ms == UINT64_MAX)
        return -1;
    return due_ms > now ? (int)(due_ms - now) : 0;
}

/* Releases the mutex, waits for work, and locks it again. Returns whether a client connects. */
static bool wait_for_events(struct hub *hub)
{
    struct pollfd fds[2 + 2 * MAX_RELAYS];
    int within_ms = idle_ms(hub);
    nfds_t n = 0;

    fds[n++] = (struct pollfd){.fd = hub->wake, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = hub->guarded.listener, .events = POLLIN};
    for (struct relay *relay = hub->guarded.relays; relay; relay = relay->next) {
        for (int side = 0; side < 2; side++) {
            short events = relay_events(relay, side, hub->guarded.by_byte);

            if (n == sizeof(fds) / sizeof(*fds))
                abort();
            if (events != 0)
                fds[n++] = (struct pollfd){.fd = relay->fd[side], .events = events};
        }
    }
    pthread_mutex_unlock(&hub->mutex);
    poll(fds, n, within_ms);
    if (fds[0].revents != 0)
        eventfd_read(hub->wake, &(eventfd_t){0});
    pthread_mutex_lock(&hub->mutex);
    return fds[1].revents != 0;
}

static void *run(void *arg)
{
    struct hub *hub = arg;

    pthread_mutex_lock(&hub->mutex);
    while (!hub->guarded.stopping) {
        turn(hub);
        if (wait_for_events(hub) && hub->guarded.listener >= 0 && !hub->guarded.refuse)
            accept_one(hub);
    }
    pthread_mutex_unlock(&hub->mutex);
    return NULL;
}

/* Makes the thread look at the changes, and waits until it has. */
void hub_look(struct hub *hub)
{
    uint64_t asked = ++hub->guarded.asked;

    eventfd_write(hub->wake, 1);
    while (hub->guarded.done < asked)
        pthread_cond_wait(&hub->changed, &hub->mutex);
}

bool hub_wait(struct hub *hub, bool (*predicate)(const void *arg), const void *arg)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ms / 1000),
                                .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    bool in_time = true;
    bool yes;

    pthread_mutex_lock(&hub->mutex);
    while (!(yes = predicate(arg)) && in_time)
        in_time = pthread_cond_timedwait(&hub->changed, &hub->mutex, &deadline) == 0;
    pthread_mutex_unlock(&hub->mutex);
    return late_unless(yes);
}

static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void hub_lead_to(struct hub *hub, const char *server)
{
    snprintf(hub->guarded.server, sizeof(hub->guarded.server), "%s", server);
}

void hub_start(struct hub *hub, const char *server, const char *path, const char *certs,
               const struct relay_ops *ops, void *arg)
{
    sigset_t all, before;

    *hub = (struct hub){.ops = ops, .arg = arg, .guarded.listener = -1};
    hub_lead_to(hub, server);
    if (certs)
        hub->key = seal_key_new(certs);
    choose_address(hub, certs ? NULL : path);
    hub->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    start_listening(hub);

    pthread_mutex_init(&hub->mutex, NULL);
    init_cond(&hub->changed);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&hub->thread, NULL, run, hub) != 0)
        die("hub: thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void hub_stop(struct hub *hub)
{
    pthread_mutex_lock(&hub->mutex);
    hub->guarded.stopping = true;
    eventfd_write(hub->wake, 1);
    pthread_mutex_unlock(&hub->mutex);
    pthread_join(hub->thread, NULL);

    while (hub->guarded.relays) {
        struct relay *relay = hub->guarded.relays;

        hub->guarded.relays = relay->next;
        relay_free(relay);
    }
    stop_listening(hub);
    port_release(&hub->port);
    seal_key_free(hub->key);
    close(hub->wake);
    pthread_cond_destroy(&hub->changed);
    pthread_mutex_destroy(&hub->mutex);
}
