#include "redis/connect/explain.h"

#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE "docs/wire.md#rights"
#define FIX "(redis-cli --cluster fix)"

/* Returns the number of the line that failed; 0 if the error does not tell. */
static unsigned long line_of(const char *error)
{
    static const char before[] = "@user_script:";
    const char *at = strstr(error, before);

    return at ? strtoul(at + strlen(before), NULL, 10) : 0;
}

static const char *find_line(const char *body, unsigned long line)
{
    while (body && --line > 0) {
        body = strchr(body, '\n');
        if (body)
            body++;
    }
    return body;
}

static const char *find_last(const char *body, const char *text)
{
    const char *last = NULL;

    for (const char *at = strstr(body, text); at; at = strstr(at + 1, text))
        last = at;
    return last;
}

/*
 * Some servers name the command. Else it is the command of the line that failed; our scripts have
 * at most one in a line. An error without a line was caught by the script and returned: it belongs
 * to the last command whose result the script keeps.
 */
static const char *find_command(const struct relock_script *script, const char *error)
{
    static const char before[] = "run the '";
    const char *said = strstr(error, before);
    unsigned long line = line_of(error);
    const char *body = line > 0 ? find_line(script->body, line) : NULL;
    const char *call = body ? strstr(body, "call(") : NULL;

    if (said)
        return said + strlen(before);
    if (line == 0)
        call = find_last(script->body, "= redis.pcall('");
    else if (call && memchr(body, '\n', (size_t)(call - body)))
        return NULL;
    return call ? strchr(call, '\'') + 1 : NULL;
}

/* The wording differs from server to server; it concerns the command, a key or the channel. */
static const char *what_is_denied(const char *error)
{
    if (strstr(error, "channel"))
        return "use the channel of";
    return strstr(error, "key") ? "access the key of" : "run";
}

static void explain_right(char out[RELOCK_WHY_MAX], const struct relock_script *script,
                          const char *error)
{
    const char *command = find_command(script, error);

    (void)snprintf(
        out, RELOCK_WHY_MAX,
        "NOPERM: this user may not %s %s%.*s%s, which the script %s.lua needs; see " PAGE,
        what_is_denied(error), command ? "'" : "a command",
        command ? (int)strcspn(command, "'") : 0, command ? command : "", command ? "'" : "",
        script->name);
}

static bool is_from_script(const char *error)
{
    return strstr(error, "The user executing the script") ||
           strstr(error, "ACL failure in script") || strstr(error, "@user_script:");
}

static bool begins_with(const char *error, const char *code)
{
    return strncmp(error, code, strlen(code)) == 0;
}

/* A script of several keys needs them all at one node. */
static bool is_half_moved(const struct relock_script *script, const char *error)
{
    return begins_with(error, "TRYAGAIN") || relock_refusal_of(error) == RELOCK_REFUSED_HALFWAY ||
           (begins_with(error, "ASK ") && script && !relock_script_has_one_key(script));
}

void relock_explain(char out[RELOCK_WHY_MAX], const struct relock_script *script, const char *error)
{
    enum relock_refusal refusal = relock_refusal_of(error);

    if (refusal == RELOCK_REFUSED_USER && script && is_from_script(error))
        explain_right(out, script, error);
    else if (begins_with(error, "NOPERM "))
        (void)snprintf(out, RELOCK_WHY_MAX, "%.150s; see " PAGE, error);
    else if (begins_with(error, "CLUSTERDOWN"))
        (void)snprintf(out, RELOCK_WHY_MAX,
                       "%.70s: a slot has no master that runs: start one, or assign the slot " FIX,
                       error);
    else if (is_half_moved(script, error))
        (void)snprintf(out, RELOCK_WHY_MAX,
                       "%.30s: the slot is half moved, and the keys of the lock are at two nodes: "
                       "complete the move, or abandon it " FIX,
                       error);
    else if (strstr(error, "max number of clients"))
        (void)snprintf(out, RELOCK_WHY_MAX,
                       "%.60s: raise maxclients of the server, or close connections", error);
    else if (begins_with(error, "MOVED ") || begins_with(error, "ASK "))
        (void)snprintf(out, RELOCK_WHY_MAX,
                       "%.60s: this is a node of a cluster: use redis+cluster://; if the url has "
                       "that, the nodes do not agree: complete the move " FIX,
                       error);
    else if (script && strstr(error, "WRONGTYPE Operation"))
        (void)snprintf(out, RELOCK_WHY_MAX,
                       "WRONGTYPE: another kind of lock, or other data, has this name: use one "
                       "kind of lock per name, and delete a key that is no lock");
    else if (refusal == RELOCK_REFUSED_HERE && strstr(error, "READONLY"))
        (void)snprintf(out, RELOCK_WHY_MAX, "READONLY: this is a replica; use its master");
    else
        (void)snprintf(out, RELOCK_WHY_MAX, "%s", error);
}

void relock_explain_replaced(char out[RELOCK_WHY_MAX], const char *error)
{
    (void)snprintf(out, RELOCK_WHY_MAX,
                   "%.60s: the server behind this address was replaced; if new connections get "
                   "this answer, check where the address leads",
                   error);
}

bool relock_explain_is_missing(const char *error)
{
    if (begins_with(error, "NOPERM"))
        return !strstr(error, "to access"); /* a key or a channel */
    return relock_refusal_of(error) == RELOCK_REFUSED_UNKNOWN;
}

void relock_explain_extra(const struct relock_server *server, enum relock_extra extra,
                          const char *error)
{
    static const char unstoppable[] =
        "an unanswered command cannot be stopped: a lock or a count that it leaves "
        "behind lives until its lease ends";
    static const struct {
        const char *command;
        const char *weaker;
    } extras[] = {
        [RELOCK_EXTRA_HELLO] = {"HELLO", "the role of the server comes from INFO or ROLE"},
        [RELOCK_EXTRA_ROLE] = {"INFO and ROLE", "a replica is recognised only when it refuses a "
                                                "command"},
        [RELOCK_EXTRA_NAME] = {"CLIENT SETNAME", "connections have no name in CLIENT LIST"},
        [RELOCK_EXTRA_RUN] = {"INFO", unstoppable},
        [RELOCK_EXTRA_INFO] = {"CLIENT INFO", unstoppable},
        [RELOCK_EXTRA_KILL] = {"CLIENT KILL", unstoppable},
        [RELOCK_EXTRA_LOAD] = {"SCRIPT LOAD", "scripts are sent whole by EVAL: allow one of them"},
        [RELOCK_EXTRA_WAIT] = {"WAIT", "no lock can be acquired with min_replicas: allow it, or "
                                       "set min_replicas to 0"},
        [RELOCK_EXTRA_HEAR] = {"SUBSCRIBE", "waiters retry every recheck_ms: allow it, or set a "
                                            "shorter recheck_ms"},
        [RELOCK_EXTRA_TRACK] = {"CLIENT TRACKING", "a loss is noticed with the next renewal, and "
                                                   "waiters for plain locks poll"},
    };
    unsigned bit = 1U << extra;

    if (atomic_fetch_or(&server->counts->warned, bit) & bit)
        return;
    /* A server may lack more commands than a single cause may have lines. */
    relock_log_cause(server->log, (struct relock_cause){extras[extra].command, 0},
                     RELOCK_LOG_WARNING, "%s: %s: %s; without it %s; see " PAGE, server->label,
                     extras[extra].command, error, extras[extra].weaker);
}
