#include "support/haproxy.h"

#include "support/probe.h"
#include "support/wait.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "/usr/sbin/haproxy" /* not in the PATH of every user */

static const char config[] =
    "global\n"
    "    log stdout format raw daemon\n"
    "defaults\n"
    "    mode tcp\n"
    "    timeout connect 200ms\n"
    "    retries 1\n"
    "    timeout check 300ms\n"
    "    timeout client %llums\n"
    "    timeout server %llums\n"
    "listen redis\n"
    "    bind 127.0.0.1:%d\n"
    "    bind unix@%s\n"
    "    option tcp-check\n"
    "    tcp-check send INFO\\ replication\\r\\n\n"
    "    tcp-check expect string role:master\n"
    "    default-server check inter 100ms fall 2 rise 1 on-marked-down shutdown-sessions\n"
    "    server one 127.0.0.1:%d\n"
    "    server other 127.0.0.1:%d\n";

static void die(const char *what)
{
    fprintf(stderr, "haproxy: %s\n", what);
    exit(EXIT_FAILURE);
}

bool haproxy_is_there(void)
{
    if (access(PROGRAM, X_OK) == 0)
        return true;
    fprintf(stderr, "no haproxy: skipped\n");
    return false;
}

static void write_config(const struct haproxy *haproxy, const char *path, const struct server *one,
                         const struct server *other, uint64_t idle_ms)
{
    unsigned long long ms = idle_ms;
    FILE *file = fopen(path, "w");

    if (!file)
        die("no configuration");
    fprintf(file, config, ms, ms, haproxy->port.number, haproxy->socket, one->port, other->port);
    fclose(file);
}

/* Its log is of no interest, unless it does not start. */
static void launch(struct haproxy *haproxy, const char *path)
{
    pid_t parent = getpid();
    char log[80];

    haproxy->pid = fork();
    if (haproxy->pid < 0)
        die("cannot fork");
    if (haproxy->pid > 0)
        return;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(log, sizeof(log), "%s/log", haproxy->dir);
    if (getppid() != parent || !freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(127);
    execl(PROGRAM, "haproxy", "-db", "-f", path, (char *)NULL);
    _exit(127);
}

/* The role of the server behind it: "master", "slave" or, if it closes the connection, "". */
static bool is_role(const struct haproxy *haproxy, const char *role)
{
    struct probe *probe = probe_open(haproxy->socket);
    const char *answer = probe_list(probe, "ROLE");
    bool is = strncmp(answer, role, strlen(role)) == 0 && (*role || !*answer);

    probe_close(probe);
    return is;
}

/* At its start, HAProxy sends connections to both servers in turn, until it has asked them. */
static bool has_master(void *arg)
{
    struct haproxy *haproxy = arg;
    int n = 0;

    if (waitpid(haproxy->pid, NULL, WNOHANG) == haproxy->pid)
        die("it did not start (see its log)");
    while (n < 4 && is_role(haproxy, "master"))
        n++;
    return n == 4;
}

static bool has_none(void *arg)
{
    return is_role(arg, "");
}

bool haproxy_has_master(struct haproxy *haproxy)
{
    return wait_until(has_master, haproxy, SOON_MS);
}

bool haproxy_has_none(struct haproxy *haproxy)
{
    return wait_until(has_none, haproxy, SOON_MS);
}

struct haproxy *haproxy_start(const struct server *one, const struct server *other,
                              uint64_t idle_ms)
{
    struct haproxy *haproxy = calloc(1, sizeof(*haproxy));
    char path[80];

    if (!haproxy)
        die("out of memory");
    snprintf(haproxy->dir, sizeof(haproxy->dir), "/tmp/relock-XXXXXX");
    if (!mkdtemp(haproxy->dir) || !port_reserve(&haproxy->port, false))
        die("no folder or no port");
    snprintf(haproxy->socket, sizeof(haproxy->socket), "%s/socket", haproxy->dir);
    snprintf(haproxy->url, sizeof(haproxy->url), "redis://127.0.0.1:%d", haproxy->port.number);
    snprintf(path, sizeof(path), "%s/config", haproxy->dir);
    write_config(haproxy, path, one, other, idle_ms);
    launch(haproxy, path);
    if (!haproxy_has_master(haproxy))
        die("no master answers");
    return haproxy;
}

struct haproxy *haproxy_stop(struct haproxy *haproxy)
{
    if (!haproxy)
        return NULL;

    kill(haproxy->pid, SIGKILL);
    waitpid(haproxy->pid, NULL, 0);
    port_release(&haproxy->port);
    server_remove_dir(haproxy->dir);
    free(haproxy);
    return NULL;
}
