/* URLs, valid and invalid, and their parts. */
#include "fuzz.h"
#include "redis/server/private.h"
#include "redis/server/server.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static char logged[1024];

static void keep(int level, const char *line, void *arg)
{
    (void)arg;
    (void)level;
    (void)snprintf(logged, sizeof(logged), "%s", line);
}

static const struct relock_log log_kept = {.level = RELOCK_LOG_DEBUG, .sink = keep};

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void check_parts(const struct relock_url *url)
{
    FUZZ_CHECK(!!url->host + !!url->path + !!url->master + url->cluster == 1);
    FUZZ_CHECK((url->master || url->cluster) == (url->n_hosts > 0));
    FUZZ_CHECK(url->cluster || url->pubsub == RELOCK_URL_PUBSUB_AUTO);
    for (unsigned i = 0; i < url->n_hosts; i++)
        FUZZ_CHECK(*url->hosts[i].name && url->hosts[i].port > 0);
    FUZZ_CHECK(!url->user || (*url->user && url->password));
    FUZZ_CHECK(url->db <= 999999999);
    if (url->host)
        FUZZ_CHECK(*url->host && url->port > 0);
    if (url->path)
        FUZZ_CHECK(*url->path == '/' &&
                   strlen(url->path) < sizeof(((struct sockaddr_un *)NULL)->sun_path));
}

static void write_escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, isalnum((unsigned char)*text) || *text == '/' ? "%c" : "%%%02x",
                (unsigned char)*text);
}

static void write_name(FILE *out, const char *text)
{
    fputc('/', out);
    for (; *text; text++)
        fprintf(out, "%%%02x", (unsigned char)*text);
}

static void write_host(FILE *out, const char *host, unsigned port)
{
    fprintf(out, strchr(host, ':') || *host == '[' ? "[%s]:%u" : "%s:%u", host, port);
}

/* The equivalent url with all permitted escapes. */
static char *write_url(const struct relock_url *url)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    FUZZ_CHECK(out);
    fputs(url->tls ? "rediss" : url->path ? "unix" : "redis", out);
    fputs(url->master ? "+sentinel://" : url->cluster ? "+cluster://" : "://", out);
    if (url->user)
        for (const char *at = url->user; *at; at++)
            fprintf(out, "%%%02X", (unsigned char)*at);
    if (url->password) {
        fputc(':', out);
        for (const char *at = url->password; *at; at++)
            fprintf(out, "%%%02X", (unsigned char)*at);
        fputc('@', out);
    }
    if (url->path)
        write_escaped(out, url->path);
    else if (url->host)
        write_host(out, url->host, url->port);
    for (unsigned i = 0; i < url->n_hosts; i++) {
        fputs(i > 0 ? "," : "", out);
        write_host(out, url->hosts[i].name, url->hosts[i].port);
    }
    if (url->master)
        write_name(out, url->master);
    if (url->cluster)
        fprintf(out, "/%u?pubsub=%s", url->db,
                (const char *[]){"auto", "sharded", "plain"}[url->pubsub]);
    else
        fprintf(out, url->path ? "?db=%u" : "/%u", url->db);
    fclose(out);
    return text;
}

static void says_the_same_again(const struct relock_url *url)
{
    struct relock_url again;
    char *text = write_url(url);
    const char *why;

    FUZZ_CHECK(relock_url_parse(&again, text, &why) == RELOCK_OK);
    FUZZ_CHECK(same(again.host, url->host) && same(again.path, url->path));
    FUZZ_CHECK(same(again.master, url->master) && again.n_hosts == url->n_hosts);
    for (unsigned i = 0; i < url->n_hosts; i++)
        FUZZ_CHECK(same(again.hosts[i].name, url->hosts[i].name) &&
                   again.hosts[i].port == url->hosts[i].port);
    FUZZ_CHECK(same(again.user, url->user) && same(again.password, url->password));
    FUZZ_CHECK(again.cluster == url->cluster && again.pubsub == url->pubsub);
    FUZZ_CHECK(again.port == url->port && again.db == url->db && again.tls == url->tls);
    relock_url_deinit(&again);
    free(text);
}

/* The label is the address alone: it appears in the log. */
static void check_label(const struct relock_server *server)
{
    char label[4096];
    int len = server->url.master || server->url.cluster
                  ? snprintf(label, sizeof(label), "%s", server->label)
              : server->url.path ? snprintf(label, sizeof(label), "unix://%s", server->url.path)
              : strchr(server->url.host, ':')
                  ? snprintf(label, sizeof(label), "[%s]:%u", server->url.host, server->url.port)
                  : snprintf(label, sizeof(label), "%s:%u", server->url.host, server->url.port);

    FUZZ_CHECK(len > 0 && strncmp(server->label, label, sizeof(label) - 1) == 0);
}

static void check_server(const char *text, int result, const char *why)
{
    struct relock_options options = {.url = text, .client_name = "fuzz"};
    struct relock_server server;
    char expected[512];

    *logged = '\0';
    FUZZ_CHECK(relock_server_init(&server, &options, "id", &log_kept) == result);
    if (result < 0) {
        (void)snprintf(expected, sizeof(expected), "no client was made: invalid url: %s", why);
        FUZZ_CHECK(strstr(logged, expected));
        return;
    }
    FUZZ_CHECK(*logged == '\0');
    check_label(&server);
    relock_server_deinit(&server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct relock_url url;
    const char *why;
    int r;

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    r = relock_url_parse(&url, text, &why);
    if (r == RELOCK_OK) {
        check_parts(&url);
        says_the_same_again(&url);
    } else {
        FUZZ_CHECK(r == RELOCK_E_INVALID || r == RELOCK_E_UNSUPPORTED);
        FUZZ_CHECK(*why && !url.host && !url.path && !url.user && !url.password && !url.master);
    }
    if (!url.tls) /* that would read the system's certificates, or be a build without TLS */
        check_server(text, r, why);
    relock_url_deinit(&url);
    free(text);
    return 0;
}
