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

long long script_int(struct probe *probe, const char *body, const char *key,
                     const struct script_args *args)
{
    return probe_int(probe, "EVAL %s 1 %s %s %s %s %s", body, key, or_empty(args->arg[0]),
                     or_empty(args->arg[1]), or_empty(args->arg[2]), or_empty(args->arg[3]));
}

const char *script_text(struct probe *probe, const char *body, const char *key,
                        const struct script_args *args)
{
    return probe_text(probe, "EVAL %s 1 %s %s %s %s %s", body, key, or_empty(args->arg[0]),
                      or_empty(args->arg[1]), or_empty(args->arg[2]), or_empty(args->arg[3]));
}

struct probe *script_user(struct probe *admin, const char *socket, const char *denied)
{
    struct probe *user = probe_open(socket);

    if (probe_int(admin, "ACL SETUSER limited reset on >secret ~* &* +@all %s", denied) != 0 ||
        probe_int(user, "AUTH limited secret") != 0)
        abort();
    return user;
}
