#include "redis/connect/race.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

void relock_race_init(struct relock_race *race)
{
    *race = (struct relock_race){.fd = -1};
}

void relock_race_abandon(const struct relock_race *race)
{
    for (unsigned i = 0; i < race->n_sockets; i++)
        close(race->sockets[i]);
    if (race->fd >= 0)
        close(race->fd);
}

/* A forked child may have the socket open, too, and would keep it in the set. */
static void leave_set(struct relock_race *race, int socket)
{
    (void)epoll_ctl(race->fd, EPOLL_CTL_DEL, socket, NULL);
}

/* A forked child closes the descriptors that it finds here, so clear them before closing. */
static void stop(struct relock_race *race)
{
    int set = race->fd;

    while (race->n_sockets > 0) {
        int socket = race->sockets[--race->n_sockets];

        leave_set(race, socket);
        close(socket);
    }
    race->fd = -1;
    if (set >= 0)
        close(set);
}

void relock_race_end(struct relock_race *race)
{
    stop(race);
    race->addresses.n = 0;
}

static int fail(struct relock_race *race, int err)
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
 * itself. The server could then not listen there. */
static bool is_to_itself(int socket, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof(own);

    return getsockname(socket, (struct sockaddr *)&own, &len) == 0 &&
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
        close(take(race, i));
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
        race->fd = relock_descriptor_epoll();
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
    int fd = relock_descriptor_socket(race->addresses.at[i].address.ss_family);
    int err = fd < 0 ? errno : begin_to_connect(race, fd, i);

    if (err == 0) {
        race->sockets[race->n_sockets++] = fd;
        return 0;
    }
    if (fd >= 0)
        close(fd);
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
        return fail(race, 0);
    while (race->n_sockets < race->addresses.n && now_ms >= race->next_ms) {
        int err = try_next(race);

        if (err == 0)
            race->next_ms = now_ms + delay_ms(race, now_ms, limit_ms);
        else
            race->err = err;
    }
    if (race->n_sockets == 0)
        return fail(race, race->err);
    race->deadline_ms = limit_ms;
    if (race->n_sockets < race->addresses.n && race->next_ms < limit_ms)
        race->deadline_ms = race->next_ms;
    return RELOCK_AGAIN;
}
