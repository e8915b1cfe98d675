#include "support/haproxy.h"

#include "support/daemon.h"
#include "support/probe.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void launch(struct haproxy *haproxy, const char *path)
{
    const char *argv[] = {PROGRAM, "-db", "-f", path, NULL};

    snprintf(haproxy->log, sizeof(haproxy->log), "%s/log", haproxy->dir);
    haproxy->pid = daemon_start(argv, haproxy->log);
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

    if (daemon_has_ended(haproxy->pid, haproxy->log))
        die("it did not start");
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

    daemon_stop(haproxy->pid);
    port_release(&haproxy->port);
    server_remove_dir(haproxy->dir);
    free(haproxy);
    return NULL;
}
