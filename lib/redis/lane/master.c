#include "redis/lane/master.h"

#include "base/status.h"
#include "redis/connect/explain.h"
#include "redis/server/reply.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void relock_master_ask(const char *name, struct relock_buffer *out)
{
    relock_command_words(out, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name);
    relock_command_words(out, "SENTINEL", "MASTER", name);
}

static int fail(const char *what, char why[RELOCK_WHY_MAX])
{
    (void)snprintf(why, RELOCK_WHY_MAX, "%s", what);
    return RELOCK_E_SERVER;
}

static int refuse(const char *error, char why[RELOCK_WHY_MAX])
{
    int r = relock_refusal_result(relock_refusal_of(error));

    relock_explain(why, NULL, error);
    return r < 0 ? r : RELOCK_E_CONN;
}

static bool read_port(const char *text, uint16_t *port)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)*text) || *end != '\0' || number == 0 || number > UINT16_MAX)
        return false;
    *port = (uint16_t)number;
    return true;
}

int relock_master_take(struct relock_master *master, const struct redisReply *reply,
                       char why[RELOCK_WHY_MAX])
{
    const char *error = relock_reply_error(reply);
    const char *host, *port;
    size_t len, port_len;

    *master = (struct relock_master){0};
    if (error)
        return refuse(error, why);
    if (relock_reply_is_nil(reply))
        return fail("it knows no master of this name", why);
    if (!relock_reply_text(relock_reply_at(reply, 0), &host, &len) ||
        !relock_reply_text(relock_reply_at(reply, 1), &port, &port_len))
        return fail("it does not answer with an address", why);
    if (len == 0 || len >= sizeof(master->host) || strlen(host) != len)
        return fail("the host of the master is invalid", why);
    if (strlen(port) != port_len || !read_port(port, &master->port))
        return fail("the port of the master is invalid", why);
    memcpy(master->host, host, len + 1);
    return RELOCK_OK;
}

/* The reply has names and values in turn. */
void relock_master_take_epoch(struct relock_master *master, const struct redisReply *reply)
{
    const struct redisReply *name;
    const char *value;
    size_t len;

    for (size_t i = 0; (name = relock_reply_at(reply, i)); i += 2) {
        if (!relock_reply_is(name, "config-epoch"))
            continue;
        if (relock_reply_text(relock_reply_at(reply, i + 1), &value, &len))
            master->epoch = strtoull(value, NULL, 10);
        return;
    }
}
