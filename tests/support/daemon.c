#include "support/daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t daemon_start(const char *const *argv, const char *log)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0) {
        fprintf(stderr, "%s: cannot fork\n", argv[0]);
        exit(EXIT_FAILURE);
    }
    if (pid > 0)
        return pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(127);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

bool daemon_has_ended(pid_t pid, const char *log)
{
    char line[512];
    FILE *file;

    if (waitpid(pid, NULL, WNOHANG) != pid)
        return false;
    file = fopen(log, "r");
    while (file && fgets(line, sizeof(line), file))
        fputs(line, stderr);
    if (file)
        fclose(file);
    return true;
}

void daemon_stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
