#include "support/child.h"

#include "support/late.h"
#include "support/sanitizer.h"
#include "support/wait.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
    struct child *next; /* of all */
    pid_t pid;          /* 0: the other is the parent */
    int fd;
};

static struct child *children;

static void run_child(child_fn *run, void *arg, int fd, pid_t parent)
{
    struct child other = {.fd = fd};
    int status;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CHILD_FAILED);

    status = run(&other, arg);
    fflush(NULL);
    _exit(status);
}

struct child *child_start(child_fn *run, void *arg)
{
    struct child *child = calloc(1, sizeof(*child));
    pid_t parent = getpid();
    int fds[2];

    if (!child || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    fflush(NULL);

    child->fd = fds[0];
    child->pid = fork();
    if (child->pid < 0)
        abort();
    if (child->pid == 0) {
        close(fds[0]);
        free(child); /* valgrind looks for leaks in a child, too */
        run_child(run, arg, fds[1], parent);
    }

    close(fds[1]);
    child->next = children;
    children = child;
    return child;
}

bool child_send(struct child *other, int64_t number)
{
    return send(other->fd, &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number);
}

bool child_receive_within(struct child *other, int64_t *number, uint64_t within_ms)
{
    struct pollfd poll_fd = {.fd = other->fd, .events = POLLIN};

    if (!late_unless(poll(&poll_fd, 1, (int)slow_ms(within_ms)) != 0))
        return false;
    return recv(other->fd, number, sizeof(*number), 0) == sizeof(*number);
}

bool child_receive(struct child *other, int64_t *number)
{
    return child_receive_within(other, number, SOON_MS);
}

bool child_await(struct child *other)
{
    int64_t number;

    return child_receive(other, &number);
}

static void forget(struct child *child)
{
    struct child **link = &children;

    while (*link && *link != child)
        link = &(*link)->next;
    if (*link)
        *link = child->next;
    close(child->fd);
    free(child);
}

struct ending {
    pid_t pid;
    int status;
};

static bool has_ended(void *arg)
{
    struct ending *ending = arg;

    return waitpid(ending->pid, &ending->status, WNOHANG) == ending->pid;
}

int child_wait(struct child *child, uint64_t within_ms)
{
    struct ending ending = {.pid = child->pid};
    bool ended = wait_until(has_ended, &ending, within_ms);

    if (!ended) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
    }
    forget(child);

    if (!ended)
        return -1;
    return WIFEXITED(ending.status) ? WEXITSTATUS(ending.status) : 128 + WTERMSIG(ending.status);
}

void child_signal(struct child *child, int signal)
{
    kill(child->pid, signal);
}

bool child_can_have_threads(void)
{
    return !UNDER_TSAN && !getenv("RELOCK_TEST_EMULATED");
}

bool child_can_leave_busy_threads(void)
{
    return !UNDER_ASAN;
}

void child_end_all(void)
{
    while (children) {
        kill(children->pid, SIGKILL);
        waitpid(children->pid, NULL, 0);
        forget(children);
    }
}

void child_check(bool condition, const char *text, const char *file, int line)
{
    if (condition)
        return;

    fprintf(stderr, "%s:%d: child: %s\n", file, line, text);
    fflush(NULL);
    _exit(CHILD_FAILED);
}
