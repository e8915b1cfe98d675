#include "worker.h"

#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

/* ---- from outside -------------------------------------------------------------------------- */

#define N_NUMBERS 12
#define N_ARGUMENTS (4 + N_NUMBERS)

/* Runs between fork and exec in a program with threads: no memory is allocated and no mutex
 * locked. */
static void exec_worker(const struct worker *worker, int fd, const char **argv, pid_t parent)
{
    int log = open(worker->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || log < 0 || dup2(fd, STDIN_FILENO) < 0 ||
        dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    for (int other = STDERR_FILENO + 1; other < 1024; other++)
        close(other);
    execv("/proc/self/exe", (char *const *)argv);
    _exit(EXIT_FAILURE);
}

void worker_name(int slot, char name[WORKER_NAME_MAX])
{
    snprintf(name, WORKER_NAME_MAX, "chaos.%d", slot);
}

void worker_start(struct worker *worker, const struct worker_options *o)
{
    char numbers[N_NUMBERS][24];
    const char *argv[N_ARGUMENTS + 1] = {"relock-chaos", WORKER_ARGUMENT, o->urls, o->dir};
    pid_t parent = getpid();
    int fds[2];

    snprintf(numbers[0], sizeof(numbers[0]), "%d", o->slot);
    snprintf(numbers[1], sizeof(numbers[1]), "%d", o->life);
    snprintf(numbers[2], sizeof(numbers[2]), "%d", o->n_threads);
    snprintf(numbers[3], sizeof(numbers[3]), "%" PRIu64, o->seed);
    snprintf(numbers[4], sizeof(numbers[4]), "%" PRIu64, o->until_ns);
    snprintf(numbers[5], sizeof(numbers[5]), "%" PRIu64, o->lease_ms);
    snprintf(numbers[6], sizeof(numbers[6]), "%d", o->ignores_leases);
    snprintf(numbers[7], sizeof(numbers[7]), "%" PRIu64, o->names_seed);
    snprintf(numbers[8], sizeof(numbers[8]), "%d", o->set);
    snprintf(numbers[9], sizeof(numbers[9]), "%u", o->min_replicas);
    snprintf(numbers[10], sizeof(numbers[10]), "%" PRIu64, o->keep_ms);
    snprintf(numbers[11], sizeof(numbers[11]), "%d", o->has_numbers);
    for (int i = 0; i < N_NUMBERS; i++)
        argv[4 + i] = numbers[i];

    *worker = (struct worker){.slot = o->slot, .life = o->life};
    snprintf(worker->log, sizeof(worker->log), "%s/log.%d.%d", o->dir, o->slot, o->life);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        die("socketpair");
    worker->pid = fork();
    if (worker->pid < 0)
        die("fork");
    if (worker->pid == 0)
        exec_worker(worker, fds[1], argv, parent);
    close(fds[1]);
    worker->fd = fds[0];
}

bool worker_has_ended(struct worker *worker, int *status)
{
    if (worker->pid == 0 || waitpid(worker->pid, status, WNOHANG) != worker->pid)
        return false;
    close(worker->fd);
    worker->pid = 0;
    return true;
}

bool worker_is_idle(struct worker *worker)
{
    return poll(&(struct pollfd){.fd = worker->fd, .events = POLLIN}, 1, 0) == 1;
}

static int end(struct worker *worker)
{
    int status = 0;

    waitpid(worker->pid, &status, 0);
    close(worker->fd);
    worker->pid = 0;
    return status;
}

int worker_stop(struct worker *worker)
{
    shutdown(worker->fd, SHUT_WR);
    return end(worker);
}

void worker_kill(struct worker *worker)
{
    if (worker->pid == 0)
        return;
    kill(worker->pid, SIGKILL);
    end(worker);
}

/* ---- inside -------------------------------------------------------------------------------- */

int worker_main(int argc, char **argv)
{
    struct worker_options options;
    char byte = 0;

    if (argc != N_ARGUMENTS)
        return EXIT_FAILURE;
    options = (struct worker_options){
        .urls = argv[2],
        .dir = argv[3],
        .slot = atoi(argv[4]),
        .life = atoi(argv[5]),
        .n_threads = atoi(argv[6]),
        .seed = strtoull(argv[7], NULL, 10),
        .until_ns = strtoull(argv[8], NULL, 10),
        .lease_ms = strtoull(argv[9], NULL, 10),
        .ignores_leases = atoi(argv[10]) != 0,
        .names_seed = strtoull(argv[11], NULL, 10),
        .set = (enum names_set)atoi(argv[12]),
        .min_replicas = (unsigned)atoi(argv[13]),
        .keep_ms = strtoull(argv[14], NULL, 10),
        .has_numbers = atoi(argv[15]) != 0,
    };
    work_begin(&options);
    if (send(STDIN_FILENO, &byte, 1, MSG_NOSIGNAL) != 1)
        return EXIT_FAILURE;
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        ;
    work_end();
    return EXIT_SUCCESS;
}
