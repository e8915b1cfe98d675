/*
 * The replies come in the order of enum relock_login_step. Each reply moves the login to the next
 * step whose command was sent, and the last one to DONE. A refusal ends the login where it is.
 */
#include "redis/connect/connect.h"

#include "base/decimal.h"
#include "base/status.h"
#include "redis/connect/explain.h"
#include "redis/server/command.h"
#include "redis/server/reply.h"
#include "redis/server/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest version of Redis that works. */
#define OLDEST_MAJOR 6
#define OLDEST_MINOR 2

static bool is_wanted(const struct relock_login *login, enum relock_login_step step)
{
    const struct relock_server *server = login->server;

    switch (step) {
    case RELOCK_LOGIN_AUTH:
        return login->credentials.password != NULL;
    case RELOCK_LOGIN_NAME:
        return server->name != NULL;
    case RELOCK_LOGIN_DB:
        return server->url.db != 0;
    case RELOCK_LOGIN_SERVER:
    case RELOCK_LOGIN_INFO:
        return !server->is_sentinel;
    case RELOCK_LOGIN_ROLE:
        return login->asks_role;
    case RELOCK_LOGIN_HELLO:
    case RELOCK_LOGIN_DONE:
        break;
    }
    return true;
}

static enum relock_login_step skip_unwanted(const struct relock_login *login,
                                            enum relock_login_step step)
{
    while (!is_wanted(login, step))
        step++;
    return step;
}

static void write_step(const struct relock_login *login, enum relock_login_step step,
                       struct relock_buffer *buffer)
{
    const struct relock_server *server = login->server;
    const struct relock_credentials *credentials = &login->credentials;
    char db[RELOCK_DECIMAL_MAX];

    switch (step) {
    case RELOCK_LOGIN_AUTH:
        if (credentials->user)
            relock_command_words(buffer, "AUTH", credentials->user, credentials->password);
        else
            relock_command_words(buffer, "AUTH", credentials->password);
        break;
    case RELOCK_LOGIN_HELLO:
        relock_command_words(buffer, "HELLO");
        break;
    case RELOCK_LOGIN_NAME:
        relock_command_words(buffer, "CLIENT", "SETNAME", server->name);
        break;
    case RELOCK_LOGIN_DB:
        (void)relock_decimal(db, server->url.db);
        relock_command_words(buffer, "SELECT", db);
        break;
    case RELOCK_LOGIN_SERVER:
        relock_command_words(buffer, "INFO", "server");
        break;
    case RELOCK_LOGIN_INFO:
        relock_command_words(buffer, "CLIENT", "INFO");
        break;
    case RELOCK_LOGIN_ROLE:
        if (login->has_info)
            relock_command_words(buffer, "INFO", "replication");
        else
            relock_command_words(buffer, "ROLE");
        break;
    case RELOCK_LOGIN_DONE:
        break;
    }
}

void relock_login_begin(struct relock_login *login, const struct relock_server *server,
                        struct relock_buffer *buffer)
{
    enum relock_login_step step;

    *login = (struct relock_login){
        .server = server,
        .credentials = relock_server_credentials(server),
    };
    login->step = skip_unwanted(login, RELOCK_LOGIN_AUTH);
    for (step = login->step; step != RELOCK_LOGIN_DONE; step = skip_unwanted(login, step + 1))
        write_step(login, step, buffer);
}

void relock_login_end(struct relock_login *login)
{
    login->conn_id = relock_conn_id_unref(login->conn_id);
}

static bool says(const struct redisReply *hello, const char *key, const char *value)
{
    const struct redisReply *at;

    for (size_t i = 0; (at = relock_reply_at(hello, i)); i += 2)
        if (relock_reply_is(at, key))
            return relock_reply_is(relock_reply_at(hello, i + 1), value);
    return false;
}

static int reject(struct relock_login *login, int result, const char *why)
{
    (void)snprintf(login->why, sizeof(login->why), "%s: %s", login->server->label, why);
    return result;
}

/* Servers other than Redis tell the version of Redis that they are compatible with. */
static bool is_too_old(const char *version)
{
    char *end;
    unsigned long major = strtoul(version, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

    return major > 0 && (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR));
}

/* ---- what the server is -------------------------------------------------------------------- */

static int judge_sentinel(struct relock_login *login)
{
    if (login->role.is_standalone || login->role.is_cluster)
        return reject(login, RELOCK_E_UNSUPPORTED,
                      "this is no Sentinel, but the url begins with redis+sentinel://: use "
                      "redis:// for a server");
    return RELOCK_OK;
}

/* The connection is to be made again, and the address may have to be another one. */
static int reject_replica(struct relock_login *login)
{
    relock_resolver_distrust(login->server->resolver);
    if (login->server->url.master)
        return reject(login, RELOCK_REPLICA,
                      "the server that the sentinel names is a replica now; asking the next "
                      "sentinel");
    return reject(login, RELOCK_REPLICA,
                  "this is a replica, which cannot grant locks: use the address of its "
                  "master, or promote it");
}

static int judge_node(struct relock_login *login)
{
    if (login->role.is_standalone || login->role.is_sentinel)
        return reject(login, RELOCK_E_UNSUPPORTED,
                      "this is no node of a cluster: use redis:// for a single server");
    if (login->role.is_replica && !login->server->may_be_replica)
        return reject(login, RELOCK_REPLICA,
                      "this node is a replica now; looking for the master of its slots");
    return RELOCK_OK;
}

static int judge(struct relock_login *login)
{
    if (login->server->is_sentinel)
        return judge_sentinel(login);
    if (login->server->url.cluster)
        return judge_node(login);
    if (login->role.is_sentinel)
        return reject(login, RELOCK_E_UNSUPPORTED,
                      "this is a Sentinel: use redis+sentinel://host:port/master-name, or the "
                      "address of the master");
    if (login->role.is_cluster)
        return reject(login, RELOCK_E_UNSUPPORTED,
                      "this is a node of a cluster: use redis+cluster:// for it");
    return login->role.is_replica && !login->server->may_be_replica ? reject_replica(login)
                                                                    : RELOCK_OK;
}

static int take_hello(struct relock_login *login, const struct redisReply *reply)
{
    login->role = (struct relock_login_role){
        .is_standalone = says(reply, "mode", "standalone"),
        .is_cluster = says(reply, "mode", "cluster"),
        .is_sentinel = says(reply, "mode", "sentinel"),
        .is_replica = says(reply, "role", "replica"),
    };
    login->asks_role = !login->role.is_standalone && !login->role.is_cluster &&
                       !login->role.is_sentinel && !login->role.is_replica &&
                       !says(reply, "role", "master");
    return judge(login);
}

static bool has_field(const struct redisReply *info, const char *name, const char *wanted)
{
    const char *value;
    size_t len;

    return relock_reply_field(info, name, &value, &len) && len == strlen(wanted) &&
           memcmp(value, wanted, len) == 0;
}

/* Valkey 9.1 calls it server_mode. */
static bool has_mode(const struct redisReply *info, const char *mode)
{
    return has_field(info, "redis_mode", mode) || has_field(info, "server_mode", mode);
}

/* "# Replication\r\nrole:slave\r\n...", or the reply to ROLE, which is an array. */
static int take_role(struct relock_login *login, const struct redisReply *reply)
{
    const struct redisReply *role = relock_reply_at(reply, 0);

    login->role.is_sentinel |= role && relock_reply_is(role, "sentinel");
    login->role.is_replica =
        (role && relock_reply_is(role, "slave")) || has_field(reply, "role", "slave");
    if (login->server->is_sentinel && role && !login->role.is_sentinel)
        login->role.is_standalone = true; /* it has a role that no Sentinel has */
    return judge(login);
}

/* "# Server\r\nredis_version:7.2.4\r\n...redis_mode:standalone\r\n...run_id:8ae1...\r\n..." */
static int take_server(struct relock_login *login, const struct redisReply *reply)
{
    const char *value;
    char why[80];
    size_t len;

    if (relock_reply_field(reply, "redis_version", &value, &len) && is_too_old(value)) {
        (void)snprintf(why, sizeof(why), "this is Redis %.*s, which is too old: use 6.2 or newer",
                       len < 20 ? (int)len : 20, value);
        return reject(login, RELOCK_E_UNSUPPORTED, why);
    }
    if (relock_reply_field(reply, "run_id", &value, &len) && len < sizeof(login->run))
        memcpy(login->run, value, len);
    login->has_info = relock_reply_text(reply, &value, &len);
    if (login->asks_role) {
        login->role.is_standalone = has_mode(reply, "standalone");
        login->role.is_sentinel = has_mode(reply, "sentinel");
    }
    return RELOCK_OK;
}

/* ---- the connection id --------------------------------------------------------------------- */

/* "id=7 addr=127.0.0.1:40312 ..." */
static int take_info(struct relock_login *login, const struct redisReply *reply)
{
    const char *text;
    const char *address;
    size_t len;
    unsigned long long id;

    if (!relock_reply_text(reply, &text, &len) || strncmp(text, "id=", 3) != 0)
        return RELOCK_OK;
    id = strtoull(text + 3, NULL, 10);
    address = strstr(text, " addr=");
    if (!address)
        return RELOCK_OK;
    address += strlen(" addr=");
    login->conn_id =
        relock_conn_id_new(login->server, login->run, id, address, strcspn(address, " \n"));
    if (login->conn_id)
        return RELOCK_OK;
    /* Without the id, commands sent over this connection could not be stopped, although the server
     * permits it. */
    (void)snprintf(login->why, sizeof(login->why), "%s: out of memory for a connection",
                   login->server->label);
    return RELOCK_E_NOMEM;
}

/* A server that does not know AUTH repeats its arguments, cut off where they are long. So an error
 * is told in these words only. */
static const char *tellable_of_auth(const char *error)
{
    if (strstr(error, "without any password"))
        return "this server needs no password: leave it out of the url and the options";
    if (strstr(error, "max number of clients"))
        return "max number of clients reached";
    return "an error that may contain the password";
}

/* Returns the part of an error that may be logged: the error may repeat the password. */
static const char *tellable(const struct relock_login *login, const char *error)
{
    const char *password = login->credentials.password;

    if (login->step == RELOCK_LOGIN_AUTH && strncmp(error, "ERR", 3) == 0)
        return tellable_of_auth(error);
    if (password && *password && strstr(error, password))
        return "an error that contains the password";
    return error;
}

/* The server accepts no connection for now, or none of ours. */
static bool is_for_now(const char *error)
{
    enum relock_refusal refusal = relock_refusal_of(error);

    return refusal == RELOCK_REFUSED_FOR_NOW || refusal == RELOCK_REFUSED_HERE;
}

/* The commands of the login. */
static const struct {
    const char *name;
    unsigned forms;          /* of the reply: proxies answer questions as they like */
    bool is_needed;          /* locks do not work without it */
    enum relock_extra extra; /* unless it is needed: its lack */
    int (*take)(struct relock_login *login, const struct redisReply *reply); /* or NULL */
} steps[] = {
    [RELOCK_LOGIN_AUTH] = {"AUTH", RELOCK_REPLY_STATUS, .is_needed = true},
    [RELOCK_LOGIN_HELLO] = {"HELLO", RELOCK_REPLY_ANY, false, RELOCK_EXTRA_HELLO, take_hello},
    [RELOCK_LOGIN_NAME] = {"CLIENT SETNAME", RELOCK_REPLY_STATUS, false, RELOCK_EXTRA_NAME, NULL},
    [RELOCK_LOGIN_DB] = {"SELECT", RELOCK_REPLY_STATUS, .is_needed = true},
    [RELOCK_LOGIN_SERVER] = {"INFO", RELOCK_REPLY_ANY, false, RELOCK_EXTRA_RUN, take_server},
    [RELOCK_LOGIN_INFO] = {"CLIENT INFO", RELOCK_REPLY_ANY, false, RELOCK_EXTRA_INFO, take_info},
    [RELOCK_LOGIN_ROLE] = {"INFO or ROLE", RELOCK_REPLY_ANY, false, RELOCK_EXTRA_ROLE, take_role},
    [RELOCK_LOGIN_DONE] = {.name = "login"}, /* not reached: no reply is to come */
};

const char *relock_login_command(const struct relock_login *login)
{
    return steps[login->step].name;
}

static bool ends_with_line_break(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    return len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r');
}

static void explain(const struct relock_login *login, const char *error, char why[RELOCK_WHY_MAX])
{
    const struct relock_credentials *credentials = &login->credentials;

    if (strncmp(error, "NOAUTH", 6) == 0 && !credentials->password)
        (void)snprintf(why, RELOCK_WHY_MAX, "NOAUTH: %s requires a password: set %s",
                       login->server->url.master ? "the master" : "this server",
                       login->server->is_sentinel ? "sentinel_password"
                                                  : "the option password, or put it into the url");
    else if (login->step == RELOCK_LOGIN_AUTH && (ends_with_line_break(credentials->password) ||
                                                  ends_with_line_break(credentials->user)))
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "%.100s: the user or the password ends with a line break: remove it",
                       tellable(login, error));
    else if (login->step == RELOCK_LOGIN_DB && login->server->url.cluster)
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "%.60s: the cluster lacks this database: leave it out of the url, or set "
                       "cluster-databases (Valkey 9)",
                       tellable(login, error));
    else
        relock_explain(why, NULL, tellable(login, error));
}

static int refuse(struct relock_login *login, const char *error)
{
    char why[RELOCK_WHY_MAX];

    explain(login, error, why);
    (void)snprintf(login->why, sizeof(login->why), "%s: %s: %.180s", login->server->label,
                   relock_login_command(login), why);
    if (is_for_now(error))
        return RELOCK_E_CONN;
    if (login->step == RELOCK_LOGIN_AUTH)
        return RELOCK_E_AUTH;
    return relock_refusal_result(relock_refusal_of(error));
}

/* The command is missing, and locks work without it. */
static void do_without(struct relock_login *login, const char *error)
{
    login->asks_role |= login->step == RELOCK_LOGIN_HELLO;
    if (login->step != RELOCK_LOGIN_SERVER || login->server->url.path)
        relock_explain_extra(login->server, steps[login->step].extra, tellable(login, error));
}

static int take_error(struct relock_login *login, const char *error)
{
    if (steps[login->step].is_needed || !relock_explain_is_missing(error))
        return refuse(login, error);
    do_without(login, error);
    return RELOCK_OK;
}

int relock_login_take(struct relock_login *login, const struct redisReply *reply,
                      struct relock_buffer *buffer)
{
    const char *error = relock_reply_error(reply);
    int r = RELOCK_OK;

    if (!relock_reply_fits(reply, steps[login->step].forms))
        return reject(login, RELOCK_E_CONN, RELOCK_REPLY_MISFIT);
    if (error)
        r = take_error(login, error);
    else if (steps[login->step].take)
        r = steps[login->step].take(login, reply);
    if (r != RELOCK_OK)
        return r;
    login->step = skip_unwanted(login, login->step + 1);
    if (login->step == RELOCK_LOGIN_ROLE)
        write_step(login, RELOCK_LOGIN_ROLE, buffer);
    return login->step == RELOCK_LOGIN_DONE ? RELOCK_OK : RELOCK_AGAIN;
}
