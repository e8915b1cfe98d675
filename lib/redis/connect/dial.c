/*
 *     state         next          when
 *
 *     IDLE          RESOLVING     a step, for a host
 *                   CONNECTING    a step, for a path
 *     RESOLVING     CONNECTING    the addresses are known
 *     CONNECTING    SECURING      connected, and the url wants TLS
 *                   PAUSING       the queue of the unix socket is full
 *     SECURING      CONNECTING    this address failed, another is left
 *     PAUSING       CONNECTING    the pause is over
 *
 * and from each to IDLE: when connected, when it has failed, and when its user ends it.
 */
#include "redis/connect/connect.h"
#include "redis/connect/private.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- racing addresses ---------------------------------------------------------------------- */

void relock_race_init(struct relock_race *race, const void *scope)
{
    *race = (struct relock_race){.scope = scope, .fd = -1};
}

/* A forked child may have the socket open, too, and would keep it in the set. */
static void leave_set(struct relock_race *race, int socket)
{
    (void)epoll_ctl(race->fd, EPOLL_CTL_DEL, socket, NULL);
}

static void stop(struct relock_race *race)
{
    while (race->n_sockets > 0) {
        int socket = race->sockets[--race->n_sockets];

        leave_set(race, socket);
        (void)relock_descriptor_close(socket);
    }
    race->fd = relock_descriptor_close(race->fd);
}

void relock_race_end(struct relock_race *race)
{
    stop(race);
    race->addresses.n = 0;
}

static int fail_race(struct relock_race *race, int err)
{
    race->err = err;
    relock_race_end(race);
    return RELOCK_E_CONN;
}

static void forget_address(struct relock_race *race, unsigned i)
{
    struct relock_addresses *addresses = &race->addresses;

    addresses->n--;
    memmove(&addresses->at[i], &addresses->at[i + 1],
            (addresses->n - i) * sizeof(addresses->at[0]));
}

/* Takes the socket of an attempt that has ended, and forgets its address. */
static int take(struct relock_race *race, unsigned i)
{
    int socket = race->sockets[i];

    leave_set(race, socket);
    forget_address(race, i);
    race->n_sockets--;
    memmove(&race->sockets[i], &race->sockets[i + 1],
            (race->n_sockets - i) * sizeof(race->sockets[0]));
    return socket;
}

/* If no server listens at a port that the system may give to clients, it can connect a socket to
 * itself. The server could then not listen there. Two unix sockets without names look the same. */
static bool is_to_itself(int socket, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof(own);

    return getsockname(socket, (struct sockaddr *)&own, &len) == 0 && own.ss_family != AF_UNIX &&
           memcmp(&own, peer, sizeof(own)) == 0;
}

/* Returns 0 when connected, EINPROGRESS, or the errno of a failure. */
static int connect_error(int socket)
{
    struct sockaddr_storage peer = {0};
    socklen_t peer_len = sizeof(peer);
    socklen_t len = sizeof(int);
    int err = 0;

    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
        return errno;
    if (err == 0 && getpeername(socket, (struct sockaddr *)&peer, &peer_len) < 0)
        return EINPROGRESS;
    return err == 0 && is_to_itself(socket, &peer) ? ECONNREFUSED : err;
}

/* Returns whether an attempt has won. A failure calls for the next attempt at once. */
static bool finish(struct relock_race *race, uint64_t now_ms, int *winner)
{
    for (unsigned i = 0; i < race->n_sockets;) {
        int err = connect_error(race->sockets[i]);

        if (err == 0) {
            *winner = take(race, i);
            stop(race);
            return true;
        }
        if (err == EINPROGRESS) {
            i++;
            continue;
        }
        (void)relock_descriptor_close(take(race, i));
        race->err = err;
        race->next_ms = now_ms;
    }
    return false;
}

/* Returns 0, or an errno. */
static int begin_to_connect(struct relock_race *race, int socket, unsigned i)
{
    struct epoll_event event = {.events = EPOLLOUT};
    const struct sockaddr *address = (const void *)&race->addresses.at[i].address;

    if (race->fd < 0)
        race->fd = relock_descriptor_epoll(race->scope);
    if (race->fd < 0)
        return errno;
    if (connect(socket, address, race->addresses.at[i].len) < 0 && errno != EINPROGRESS &&
        errno != EINTR)
        return errno;
    return epoll_ctl(race->fd, EPOLL_CTL_ADD, socket, &event) < 0 ? errno : 0;
}

/* Tries the next address. Returns 0, or an errno: the address is forgotten. */
static int try_next(struct relock_race *race)
{
    unsigned i = race->n_sockets;
    int fd = relock_descriptor_socket(race->scope, race->addresses.at[i].address.ss_family);
    int err = fd < 0 ? errno : begin_to_connect(race, fd, i);

    if (err == 0) {
        race->sockets[race->n_sockets++] = fd;
        return 0;
    }
    (void)relock_descriptor_close(fd);
    forget_address(race, i);
    return err;
}

/* If the time is short, each address has its share of it before the next one is tried. */
static uint64_t delay_ms(const struct relock_race *race, uint64_t now_ms, uint64_t limit_ms)
{
    unsigned n_left = race->addresses.n - race->n_sockets;
    uint64_t share_ms = relock_clock_left(now_ms, limit_ms) / (n_left + 1);

    return share_ms < RELOCK_RACE_DELAY_MS ? share_ms : RELOCK_RACE_DELAY_MS;
}

int relock_race_step(struct relock_race *race, uint64_t now_ms, uint64_t limit_ms, int *winner)
{
    if (race->n_sockets == 0)
        race->next_ms = now_ms;
    if (finish(race, now_ms, winner))
        return RELOCK_OK;
    if (now_ms >= limit_ms && race->n_sockets > 0)
        return fail_race(race, 0);
    while (race->n_sockets < race->addresses.n && now_ms >= race->next_ms) {
        int err = try_next(race);

        if (err == 0)
            race->next_ms = now_ms + delay_ms(race, now_ms, limit_ms);
        else
            race->err = err;
    }
    if (race->n_sockets == 0)
        return fail_race(race, race->err);
    race->deadline_ms = limit_ms;
    if (race->n_sockets < race->addresses.n && race->next_ms < limit_ms)
        race->deadline_ms = race->next_ms;
    return RELOCK_AGAIN;
}

/* ---- dialing ------------------------------------------------------------------------------- */

/* The system notices a peer that vanished, too, even when no command is sent. */
#define KEEPALIVE_IDLE_S 15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3

/* Between two attempts at a server whose queue of connections is full. */
#define MIN_PAUSE_MS 2
#define MAX_PAUSE_MS 200

void relock_dial_init(struct relock_dial *dial, const struct relock_server *server)
{
    *dial = (struct relock_dial){.server = server, .fd = -1};
    relock_race_init(&dial->race, server->scope);
}

static void drop_socket(struct relock_dial *dial)
{
    dial->tls = relock_tls_free(dial->tls);
    if (dial->state == RELOCK_DIAL_SECURING)
        (void)relock_descriptor_close(dial->fd);
    dial->state = RELOCK_DIAL_IDLE;
    dial->fd = -1;
}

bool relock_dial_wants_to_write(const struct relock_dial *dial)
{
    return dial->state == RELOCK_DIAL_SECURING && relock_tls_wants_to_write(dial->tls);
}

bool relock_dial_has_addresses(const struct relock_dial *dial)
{
    return dial->state == RELOCK_DIAL_CONNECTING || dial->state == RELOCK_DIAL_SECURING;
}

bool relock_dial_is_outdated(const struct relock_dial *dial)
{
    const struct relock_server *server = dial->server;

    return server->sentinels &&
           dial->race.addresses.n_switches != atomic_load(&server->counts->switches);
}

void relock_dial_end(struct relock_dial *dial)
{
    drop_socket(dial);
    relock_race_end(&dial->race);
    dial->lookup = relock_lookup_free(dial->lookup);
    dial->pause_ms = 0;
}

/* A rejected certificate explains more than that another address could not be reached. */
static void set_why(struct relock_dial *dial, const char *what)
{
    if (dial->result == RELOCK_E_AUTH)
        return;
    (void)snprintf(dial->why, sizeof(dial->why), "%s: %s%s", dial->server->label, what,
                   dial->master);
}

/* The label has the name of the master alone: its address shows what a sentinel gets wrong, such as
 * one that is reachable only from there. */
static void keep_master(struct relock_dial *dial)
{
    const struct sockaddr *address = (const void *)&dial->race.addresses.at[0].address;
    char ip[INET6_ADDRSTRLEN];
    char port[8];

    if (dial->server->url.master && dial->race.addresses.n > 0 &&
        getnameinfo(address, dial->race.addresses.at[0].len, ip, sizeof(ip), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        (void)snprintf(dial->master, sizeof(dial->master),
                       strchr(ip, ':') ? "; a sentinel says that the master is at [%s]:%s"
                                       : "; a sentinel says that the master is at %s:%s",
                       ip, port);
}

static int fail(struct relock_dial *dial, int result, const char *what)
{
    set_why(dial, what);
    relock_dial_end(dial);
    return result;
}

/*
 * How long the system repeats bytes that the server does not acknowledge. The library closes a
 * connection when an answer has been missing for `command_timeout_ms`. The system must not deliver
 * the command minutes later, when a broken network is back. On an unused connection this replaces
 * KEEPALIVE_PROBES, so it must not exceed the time that those take.
 */
static int user_timeout_ms(uint64_t command_timeout_ms)
{
    const int most_ms = 1000 * (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES);

    return command_timeout_ms < (uint64_t)most_ms ? (int)command_timeout_ms : most_ms;
}

static void set_tcp_options(int fd, uint64_t command_timeout_ms)
{
    const int on = 1;
    const int idle = KEEPALIVE_IDLE_S;
    const int interval = KEEPALIVE_INTERVAL_S;
    const int probes = KEEPALIVE_PROBES;
    const int user_timeout = user_timeout_ms(command_timeout_ms);

    /* If one of these fails, the connection is slower, or its end is noticed later. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout));
}

/* A unix socket whose queue is full refuses at once, whereas TCP retries by itself. */
static int wait_for_room(struct relock_dial *dial, uint64_t now_ms)
{
    static const char why[] = "the server accepts no connection: its queue is full (tcp-backlog)";

    if (now_ms >= dial->limit_ms)
        return fail(dial, RELOCK_E_CONN, why);
    set_why(dial, why);
    dial->state = RELOCK_DIAL_PAUSING;
    dial->pause_ms = relock_backoff_ms(dial->pause_ms, MIN_PAUSE_MS, MAX_PAUSE_MS);
    dial->deadline_ms = relock_clock_sooner(now_ms + dial->pause_ms, dial->limit_ms);
    return RELOCK_AGAIN;
}

/* The race has ended without a connection. */
static int lose(struct relock_dial *dial, uint64_t now_ms)
{
    int err = dial->race.err;

    dial->fd = -1;
    if (dial->server->url.path && err == EAGAIN)
        return wait_for_room(dial, now_ms);
    relock_resolver_distrust(dial->server->resolver);
    return fail(dial, dial->result,
                err == 0 ? "no answer to the connection attempt" : relock_status_errno(err));
}

static int race_on(struct relock_dial *dial, uint64_t now_ms, int *fd)
{
    int r = relock_race_step(&dial->race, now_ms, dial->limit_ms, fd);

    if (r == RELOCK_E_CONN)
        return lose(dial, now_ms);
    dial->fd = dial->race.fd;
    dial->deadline_ms = dial->race.deadline_ms;
    return r;
}

static int begin_to_race(struct relock_dial *dial, uint64_t now_ms)
{
    int fd;

    if (dial->result != RELOCK_E_AUTH)
        dial->why[0] = '\0';
    dial->state = RELOCK_DIAL_CONNECTING;
    return race_on(dial, now_ms, &fd);
}

static int try_path(struct relock_dial *dial, uint64_t now_ms)
{
    struct sockaddr_un *address = (void *)&dial->race.addresses.at[0].address;

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path, sizeof(address->sun_path), "%s", dial->server->url.path);
    dial->race.addresses.at[0].len = sizeof(*address);
    dial->race.addresses.n = 1;
    return begin_to_race(dial, now_ms);
}

static int begin(struct relock_dial *dial, uint64_t now_ms)
{
    const char *why = "";
    int r;

    dial->limit_ms = relock_clock_after(now_ms, dial->server->connect_timeout_ms);
    dial->result = RELOCK_E_CONN;
    dial->why[0] = '\0';
    dial->master[0] = '\0';
    if (dial->server->url.path)
        return try_path(dial, now_ms);
    r = relock_lookup_new(dial->server->resolver, dial->server->scope, &dial->lookup, &why);
    if (r < 0)
        return fail(dial, r, why);
    dial->state = RELOCK_DIAL_RESOLVING;
    dial->fd = relock_lookup_fd(dial->lookup);
    dial->deadline_ms = dial->limit_ms;
    return RELOCK_AGAIN;
}

static int take_addresses(struct relock_dial *dial, uint64_t now_ms)
{
    const char *why = NULL;
    int r = relock_lookup_take(dial->lookup, &dial->race.addresses, &why);

    if (r == RELOCK_AGAIN)
        return now_ms < dial->deadline_ms
                   ? RELOCK_AGAIN
                   : fail(dial, RELOCK_E_CONN, "no answer from the resolver");
    if (r < 0)
        return fail(dial, r, why);
    dial->lookup = relock_lookup_free(dial->lookup);
    keep_master(dial);
    return begin_to_race(dial, now_ms);
}

static int hand_over(struct relock_dial *dial, struct relock_socket *socket)
{
    *socket = (struct relock_socket){.fd = dial->fd, .tls = dial->tls};
    dial->state = RELOCK_DIAL_IDLE;
    dial->tls = NULL;
    relock_dial_end(dial);
    return RELOCK_OK;
}

static void log_secured(const struct relock_dial *dial)
{
    char what[RELOCK_WHY_MAX];

    relock_tls_describe(dial->tls, what);
    relock_log_write(dial->server->log, RELOCK_LOG_DEBUG, "%s: %s", dial->server->label, what);
}

static int secure(struct relock_dial *dial, uint64_t now_ms, struct relock_socket *socket)
{
    int r = relock_socket_shake((struct relock_socket){dial->fd, dial->tls});

    if (r == RELOCK_OK) {
        log_secured(dial);
        return hand_over(dial, socket);
    }
    if (r == RELOCK_AGAIN && now_ms < dial->deadline_ms)
        return RELOCK_AGAIN;
    if (r == RELOCK_E_NOMEM)
        return fail(dial, r, relock_tls_why(dial->tls));
    if (r < 0)
        set_why(dial, relock_tls_why(dial->tls));
    if (r == RELOCK_E_AUTH)
        dial->result = r;
    drop_socket(dial);
    if (dial->race.addresses.n > 0 && now_ms < dial->limit_ms)
        return begin_to_race(dial, now_ms);
    relock_resolver_distrust(dial->server->resolver);
    relock_dial_end(dial);
    return dial->result;
}

/* If other addresses are left, the handshake must not use all the remaining time. */
static uint64_t share_of_time(const struct relock_dial *dial, uint64_t now_ms)
{
    return relock_clock_left(now_ms, dial->limit_ms) / (dial->race.addresses.n + 1);
}

static int begin_to_secure(struct relock_dial *dial, uint64_t now_ms, struct relock_socket *socket)
{
    dial->state = RELOCK_DIAL_SECURING;
    dial->deadline_ms = now_ms + share_of_time(dial, now_ms);
    dial->tls = relock_tls_new(dial->server);
    if (!dial->tls)
        return fail(dial, RELOCK_E_NOMEM, "out of memory for TLS");
    set_why(dial, "no answer to the TLS handshake: does the server speak TLS on this port?");
    return secure(dial, now_ms, socket);
}

static int check_connected(struct relock_dial *dial, uint64_t now_ms, struct relock_socket *socket)
{
    int fd = -1;
    int r = race_on(dial, now_ms, &fd);

    if (r != RELOCK_OK)
        return r;
    dial->fd = fd;
    if (!dial->server->url.path)
        set_tcp_options(fd, dial->server->command_timeout_ms);
    return dial->server->tls ? begin_to_secure(dial, now_ms, socket) : hand_over(dial, socket);
}

int relock_dial_step(struct relock_dial *dial, uint64_t now_ms, struct relock_socket *socket)
{
    if (relock_dial_has_addresses(dial) && relock_dial_is_outdated(dial))
        return fail(dial, RELOCK_E_CONN, "a sentinel says that another server is the master now");
    switch (dial->state) {
    case RELOCK_DIAL_RESOLVING:
        return take_addresses(dial, now_ms);
    case RELOCK_DIAL_CONNECTING:
        return check_connected(dial, now_ms, socket);
    case RELOCK_DIAL_SECURING:
        return secure(dial, now_ms, socket);
    case RELOCK_DIAL_PAUSING:
        return now_ms < dial->deadline_ms ? RELOCK_AGAIN : try_path(dial, now_ms);
    case RELOCK_DIAL_IDLE:
        break;
    }
    return begin(dial, now_ms);
}
