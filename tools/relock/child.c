#include "child.h"

#include "offspring.h"
#include "statuses.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* nohup(1) and shells ignore signals for their commands, and this tool is one. */
static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool child_listen(struct child *child)
{
    sigset_t set;

    *child = (struct child){.has_own_group = !has_terminal()};
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++)
        if (!is_ignored(forwarded[i]))
            (void)sigaddset(&set, forwarded[i]);
    (void)signal(SIGCHLD, SIG_DFL); /* if it is ignored, nobody learns of an exit */
    (void)pthread_sigmask(SIG_BLOCK, &set, &child->mask);
    child->signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return child->signals_fd >= 0;
}

/* In the child: becomes the command, or writes errno to `fd`. */
static void become(const struct child *child, char **command, int death_signal, pid_t parent,
                   int fd)
{
    int error;

    if (child->has_own_group)
        (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, death_signal);
    if (death_signal != 0 && getppid() != parent)
        (void)raise(death_signal); /* the tool died before the kernel knew */
    (void)pthread_sigmask(SIG_SETMASK, &child->mask, NULL);
    (void)execvp(command[0], command);
    error = errno;
    (void)!write(fd, &error, sizeof(error));
    _exit(STATUS_FAILED);
}

int child_start(struct child *child, char **command, int death_signal)
{
    pid_t parent = getpid();
    int fds[2], error = 0;
    ssize_t n;

    if (!child->has_own_group)
        offspring_adopt();
    if (pipe2(fds, O_CLOEXEC) < 0)
        return errno;
    child->pid = fork();
    if (child->pid == 0)
        become(child, command, death_signal, parent, fds[1]);
    error = child->pid < 0 ? errno : 0;
    (void)close(fds[1]);
    if (error == 0 && child->has_own_group)
        (void)setpgid(child->pid, child->pid); /* whichever of the two comes first */
    do {
        n = read(fds[0], &error, sizeof(error)); /* ends with exec() */
    } while (n < 0 && errno == EINTR);
    (void)close(fds[0]);
    if (error != 0 && child->pid > 0)
        (void)waitpid(child->pid, NULL, 0);
    if (error != 0)
        child->pid = 0;
    return error;
}

/* To the command, or to its process group. */
static void forward(const struct child *child, int number)
{
    (void)kill(child->has_own_group ? -child->pid : child->pid, number);
}

int child_hear(struct child *child)
{
    struct signalfd_siginfo info;
    int number;

    if (read(child->signals_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return -1;
    number = (int)info.ssi_signo;
    if (number == SIGCHLD)
        return offspring_reap(child->pid) ? 0 : -1;
    /* The terminal sends its signals to the whole group itself. */
    if (child->pid > 0 && (child->has_own_group || info.ssi_code != SI_KERNEL))
        forward(child, number);
    return number;
}

void child_end(const struct child *child, int number)
{
    if (child->has_own_group)
        forward(child, number);
    else
        offspring_signal(child->pid, number);
}

int child_reap(struct child *child, bool kills_rest)
{
    int status = 0;

    /* Before waitpid(): until then no other group can have this number. */
    if (kills_rest)
        child_end(child, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    child->pid = 0;
    return WIFSIGNALED(status) ? STATUS_OF_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}
