#include "support/server.h"

#include "support/certs.h"
#include "support/wait.h"

#include <fcntl.h>
#include <ftw.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 20000
#define TLS_DIR "tls/"
#define N_PORTS 2

static void die(const char *what)
{
    fprintf(stderr, "server: %s\n", what);
    exit(EXIT_FAILURE);
}

static bool find_in_path(const char *program, char *found, size_t size)
{
    const char *path = getenv("PATH");

    while (path && *path) {
        size_t n = strcspn(path, ":");

        snprintf(found, size, "%.*s/%s", (int)n, path, program);
        if (access(found, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static bool find_program(char *found, size_t size)
{
    const char *chosen = getenv("RELOCK_TEST_SERVER");

    if (chosen) {
        snprintf(found, size, "%s", chosen);
        return true;
    }
    return find_in_path("redis-server", found, size) || find_in_path("valkey-server", found, size);
}

static int take_port(struct server *server, size_t i)
{
    if (!port_reserve(&server->reserved[i], server->options.cluster))
        die("no free port");
    return server->reserved[i].number;
}

static void add_tcp(struct server *server)
{
    server->port = take_port(server, 0);
    snprintf(server->tcp_url, sizeof(server->tcp_url), "redis://127.0.0.1:%d", server->port);
}

/* A server with TLS asks for a certificate, and does not start without. */
static bool program_has_tls(const char *program)
{
    char command[5000], line[256];
    bool asks = false;
    FILE *output;

    snprintf(command, sizeof(command), "'%s' --port 0 --tls-port 1 2>&1", program);
    output = popen(command, "r");
    if (!output)
        die("cannot fork");
    while (fgets(line, sizeof(line), output))
        asks = asks || strstr(line, "tls-cert-file");
    pclose(output);
    if (!asks)
        fprintf(stderr, "%s was built without TLS: skipped\n", program);
    return asks;
}

static bool make_certs(const struct server *server)
{
    char dir[80];

    snprintf(dir, sizeof(dir), "%s/tls", server->dir);
    if (server->options.certs)
        return symlink(server->options.certs, dir) == 0;
    return mkdir(dir, 0700) == 0 && certs_make(dir);
}

static bool add_tls(struct server *server, const char *program)
{
    snprintf(server->certs, sizeof(server->certs), "%s/" TLS_DIR, server->dir);
    snprintf(server->ca_file, sizeof(server->ca_file), "%s" CERTS_CA, server->certs);
    if (!program_has_tls(program) || !make_certs(server))
        return false;
    server->tls_port = take_port(server, 1);
    snprintf(server->tls_url, sizeof(server->tls_url), "rediss://127.0.0.1:%d", server->tls_port);
    return true;
}

/* A sentinel keeps its state in its config file, and does not start without one. */
static void make_config(const struct server *server, char path[96])
{
    int fd;

    snprintf(path, 96, "%s/sentinel.conf", server->dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        _exit(127);
    close(fd);
}

static size_t add_args(const char **argv, size_t n, const char *const *args, size_t n_args)
{
    for (size_t i = 0; i < n_args; i++)
        argv[n++] = args[i];
    return n;
}

/* The paths are relative to the folder of the server, which is its working directory. */
static size_t tls_args(const struct server *server, const char **argv, size_t n, char port[16])
{
    const char *args[] = {"--tls-port",         port,
                          "--tls-cert-file",    TLS_DIR CERTS_SERVER,
                          "--tls-key-file",     TLS_DIR CERTS_KEY,
                          "--tls-ca-cert-file", TLS_DIR CERTS_CA,
                          "--tls-auth-clients", "no"};

    snprintf(port, 16, "%d", server->tls_port);
    return add_args(argv, n, args, sizeof(args) / sizeof(*args));
}

/* A node that is not told its address learns it from its peers, and theirs from the connections.
 * Redis 7.0 aborts if a peer has closed its connection before that. With TLS, the nodes use it
 * among themselves, too: before Redis 7.2 a node tells clients the port that its peers use. */
static size_t cluster_args(const struct server *server, const char **argv, size_t n)
{
    const char *args[] = {
        "--cluster-enabled",     "yes",       "--cluster-config-file", "nodes.conf",
        "--cluster-announce-ip", "127.0.0.1", "--tls-cluster",         "yes",
        "--tls-replication",     "yes"};

    return add_args(argv, n, args, server->tls_port > 0 ? 10 : 6);
}

/* Runs in the child, between fork and exec. */
static void exec_program(const struct server *server, const char *program)
{
    char port[16], tls_port[16], log[96], config[96];
    const char *argv[48 + SERVER_MAX_ARGS];
    size_t n = 0;

    snprintf(port, sizeof(port), "%d", server->port);
    snprintf(log, sizeof(log), "%s/log", server->dir);
    argv[n++] = program;
    if (server->options.sentinel) {
        make_config(server, config);
        argv[n++] = config;
        argv[n++] = "--sentinel";
    }

    const char *fixed[] = {"--port",
                           port,
                           "--bind",
                           "127.0.0.1",
                           "--unixsocket",
                           server->socket,
                           "--unixsocketperm",
                           "700",
                           "--save",
                           "",
                           "--appendonly",
                           server->options.keeps_data ? "yes" : "no",
                           "--appendfsync",
                           "always",
                           "--dir",
                           server->dir,
                           "--logfile",
                           log,
                           "--daemonize",
                           "no"};

    n = add_args(argv, n, fixed, sizeof(fixed) / sizeof(*fixed));
    if (server->tls_port > 0)
        n = tls_args(server, argv, n, tls_port);
    if (!server->options.sentinel) { /* a replica is served at once */
        argv[n++] = "--repl-diskless-sync-delay";
        argv[n++] = "0";
    }
    if (server->options.cluster)
        n = cluster_args(server, argv, n);
    for (size_t i = 0; i < SERVER_MAX_ARGS && server->options.args[i]; i++)
        argv[n++] = server->options.args[i];
    argv[n] = NULL;

    execv(program, (char *const *)argv);
    _exit(127);
}

void server_launch(struct server *server)
{
    char program[4096];
    pid_t parent = getpid();

    if (!find_program(program, sizeof(program)))
        die("no program");

    unlink(server->socket);
    server->pid = fork();
    if (server->pid < 0)
        die("cannot fork");
    if (server->pid > 0)
        return;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    exec_program(server, program);
}

static void print_log(const struct server *server)
{
    char path[96], line[512];
    FILE *log;

    snprintf(path, sizeof(path), "%s/log", server->dir);
    log = fopen(path, "r");
    while (log && fgets(line, sizeof(line), log))
        fputs(line, stderr);
    if (log)
        fclose(log);
}

/* Any reply but LOADING will do: a server with a password answers NOAUTH. */
static bool answers(void *arg)
{
    struct server *server = arg;
    struct timeval limit = {.tv_sec = 1};
    redisContext *redis;
    redisReply *reply = NULL;
    bool yes;

    if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
        print_log(server);
        die("it did not start");
    }

    redis = redisConnectUnixWithTimeout(server->socket, limit);
    if (redis && redis->err == 0)
        reply = redisCommand(redis, "PING");
    yes = reply && !(reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "LOADING", 7) == 0);
    freeReplyObject(reply);
    redisFree(redis);
    return yes;
}

void server_await(struct server *server)
{
    if (!wait_until(answers, server, START_MS))
        die("it does not answer");
}

struct server *server_new(const struct server_options *options)
{
    struct server *server;
    char program[4096];
    const char *tmp = getenv("TMPDIR");

    if (!find_program(program, sizeof(program)))
        return NULL;

    server = calloc(1, sizeof(*server));
    if (!server)
        die("out of memory");
    if (options)
        server->options = *options;

    /* The path of a unix socket ends at 107 bytes. */
    if (!tmp || strlen(tmp) > 40)
        tmp = "/tmp";
    snprintf(server->dir, sizeof(server->dir), "%s/relock-XXXXXX", tmp);
    if (!mkdtemp(server->dir))
        die("no temporary folder");
    snprintf(server->socket, sizeof(server->socket), "%s/socket", server->dir);
    snprintf(server->unix_url, sizeof(server->unix_url), "unix://%s", server->socket);
    if (server->options.tcp)
        add_tcp(server);
    if ((server->options.tls || (getenv("RELOCK_TEST_TLS") && !server->options.sentinel)) &&
        !add_tls(server, program))
        return server_stop(server);
    return server;
}

static struct server *start(struct server *server)
{
    if (!server)
        return NULL;
    server_launch(server);
    server_await(server);
    return server;
}

struct server *server_start(const struct server_options *options)
{
    return start(server_new(options));
}

struct server *server_start_replica(const struct server *master)
{
    struct server *server = server_new(&(struct server_options){.tcp = true});

    if (!server)
        return NULL;
    snprintf(server->master_port, sizeof(server->master_port), "%d", master->port);
    server->options.args[0] = "--replicaof";
    server->options.args[1] = "127.0.0.1";
    server->options.args[2] = server->master_port;
    return start(server);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void server_remove_dir(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

struct server *server_stop(struct server *server)
{
    if (!server)
        return NULL;

    server_kill(server);
    for (size_t i = 0; i < N_PORTS; i++)
        port_release(&server->reserved[i]);
    server_remove_dir(server->dir);
    free(server);
    return NULL;
}

void server_pause(struct server *server)
{
    int status;

    kill(server->pid, SIGSTOP);
    waitpid(server->pid, &status, WUNTRACED);
    server->paused = true;
}

void server_resume(struct server *server)
{
    kill(server->pid, SIGCONT);
    server->paused = false;
}

void server_kill(struct server *server)
{
    if (server->pid <= 0)
        return;

    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
    server->paused = false;
}

void server_restart(struct server *server)
{
    server_kill(server);
    server_launch(server);
    server_await(server);
}

/* Redis 7 keeps a folder of files, and those before it one file. */
void server_forget(struct server *server)
{
    char path[96];

    server_kill(server);
    snprintf(path, sizeof(path), "%s/appendonlydir", server->dir);
    server_remove_dir(path);
    snprintf(path, sizeof(path), "%s/appendonly.aof", server->dir);
    unlink(path);
}
