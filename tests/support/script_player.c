#include "support/script_player.h"

#include "support/wait.h"
#include "support/words.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_BYTES 65536

struct script_connection {
    int fd; /* -1 when closed */
    size_t len;
    char bytes[MAX_BYTES]; /* that came and are no command yet */
};

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, SCRIPT_MAX_CONNECTIONS) != 0)
        abort();
    return fd;
}

void script_player_init(struct script_player *player, const char *path)
{
    *player = (struct script_player){
        .listener = listen_at(path),
        .ending_fd = eventfd(0, EFD_CLOEXEC),
    };
    if (player->ending_fd < 0)
        abort();
}

void script_player_deinit(struct script_player *player)
{
    script_player_close(player);
    for (unsigned i = 0; i < player->n_connections; i++)
        free(player->connections[i]);
    close(player->ending_fd);
}

/* Waits until the descriptor can be read. False when it is time to end, or has been long enough. */
static bool await(struct script_player *player, int fd)
{
    struct pollfd fds[] = {{.fd = player->ending_fd, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};

    return poll(fds, 2, (int)slow_ms(SOON_MS)) > 0 && fds[0].revents == 0;
}

static bool fail(const struct script_step *step, const char *what)
{
    static const char *const kinds[] = {
        [SCRIPT_ACCEPT] = "accept",
        [SCRIPT_TURN_TO] = "turn to",
        [SCRIPT_EXPECT] = "expect",
        [SCRIPT_ANSWER] = "answer",
        [SCRIPT_ANSWER_BYTEWISE] = "answer",
        [SCRIPT_ANSWER_ALL] = "answer all",
        [SCRIPT_CLOSE] = "close",
        [SCRIPT_EXPECT_END] = "expect end",
    };

    fprintf(stderr, "script server: %s %s: %s\n", kinds[step->kind], step->text, what);
    return false;
}

static bool play_accept(struct script_player *player, const struct script_step *step)
{
    struct script_connection *connection;

    if (!await(player, player->listener))
        return fail(step, "nobody comes");
    connection = malloc(sizeof(*connection));
    if (!connection || player->n_connections == SCRIPT_MAX_CONNECTIONS)
        abort();
    connection->fd = accept4(player->listener, NULL, NULL, SOCK_CLOEXEC);
    connection->len = 0;
    player->current = player->n_connections;
    player->connections[player->n_connections++] = connection;
    return true;
}

/* 1 when something came, 0 at the end, -1 when nothing does. */
static int receive(struct script_player *player, struct script_connection *connection)
{
    ssize_t n;

    if (!await(player, connection->fd))
        return -1;
    n = recv(connection->fd, connection->bytes + connection->len,
             sizeof(connection->bytes) - connection->len, 0);
    if (n <= 0)
        return 0;
    connection->len += (size_t)n;
    return 1;
}

static void forget(struct script_connection *connection, size_t len)
{
    connection->len -= len;
    memmove(connection->bytes, connection->bytes + len, connection->len);
}

static bool play_expect(struct script_player *player, struct script_connection *connection,
                        const struct script_step *step)
{
    struct words words;
    size_t len;
    bool matched;

    while ((len = words_read(&words, connection->bytes, connection->len)) == 0) {
        int r = receive(player, connection);

        if (r <= 0)
            return fail(step, r < 0 ? "nothing comes" : "the connection is closed instead");
    }
    matched = words_match(&words, step->text);
    if (!matched) {
        fail(step, "another command comes:");
        words_print(&words);
    }
    forget(connection, len);
    return matched;
}

static bool play_expect_end(struct script_player *player, struct script_connection *connection,
                            const struct script_step *step)
{
    int r = connection->len > 0 ? 1 : receive(player, connection);

    if (r != 0)
        return fail(step, r < 0 ? "nothing comes" : "something comes instead");
    return true;
}

/* The other side reads at once, or is about to: nothing is gained by sleeping. */
static void await_read(int fd)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int unread;

    while (ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0 && now_ms() < deadline_ms)
        sched_yield();
}

/* That the other side has gone meanwhile is its own affair. */
static void play_answer(const struct script_connection *connection, const struct script_step *step)
{
    size_t len = strlen(step->text);
    size_t piece = step->kind == SCRIPT_ANSWER_BYTEWISE ? 1 : len;

    for (size_t at = 0; at < len; at += piece) {
        (void)send(connection->fd, step->text + at, piece, MSG_NOSIGNAL);
        if (step->kind == SCRIPT_ANSWER_BYTEWISE)
            await_read(connection->fd);
    }
}

static bool play_answer_all(struct script_player *player, struct script_connection *connection,
                            const struct script_step *step)
{
    int r = 1;

    while (r > 0) {
        struct words words;
        size_t len = words_read(&words, connection->bytes, connection->len);

        if (len == 0) {
            r = receive(player, connection);
            continue;
        }
        forget(connection, len);
        play_answer(connection, step);
    }
    return r == 0 || fail(step, "nothing comes");
}

static void close_connection(struct script_connection *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
}

bool script_player_play(struct script_player *player, const struct script_step *step)
{
    struct script_connection *current = player->connections[player->current];

    switch (step->kind) {
    case SCRIPT_ACCEPT:
        return play_accept(player, step);
    case SCRIPT_TURN_TO:
        player->current = step->connection;
        return step->connection < player->n_connections || fail(step, "there is none");
    case SCRIPT_EXPECT:
        return play_expect(player, current, step);
    case SCRIPT_EXPECT_END:
        return play_expect_end(player, current, step);
    case SCRIPT_ANSWER:
    case SCRIPT_ANSWER_BYTEWISE:
        play_answer(current, step);
        return true;
    case SCRIPT_ANSWER_ALL:
        return play_answer_all(player, current, step);
    case SCRIPT_CLOSE:
        close_connection(current);
        return true;
    }
    return false;
}

void script_player_close(struct script_player *player)
{
    for (unsigned i = 0; i < player->n_connections; i++)
        close_connection(player->connections[i]);
    if (player->listener >= 0)
        close(player->listener);
    player->listener = -1;
}
