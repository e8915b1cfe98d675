#include "support/gateway.h"

#include "support/certs.h"
#include "support/daemon.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a configuration, this stands for a value: @listen@ and @server@ are the ports of the gateway
 * and of the server, @tls@ is the server's with TLS, @certs@ the folder of its certificates. */
#define MARK '@'

#define ENVOY(filter)                                                                    \
    "static_resources:\n"                                                                \
    "  listeners:\n"                                                                     \
    "  - name: redis\n"                                                                  \
    "    address: {socket_address: {address: 127.0.0.1, port_value: @listen@}}\n"        \
    "    filter_chains:\n"                                                               \
    "    - filters:\n"                                                                   \
    "      - name: redis\n"                                                              \
    "        typed_config:\n"                                                            \
    "          \"@type\": type.googleapis.com/envoy.extensions.filters.network." filter  \
    "          stat_prefix: redis\n"                                                     \
    "  clusters:\n"                                                                      \
    "  - name: server\n"                                                                 \
    "    type: STATIC\n"                                                                 \
    "    connect_timeout: 1s\n"                                                          \
    "    load_assignment:\n"                                                             \
    "      cluster_name: server\n"                                                       \
    "      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: " \
    "127.0.0.1, port_value: @server@}}}}]}]\n"

static const struct gateway_kind {
    const char *name, *program; /* a path, or one below RELOCK_TEST_PROXIES */
    const char *scheme;         /* of the url */
    const char *args[8];        /* before the path of the configuration */
    const char *config;
} kinds[] = {
    {
        .name = "envoy-redis",
        .program = "envoy",
        .scheme = "redis",
        .args = {"--disable-hot-restart", "--concurrency", "1", "--log-level", "warning", "-c"},
        .config = ENVOY("redis_proxy.v3.RedisProxy\n"
                        "          settings: {op_timeout: 60s}\n"
                        "          prefix_routes: {catch_all_route: {cluster: server}}\n"),
    },
    {
        .name = "envoy-tcp",
        .program = "envoy",
        .scheme = "redis",
        .args = {"--disable-hot-restart", "--concurrency", "1", "--log-level", "warning", "-c"},
        .config = ENVOY("tcp_proxy.v3.TcpProxy\n"
                        "          cluster: server\n"
                        "          idle_timeout: 1s\n"),
    },
    {
        .name = "haproxy",
        .program = "/usr/sbin/haproxy",
        .scheme = "redis",
        .args = {"-db", "-f"},
        .config = "defaults\n"
                  "    mode tcp\n"
                  "    timeout connect 1s\n"
                  "    timeout client 1s\n"
                  "    timeout server 1s\n"
                  "    timeout tunnel 1s\n"
                  "listen redis\n"
                  "    bind 127.0.0.1:@listen@\n"
                  "    server one 127.0.0.1:@server@\n",
    },
    {
        .name = "stunnel-client",
        .program = "/usr/bin/stunnel",
        .scheme = "redis",
        .config = "foreground = yes\n"
                  "pid =\n"
                  "debug = warning\n"
                  "TIMEOUTidle = 1\n"
                  "[redis]\n"
                  "client = yes\n"
                  "accept = 127.0.0.1:@listen@\n"
                  "connect = 127.0.0.1:@tls@\n"
                  "CAfile = @certs@/" CERTS_CA "\n"
                  "verifyChain = yes\n",
    },
    {
        .name = "stunnel-server",
        .program = "/usr/bin/stunnel",
        .scheme = "rediss",
        .config = "foreground = yes\n"
                  "pid =\n"
                  "debug = warning\n"
                  "TIMEOUTidle = 1\n"
                  "[redis]\n"
                  "accept = 127.0.0.1:@listen@\n"
                  "connect = 127.0.0.1:@server@\n"
                  "cert = @certs@/" CERTS_SERVER "\n"
                  "key = @certs@/" CERTS_KEY "\n",
    },
};

static void die(const struct gateway *gateway, const char *what)
{
    fprintf(stderr, "%s: %s\n", gateway->kind->name, what);
    exit(EXIT_FAILURE);
}

/* ---- the program ------------------------------------------------------------------------------
 */

static bool find_program(const struct gateway_kind *kind, char path[4096])
{
    const char *below = getenv("RELOCK_TEST_PROXIES");

    if (*kind->program == '/')
        snprintf(path, 4096, "%s", kind->program);
    else
        snprintf(path, 4096, "%s/%s", below ? below : "", kind->program);
    return access(path, X_OK) == 0;
}

const struct gateway_kind *gateway_find(const char *name)
{
    char path[4096];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kinds[i].name, name) != 0)
            continue;
        if (find_program(&kinds[i], path))
            return &kinds[i];
        fprintf(stderr, "there is no %s: skipped\n", kinds[i].program);
        return NULL;
    }
    fprintf(stderr, "no proxy is called %s\n", name);
    return NULL;
}

/* ---- the configuration ------------------------------------------------------------------------
 */

static void write_value(FILE *file, const char *name, size_t len, const struct gateway *gateway,
                        const struct server *server)
{
    const struct {
        const char *name;
        int port;
    } ports[] = {
        {"listen", gateway->port.number}, {"server", server->port}, {"tls", server->tls_port}};

    for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
        if (strlen(ports[i].name) == len && strncmp(ports[i].name, name, len) == 0) {
            fprintf(file, "%d", ports[i].port);
            return;
        }
    }
    fputs(server->certs, file);
}

/* Envoy has a key that begins with the mark and does not end with it. */
static void write_config(const struct gateway *gateway, const char *path,
                         const struct server *server)
{
    const char *at = gateway->kind->config;
    FILE *file = fopen(path, "w");

    if (!file)
        die(gateway, "no configuration");
    while (*at) {
        size_t len = *at == MARK ? strspn(at + 1, "abcdefghijklmnopqrstuvwxyz") : 0;

        if (len > 0 && at[1 + len] == MARK) {
            write_value(file, at + 1, len, gateway, server);
            at += len + 2;
        } else {
            fputc(*at++, file);
        }
    }
    fclose(file);
}

/* ---- the process ------------------------------------------------------------------------------
 */

static void launch(struct gateway *gateway, const char *config)
{
    char program[4096];
    const char *argv[12];
    size_t n = 0;

    if (!find_program(gateway->kind, program))
        die(gateway, "no program");
    argv[n++] = program;
    for (size_t i = 0; gateway->kind->args[i]; i++)
        argv[n++] = gateway->kind->args[i];
    argv[n++] = config;
    argv[n] = NULL;
    gateway->pid = daemon_start(argv, gateway->log);
}

static bool listens(void *arg)
{
    const struct gateway *gateway = arg;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)gateway->port.number),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes;

    if (daemon_has_ended(gateway->pid, gateway->log))
        die(gateway, "it did not start");
    yes = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return yes;
}

struct gateway *gateway_start(const struct gateway_kind *kind, const struct server *server)
{
    struct gateway *gateway = calloc(1, sizeof(*gateway));
    char config[80];

    if (!gateway)
        abort();
    gateway->kind = kind;
    snprintf(gateway->dir, sizeof(gateway->dir), "/tmp/relock-XXXXXX");
    if (!mkdtemp(gateway->dir) || !port_reserve(&gateway->port, false))
        die(gateway, "no folder or no port");
    snprintf(gateway->log, sizeof(gateway->log), "%s/log", gateway->dir);
    snprintf(gateway->url, sizeof(gateway->url), "%s://127.0.0.1:%d", kind->scheme,
             gateway->port.number);
    snprintf(config, sizeof(config), "%s/config.yaml", gateway->dir);
    write_config(gateway, config, server);
    launch(gateway, config);
    if (!wait_until(listens, gateway, SOON_MS))
        die(gateway, "it does not listen");
    return gateway;
}

struct gateway *gateway_stop(struct gateway *gateway)
{
    if (!gateway)
        return NULL;

    daemon_stop(gateway->pid);
    port_release(&gateway->port);
    server_remove_dir(gateway->dir);
    free(gateway);
    return NULL;
}
