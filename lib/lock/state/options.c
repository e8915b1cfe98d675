#include "lock/state/options.h"

#include <stdio.h>
#include <string.h>

#define FLAGS                                                                     \
    (RELOCK_LAZY | RELOCK_ANNOUNCE_PLAIN | RELOCK_TLS_INSECURE | RELOCK_NO_SPIN | \
     RELOCK_NO_TRACKING | RELOCK_DEFER_RELEASES)
#define MAX_CONNECTIONS 1024
#define MAX_PREFIX 1024

const char relock_options_url[] = "redis://127.0.0.1:6379";

void relock_options_log(const struct relock_options *given, struct relock_log *log)
{
    *log = (struct relock_log){.level = RELOCK_LOG_INFO};
    if (!given)
        return;
    if (given->log_level >= RELOCK_LOG_ERROR && given->log_level <= RELOCK_LOG_DEBUG)
        log->level = given->log_level;
    log->sink = given->on_log;
    log->on_record = given->on_record;
    log->arg = given->arg;
}

int relock_options_refuse(const struct relock_log *log, const char *what)
{
    relock_log_write(log, RELOCK_LOG_ERROR, "no client was made: invalid options: %s", what);
    return RELOCK_E_INVALID;
}

static void default_to(uint64_t *ms, uint64_t value)
{
    if (*ms == 0)
        *ms = value;
}

static void set_defaults(struct relock_options *options)
{
    if (!options->url)
        options->url = relock_options_url;
    default_to(&options->watchdog_timeout_ms, 30000);
    default_to(&options->connect_timeout_ms, 1000);
    default_to(&options->command_timeout_ms, 3000);
    default_to(&options->release_timeout_ms, options->command_timeout_ms);
    default_to(&options->recheck_ms, 5000);
    default_to(&options->handoff_ms, 10);
    default_to(&options->replica_timeout_ms, 1000);
    if (options->connections == 0)
        options->connections = 8;
    if (options->log_level == 0)
        options->log_level = RELOCK_LOG_INFO;
}

/* Returns the name of a time that is taken for a mistake; NULL: there is none. */
static const char *find_wrong_time(const struct relock_options *options)
{
    const struct {
        const char *too_long;
        uint64_t ms;
    } times[] = {
#define TIME(name) {#name " is above ten years", options->name}
        TIME(watchdog_timeout_ms),
        TIME(connect_timeout_ms),
        TIME(command_timeout_ms),
        TIME(recheck_ms),
        TIME(handoff_ms),
        TIME(replica_timeout_ms),
        TIME(max_hold_ms),
        TIME(release_timeout_ms),
        TIME(keep_ms),
        {"deadlock_ms is above ten years",
         options->deadlock_ms == RELOCK_FOREVER ? 0 : options->deadlock_ms},
#undef TIME
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        if (times[i].ms > RELOCK_TEN_YEARS_MS)
            return times[i].too_long;
    return NULL;
}

/* Accepted by CLIENT SETNAME, and readable in CLIENT LIST. */
static bool is_plain_letter(char letter)
{
    return letter > ' ' && letter <= '~';
}

static bool is_plain(const char *name)
{
    if (*name == '\0')
        return false;
    for (; *name; name++)
        if (!is_plain_letter(*name))
            return false;
    return true;
}

const char *relock_options_name(const char *host, long pid, char out[RELOCK_CLIENT_NAME_MAX])
{
    (void)snprintf(out, RELOCK_CLIENT_NAME_MAX, "relock:%.64s:%ld", *host ? host : "-", pid);
    for (char *at = out; *at; at++)
        if (!is_plain_letter(*at))
            *at = '-';
    return out;
}

int relock_options_read(struct relock_options *options, const struct relock_options *given,
                        const struct relock_log *log)
{
    const char *wrong_time;

    *options = given ? *given : (struct relock_options){0};
    set_defaults(options);
    wrong_time = find_wrong_time(options);

    if (!relock_options_unused(options->reserved, sizeof(options->reserved) / sizeof(uint64_t)))
        return relock_options_refuse(log, "reserved must be 0");
    if (options->flags & ~FLAGS)
        return relock_options_refuse(log, "flags has a flag that this version does not support");
    if (options->log_level < RELOCK_LOG_ERROR || options->log_level > RELOCK_LOG_DEBUG)
        return relock_options_refuse(log, "log_level must be one of RELOCK_LOG_*");
    if (wrong_time)
        return relock_options_refuse(log, wrong_time);
    if (options->watchdog_timeout_ms < RELOCK_LEASE_MIN_MS)
        return relock_options_refuse(log, "watchdog_timeout_ms is below 30");
    if (options->connections > MAX_CONNECTIONS)
        return relock_options_refuse(log, "connections is above 1024");
    if (options->client_name && !is_plain(options->client_name))
        return relock_options_refuse(log,
                                     "client_name is empty, or has blanks or non-ASCII characters");
    if (options->name_prefix && strnlen(options->name_prefix, MAX_PREFIX + 1) > MAX_PREFIX)
        return relock_options_refuse(log, "name_prefix is longer than 1024 bytes");
    return RELOCK_OK;
}
