#include "support/player.h"

#include "support/late.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 60000
#define MAX_ORDERS 100000
#define ORDER_MAX 512

struct player {
    pid_t pid; /* 0: it is gone */
    int fd;    /* its standard input and output */
    bool ready;
    bool is_gone; /* it has closed its side */
    unsigned n_orders;
    char *answers[MAX_ORDERS + 1]; /* by order, NULL: not yet */
    size_t n;
    char read[ORDER_MAX]; /* the beginning of a line */
};

static void spawn(struct player *player, const char *const *argv)
{
    pid_t parent = getpid();
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    player->pid = fork();
    if (player->pid < 0)
        abort();
    if (player->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
        dup2(fds[1], STDIN_FILENO);
        dup2(fds[1], STDOUT_FILENO);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(fds[1]);
    player->fd = fds[0];
}

/* "NUMBER ANSWER", or that it is ready. */
static void take_line(struct player *player, const char *line)
{
    char *answer;
    unsigned long order = strtoul(line, &answer, 10);

    if (strcmp(line, "ready") == 0) {
        player->ready = true;
    } else if (order == 0 || order > player->n_orders || player->answers[order]) {
        fprintf(stderr, "player: it said \"%s\"\n", line);
        abort();
    } else {
        player->answers[order] = strdup(answer + strspn(answer, " "));
    }
}

/* Reads the available bytes; false if the other side is closed. */
static bool read_lines(struct player *player)
{
    ssize_t n = read(player->fd, player->read + player->n, sizeof(player->read) - player->n);
    char *end;

    if (n <= 0)
        return n < 0 && errno == EINTR;
    player->n += (size_t)n;
    while ((end = memchr(player->read, '\n', player->n))) {
        *end++ = '\0';
        take_line(player, player->read);
        player->n -= (size_t)(end - player->read);
        memmove(player->read, end, player->n);
    }
    return player->n < sizeof(player->read);
}

/* Waits for that answer, 0: until it is ready. */
static bool wait_for(struct player *player, unsigned order, uint64_t within_ms)
{
    uint64_t deadline_ms = deadline_in(within_ms);

    while (order > 0 ? !player->answers[order] : !player->ready) {
        struct pollfd poll_fd = {.fd = player->fd, .events = POLLIN};
        uint64_t now = now_ms();
        int rest_ms = deadline_ms > now ? (int)(deadline_ms - now) : 0;

        if (poll(&poll_fd, 1, rest_ms) == 0)
            return false;
        player->is_gone = !read_lines(player);
        if (player->is_gone)
            return false;
    }
    return true;
}

struct player *player_start(const char *const *argv)
{
    struct player *player = calloc(1, sizeof(*player));

    if (!player)
        abort();
    spawn(player, argv);
    if (!wait_for(player, 0, START_MS)) {
        fprintf(stderr, "player: it does not come up\n");
        exit(EXIT_FAILURE);
    }
    return player;
}

void player_kill(struct player *player)
{
    if (player->pid <= 0)
        return;

    kill(player->pid, SIGKILL);
    waitpid(player->pid, NULL, 0);
    player->pid = 0;
}

struct player *player_end(struct player *player)
{
    if (!player)
        return NULL;

    player_kill(player);
    close(player->fd);
    for (unsigned order = 1; order <= player->n_orders; order++)
        free(player->answers[order]);
    free(player);
    return NULL;
}

static unsigned send_line(struct player *player, const char *line)
{
    size_t n = strlen(line);

    if (player->n_orders == MAX_ORDERS)
        abort();
    if (send(player->fd, line, n, MSG_NOSIGNAL) != (ssize_t)n)
        fprintf(stderr, "player: it is gone\n"); /* and will not answer */
    return ++player->n_orders;
}

static unsigned give(struct player *player, const char *thread, const char *format, va_list ap)
{
    char order[ORDER_MAX], line[2 * ORDER_MAX];

    vsnprintf(order, sizeof(order), format, ap);
    snprintf(line, sizeof(line), "%s %s\n", thread, order);
    return send_line(player, line);
}

unsigned player_begin(struct player *player, const char *thread, const char *format, ...)
{
    unsigned order;
    va_list ap;

    va_start(ap, format);
    order = give(player, thread, format, ap);
    va_end(ap);
    return order;
}

const char *player_answer_within(struct player *player, unsigned order, uint64_t within_ms)
{
    bool has_answer = wait_for(player, order, within_ms);

    (void)late_unless(has_answer || player->is_gone);
    return has_answer ? player->answers[order] : "";
}

const char *player_answer(struct player *player, unsigned order)
{
    return player_answer_within(player, order, SOON_MS);
}

bool player_is_busy(struct player *player, unsigned order)
{
    return !wait_for(player, order, 0);
}

bool player_is_asleep(struct player *player, const char *thread)
{
    char line[ORDER_MAX];

    snprintf(line, sizeof(line), "asleep %s\n", thread);
    return strcmp(player_answer(player, send_line(player, line)), "yes") == 0;
}

bool player_is_idle(struct player *player)
{
    for (unsigned order = 1; order <= player->n_orders; order++) {
        if (player_is_busy(player, order))
            return false;
    }
    return player->pid > 0;
}

const char *player_do(struct player *player, const char *thread, const char *format, ...)
{
    unsigned order;
    va_list ap;

    va_start(ap, format);
    order = give(player, thread, format, ap);
    va_end(ap);
    return player_answer(player, order);
}

void player_forget(struct player *player)
{
    player_answer(player, send_line(player, "forget\n"));
}

static bool has_ended(void *arg)
{
    struct player *player = arg;

    return waitpid(player->pid, NULL, WNOHANG) == player->pid;
}

bool player_dies(struct player *player)
{
    send_line(player, "die\n");
    if (!wait_until(has_ended, player, SOON_MS))
        return false;
    player->pid = 0;
    return true;
}
