#include "redis/server/server.h"

#include "redis/server/private.h"
#include "redis/server/resolve.h"
#include "redis/server/tls_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- credentials --------------------------------------------------------------------------- */

struct relock_credentials *relock_credentials_new(const char *user, const char *password)
{
    struct relock_credentials *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    new->user = user ? strdup(user) : NULL;
    new->password = strdup(password);
    if (new->password && (new->user || !user))
        return new;
    relock_credentials_free(new);
    return NULL;
}

void relock_credentials_free(struct relock_credentials *credentials)
{
    while (credentials) {
        struct relock_credentials *older = credentials->older;

        free(credentials->user);
        free(credentials->password);
        free(credentials);
        credentials = older;
    }
}

/* ---- the server ---------------------------------------------------------------------------- */

static int replace(char **text, const char *by)
{
    char *copy;

    if (!by)
        return RELOCK_OK;
    copy = strdup(by);
    if (!copy)
        return RELOCK_E_NOMEM;
    free(*text);
    *text = copy;
    return RELOCK_OK;
}

/* The first sentinel and the name of the master tell this master from all others; the first host
 * of its url names a cluster. */
static char *make_label(const struct relock_url *url)
{
    const struct relock_url_host *first = &url->hosts[0];
    const char *host = url->host ? url->host : first->name;
    char *label;
    int n;

    if (url->path)
        n = asprintf(&label, "unix://%s", url->path);
    else if (url->master)
        n = asprintf(&label, strchr(first->name, ':') ? "[%s]:%u/%s" : "%s:%u/%s", first->name,
                     first->port, url->master);
    else
        n = asprintf(&label, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                     url->host ? url->port : first->port);
    return n < 0 ? NULL : label;
}

static int refuse(const struct relock_log *log, const char *what)
{
    relock_log_write(log, RELOCK_LOG_ERROR, "no client was made: %s", what);
    return RELOCK_E_INVALID;
}

static int take_url(struct relock_server *server, const struct relock_options *options)
{
    const char *why;
    int r = relock_url_parse(&server->url, options->url, &why);

    if (r == RELOCK_E_INVALID || r == RELOCK_E_UNSUPPORTED)
        relock_log_write(server->log, RELOCK_LOG_ERROR, "no client was made: invalid url: %s", why);
    return r;
}

/* Credentials for sentinels must not be ignored either. */
static int check_sentinel_login(const struct relock_server *server,
                                const struct relock_options *options)
{
    if (!server->url.master && (options->sentinel_user || options->sentinel_password))
        return refuse(server->log, "sentinel_user or sentinel_password is set, but the url names "
                                   "no sentinels: it has to begin with redis+sentinel://");
    if (options->sentinel_user && !options->sentinel_password)
        return refuse(server->log,
                      "a user for the sentinels is set, but no password: set sentinel_password");
    return RELOCK_OK;
}

static int take_login(struct relock_server *server, const struct relock_options *options)
{
    int r = replace(&server->url.user, options->user);

    if (r == RELOCK_OK)
        r = replace(&server->url.password, options->password);
    if (r == RELOCK_OK && server->url.user && !server->url.password)
        r = refuse(server->log, "a user is set, but no password: set the option password");
    return r == RELOCK_OK ? check_sentinel_login(server, options) : r;
}

/* The sentinels may name another master at any time, so its certificate has no address of ours. */
static int take_tls_of_master(struct relock_server *server, const struct relock_options *options)
{
    if (!options->tls_server_name && !(options->flags & RELOCK_TLS_INSECURE))
        return refuse(server->log,
                      "rediss+sentinel:// needs tls_server_name, the name in the certificates of "
                      "all its servers");
    return relock_tls_context_new(options, server->url.master, server->log, &server->tls);
}

/* The name of an option of TLS that is set; NULL: none is. */
static const char *find_tls_option(const struct relock_options *options)
{
    if (options->tls_ca_file)
        return "tls_ca_file";
    if (options->tls_cert_file)
        return "tls_cert_file";
    if (options->tls_key_file)
        return "tls_key_file";
    if (options->tls_server_name)
        return "tls_server_name";
    return options->flags & RELOCK_TLS_INSECURE ? "RELOCK_TLS_INSECURE" : NULL;
}

/* Options of TLS must not be ignored: a program that sets them expects encryption. */
static int take_tls(struct relock_server *server, const struct relock_options *options)
{
    const char *option;

    if (server->url.tls && server->url.master)
        return take_tls_of_master(server, options);
    if (server->url.tls)
        return relock_tls_context_new(
            options, server->url.host ? server->url.host : server->url.hosts[0].name, server->log,
            &server->tls);
    option = find_tls_option(options);
    if (!option)
        return RELOCK_OK;
    relock_log_write(server->log, RELOCK_LOG_ERROR,
                     "no client was made: %s is set, but the url does not begin with rediss://",
                     option);
    return RELOCK_E_INVALID;
}

int relock_server_init(struct relock_server *server, const struct relock_options *options,
                       const char *id, const struct relock_log *log)
{
    int r;

    *server = (struct relock_server){
        .connect_timeout_ms = options->connect_timeout_ms,
        .command_timeout_ms = options->command_timeout_ms,
        .never_spins = options->flags & RELOCK_NO_SPIN,
        .log = log,
    };
    r = take_url(server, options);
    if (r == RELOCK_OK)
        r = take_login(server, options);
    if (r == RELOCK_OK)
        r = take_tls(server, options);
    if (r < 0)
        goto fail;

    server->label = make_label(&server->url);
    if (options->client_name && asprintf(&server->name, "%s:%s", options->client_name, id) < 0)
        server->name = NULL;
    server->counts = calloc(1, sizeof(*server->counts));
    if (server->url.host)
        server->resolver = relock_resolver_new(server->url.host, server->url.port);
    if (server->label && server->url.host && !server->resolver)
        relock_log_write(log, RELOCK_LOG_ERROR, "no client was made: %s: " RELOCK_RESOLVER_WHY,
                         server->label);
    if (server->label && server->counts && (server->name || !options->client_name) &&
        (server->resolver || !server->url.host))
        return RELOCK_OK;
    r = RELOCK_E_NOMEM;

fail:
    relock_server_deinit(server);
    return r;
}

int relock_server_init_node(struct relock_server *server, const struct relock_server *cluster,
                            const char *host, uint16_t port)
{
    *server = *cluster;
    server->tls = NULL;
    server->url.host = strdup(host);
    server->url.port = port;
    server->label = server->url.host ? make_label(&server->url) : NULL;
    server->resolver = relock_resolver_new(host, port);
    if (cluster->tls)
        server->tls = relock_tls_context_new_for(cluster->tls, host);
    if (server->label && server->resolver && (server->tls || !cluster->tls))
        return RELOCK_OK;
    relock_server_deinit_node(server);
    return RELOCK_E_NOMEM;
}

void relock_server_deinit_node(struct relock_server *server)
{
    relock_resolver_free(server->resolver);
    relock_tls_context_free(server->tls);
    free(server->label);
    free(server->url.host);
    *server = (struct relock_server){0};
}

void relock_server_deinit(struct relock_server *server)
{
    relock_resolver_free(server->resolver); /* its source uses what follows */
    relock_url_deinit(&server->url);
    free(server->name);
    free(server->label);
    if (server->counts)
        relock_credentials_free(atomic_load(&server->counts->credentials));
    free(server->counts);
    relock_tls_context_free(server->tls);
    *server = (struct relock_server){0};
}

struct relock_credentials relock_server_credentials(const struct relock_server *server)
{
    const struct relock_credentials *now =
        server->counts ? atomic_load(&server->counts->credentials) : NULL;

    if (now)
        return *now;
    return (struct relock_credentials){
        .user = server->url.user,
        .password = server->url.password,
    };
}

void relock_server_set_credentials(const struct relock_server *server,
                                   struct relock_credentials *credentials)
{
    credentials->older = atomic_load(&server->counts->credentials);
    atomic_store(&server->counts->credentials, credentials);
}
