#include "session.h"

#include "statuses.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PASSWORD_MAX 4096
#define MOST_REPLICAS 1000

/* ---- options ------------------------------------------------------------------------------- */

/* An option or a function of the library: its name in log lines, the words for it here, and the
 * variable that sets it. */
static const struct setting {
    const char *library, *here;
    const char *variable; /* NULL: none */
    size_t at;            /* of the string in struct relock_options */
} settings[] = {
#define STRING(option) offsetof(struct relock_options, option)
    {"the option url", "--url or RELOCK_URL", "RELOCK_URL", STRING(url)},
    {"the option user", "RELOCK_USER", "RELOCK_USER", STRING(user)},
    {"the option password", "RELOCK_PASSWORD or --password-file", "RELOCK_PASSWORD",
     STRING(password)},
    {"sentinel_user", "RELOCK_SENTINEL_USER", "RELOCK_SENTINEL_USER", STRING(sentinel_user)},
    {"sentinel_password", "RELOCK_SENTINEL_PASSWORD", "RELOCK_SENTINEL_PASSWORD",
     STRING(sentinel_password)},
    {"tls_ca_file", "RELOCK_TLS_CA_FILE", "RELOCK_TLS_CA_FILE", STRING(tls_ca_file)},
    {"tls_cert_file", "RELOCK_TLS_CERT_FILE", "RELOCK_TLS_CERT_FILE", STRING(tls_cert_file)},
    {"tls_key_file", "RELOCK_TLS_KEY_FILE", "RELOCK_TLS_KEY_FILE", STRING(tls_key_file)},
    {"tls_server_name", "RELOCK_TLS_SERVER_NAME", "RELOCK_TLS_SERVER_NAME",
     STRING(tls_server_name)},
    {"`name_prefix`", "RELOCK_NAME_PREFIX", NULL, 0},
    {"name_prefix", "RELOCK_NAME_PREFIX", "RELOCK_NAME_PREFIX", STRING(name_prefix)},
    {"watchdog_timeout_ms", "--lease", NULL, 0},
    {"relock_plainlock_like", "--like", NULL, 0},
    {"min_replicas", "RELOCK_MIN_REPLICAS", NULL, 0},
    {"recheck_ms", "RELOCK_RECHECK", NULL, 0},
    {"command_timeout_ms", "RELOCK_COMMAND_TIMEOUT", NULL, 0},
#undef STRING
};

#define N_SETTINGS (sizeof(settings) / sizeof(*settings))

/* A variable that sets a number of the library's options. */
static const struct number {
    const char *variable;
    size_t at; /* of a uint64_t if it is a time, else of an unsigned */
    bool is_time;
} numbers[] = {
#define TIME(variable, option)                                  \
    {                                                           \
        variable, offsetof(struct relock_options, option), true \
    }
    TIME("RELOCK_CONNECT_TIMEOUT", connect_timeout_ms),
    TIME("RELOCK_COMMAND_TIMEOUT", command_timeout_ms),
    TIME("RELOCK_RELEASE_TIMEOUT", release_timeout_ms),
    TIME("RELOCK_REPLICA_TIMEOUT", replica_timeout_ms),
    TIME("RELOCK_RECHECK", recheck_ms),
    {"RELOCK_MIN_REPLICAS", offsetof(struct relock_options, min_replicas), false},
#undef TIME
};

#define N_NUMBERS (sizeof(numbers) / sizeof(*numbers))

/* Whether the character is part of a longer word, such as the name of a lock or a file. */
static bool is_in_word(const char *at)
{
    return isalnum((unsigned char)*at) || (*at && strchr("_-./{}", *at)) ||
           (*at == ':' && at[1] && at[1] != ' ');
}

/* In a line about a lock, a colon follows the names of locks. */
static const struct setting *find_at(const char *text, bool is_about_lock)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        size_t len = strlen(settings[i].library);

        if (strncmp(text, settings[i].library, len) == 0 && !is_in_word(text + len) &&
            !(is_about_lock && text[len] == ':'))
            return &settings[i];
    }
    return NULL;
}

/* Behind the name of the lock or the server with which the line begins, if it does. A line
 * about a deadlock names further locks, and no setting. */
static const char *find_message(const struct relock_record *record)
{
    const char *name = record->lock ? strstr(record->text, record->lock) : NULL;
    const char *colon = strstr(name ? name + strlen(record->lock) : record->text, ": ");

    if (record->result == RELOCK_E_DEADLOCK)
        return record->text + strlen(record->text);
    return colon ? colon : record->text;
}

void session_words(const struct relock_record *record, char out[SESSION_LINE_MAX])
{
    const char *line = record->text, *message = find_message(record);
    char *at = out, *end = out + SESSION_LINE_MAX - 1;

    while (*line && at < end) {
        bool begins = line >= message && (line == record->text || !is_in_word(line - 1));
        const struct setting *setting = begins ? find_at(line, record->lock != NULL) : NULL;
        size_t room = (size_t)(end - at);

        if (!setting) {
            *at++ = *line++;
            continue;
        }
        at = mempcpy(at, setting->here, strnlen(setting->here, room));
        line += strlen(setting->library);
    }
    *at = '\0';
}

/* Returns NULL also for an empty one: files of settings often list all variables, some of them
 * empty. */
static const char *variable(const struct args *args, const char *name)
{
    const char *value = getenv(name);
    size_t len = value ? strlen(value) : 0;

    if (len > 0 && strchr("\r\n", value[len - 1]))
        args_refuse(args, "%s ends with a line break: remove it", name);
    return len > 0 ? value : NULL;
}

/* The first line of a file. It stays in memory for as long as the client may need it. */
static const char *read_password(const struct args *args, const char *path)
{
    static char password[PASSWORD_MAX];
    FILE *file = fopen(path, "re");

    if (!file || (!fgets(password, sizeof(password), file) && ferror(file)))
        args_refuse(args, "cannot read the password file %s: %s", path, strerror(errno));
    (void)fclose(file);
    password[strcspn(password, "\r\n")] = '\0';
    if (!*password)
        args_refuse(args, "the password file %s: its first line is empty", path);
    return password;
}

static const char *password_of(const struct args *args)
{
    const char *path =
        args->password_file ? args->password_file : variable(args, "RELOCK_PASSWORD_FILE");

    return path ? read_password(args, path) : variable(args, "RELOCK_PASSWORD");
}

/* ---- the client ---------------------------------------------------------------------------- */

/* Not through stdio: exit() locks stderr, so it would wait for this thread if the pipe is full. */
void session_print(const struct relock_record *record, const struct args *args)
{
    char line[SESSION_LINE_MAX];

    if (record->result == RELOCK_LOST && args->tells_losses && !args->is_verbose)
        return;
    session_words(record, line);
    while (dprintf(STDERR_FILENO, "relock: %s%s\n",
                   record->level == RELOCK_LOG_ERROR     ? "error: "
                   : record->level == RELOCK_LOG_WARNING ? "warning: "
                                                         : "",
                   line) < 0 &&
           errno == EAGAIN)
        (void)poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
}

static void print_record(const struct relock_record *record, void *arg)
{
    session_print(record, arg);
}

/* For the library, 0 would stand for its default. */
static uint64_t read_time(const struct args *args, const char *name, const char *text)
{
    uint64_t ms = args_duration(args, name, text);

    if (ms == 0)
        args_refuse(args, "%s: at least 1ms", name);
    return ms;
}

static void read_numbers(const struct args *args, struct relock_options *options)
{
    for (size_t i = 0; i < N_NUMBERS; i++) {
        const char *text = variable(args, numbers[i].variable);
        void *field = (char *)options + numbers[i].at;

        if (text && numbers[i].is_time)
            *(uint64_t *)field = read_time(args, numbers[i].variable, text);
        else if (text)
            *(unsigned *)field = args_number(args, numbers[i].variable, text, MOST_REPLICAS);
    }
}

void session_read(const struct args *args, struct relock_options *options)
{
    for (size_t i = 0; i < N_SETTINGS; i++)
        if (settings[i].variable)
            *(const char **)(void *)((char *)options + settings[i].at) =
                variable(args, settings[i].variable);
    read_numbers(args, options);
    if (args->url)
        options->url = args->url;
    options->password = password_of(args);
    if (options->on_log)
        return;
    options->log_level = args->is_verbose ? RELOCK_LOG_DEBUG : RELOCK_LOG_WARNING;
    if (options->on_record)
        return;
    options->on_record = print_record;
    options->arg = (void *)args;
}

int session_try(const struct args *args, const struct relock_options *options,
                struct relock_client **client)
{
    struct relock_options all = *options;

    session_read(args, &all);
    return relock_client_new(&all, client);
}

struct relock_client *session_open(const struct args *args, const struct relock_options *options)
{
    struct relock_client *client = NULL;
    int r = session_try(args, options, &client);

    if (r == RELOCK_E_INVALID)
        args_refuse(args, "the url or another setting is invalid");
    if (r != RELOCK_OK)
        exit(session_fail(args, "cannot connect", r));
    return client;
}

int session_fail(const struct args *args, const char *what, int result)
{
    text_begin(args->command->name, what);
    (void)fputs(relock_strerror(result), stderr);
    text_end();
    return STATUS_FAILED;
}
