#include "relay.h"

#include "measure.h"
#include "support/child.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64
#define PATIENCE_MS 10000

struct relay {
    struct child *child;
    char url[64];
};

/* The arguments of the child, and of each of its threads. */
struct way {
    int from, to;
    uint64_t delay_ns;
};

struct route {
    int listener;
    struct sockaddr_un server;
    uint64_t delay_ns;
};

/* Locks and replies follow each other: there are never two portions on their way. */
static void *carry(void *arg)
{
    struct way way = *(struct way *)arg;
    char bytes[65536];
    ssize_t n;

    free(arg);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while ((n = read(way.from, bytes, sizeof(bytes))) > 0) {
        sleep_ns(way.delay_ns);
        if (write(way.to, bytes, (size_t)n) != n)
            break;
    }
    shutdown(way.to, SHUT_WR);
    return NULL;
}

static void begin_to_carry(int from, int to, uint64_t delay_ns)
{
    struct way *way = malloc(sizeof(*way));
    pthread_t thread;

    child_must(way != NULL);
    *way = (struct way){.from = from, .to = to, .delay_ns = delay_ns};
    child_must(pthread_create(&thread, NULL, carry, way) == 0);
    pthread_detach(thread);
}

/* Runs until it is killed. */
static int relay_run(struct child *parent, void *arg)
{
    const struct route *route = arg;
    const int on = 1;
    int client;

    (void)parent;
    signal(SIGPIPE, SIG_IGN);
    while ((client = accept(route->listener, NULL, NULL)) >= 0) {
        int server = socket(AF_UNIX, SOCK_STREAM, 0);

        child_must(server >= 0);
        child_must(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
        child_must(
            connect(server, (const struct sockaddr *)&route->server, sizeof(route->server)) == 0);
        begin_to_carry(client, server, route->delay_ns);
        begin_to_carry(server, client, route->delay_ns);
    }
    return EXIT_FAILURE;
}

struct relay *relay_start(const char *path, uint64_t delay_ns)
{
    struct route route = {.delay_ns = delay_ns, .server.sun_family = AF_UNIX};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    struct relay *relay = calloc(1, sizeof(*relay));

    route.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(route.server.sun_path, sizeof(route.server.sun_path), "%s", path);
    if (!relay || bind(route.listener, (struct sockaddr *)&address, len) != 0 ||
        listen(route.listener, BACKLOG) != 0 ||
        getsockname(route.listener, (struct sockaddr *)&address, &len) != 0)
        die("no relay");
    snprintf(relay->url, sizeof(relay->url), "redis://127.0.0.1:%d", ntohs(address.sin_port));
    relay->child = child_start(relay_run, &route);
    close(route.listener);
    return relay;
}

struct relay *relay_stop(struct relay *relay)
{
    if (!relay)
        return NULL;
    child_signal(relay->child, SIGKILL);
    (void)child_wait(relay->child, PATIENCE_MS);
    free(relay);
    return NULL;
}

const char *relay_url(const struct relay *relay)
{
    return relay->url;
}
