#include "support/scripts.h"

#include <stdio.h>
#include <stdlib.h>

struct script_decimal script_decimal(uint64_t n)
{
    struct script_decimal decimal;

    snprintf(decimal.text, sizeof(decimal.text), "%llu", (unsigned long long)n);
    return decimal;
}

static const char *or_empty(const char *arg)
{
    return arg ? arg : "";
}

/* For most scripts a fifth argument means something, be it empty. */
#define EVAL(probe_do, probe, body, key, args)                                                   \
    probe_do(probe, (args)->arg[4] ? "EVAL %s 1 %s %s %s %s %s %s" : "EVAL %s 1 %s %s %s %s %s", \
             body, key, or_empty((args)->arg[0]), or_empty((args)->arg[1]),                      \
             or_empty((args)->arg[2]), or_empty((args)->arg[3]), (args)->arg[4])

long long script_int(struct probe *probe, const char *body, const char *key,
                     const struct script_args *args)
{
    return EVAL(probe_int, probe, body, key, args);
}

const char *script_text(struct probe *probe, const char *body, const char *key,
                        const struct script_args *args)
{
    return EVAL(probe_text, probe, body, key, args);
}

const char *script_list(struct probe *probe, const char *body, const char *key,
                        const struct script_args *args)
{
    return EVAL(probe_list, probe, body, key, args);
}

struct probe *script_user(struct probe *admin, const char *socket, const char *denied)
{
    struct probe *user = probe_open(socket);

    if (probe_int(admin, "ACL SETUSER limited reset on >secret ~* &* +@all %s", denied) != 0 ||
        probe_int(user, "AUTH limited secret") != 0)
        abort();
    return user;
}
