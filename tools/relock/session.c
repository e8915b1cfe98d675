#include "session.h"

#include "statuses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSWORD_MAX 4096

/* The first line of a file. It stays in memory for as long as the client may need it. */
static const char *read_password(const struct args *args, const char *path)
{
    static char password[PASSWORD_MAX];
    FILE *file = fopen(path, "re");

    if (!file)
        args_refuse(args, "cannot read the password file %s", path);
    if (!fgets(password, sizeof(password), file))
        password[0] = '\0';
    (void)fclose(file);
    password[strcspn(password, "\r\n")] = '\0';
    return password;
}

static const char *password_of(const struct args *args)
{
    const char *path = args->password_file ? args->password_file : getenv("RELOCK_PASSWORD_FILE");

    return path ? read_password(args, path) : getenv("RELOCK_PASSWORD");
}

/* Unlike that of the library, this log also shows lines below RELOCK_LOG_WARNING. */
static void print_line(int level, const char *text, void *arg)
{
    (void)level;
    (void)arg;
    (void)fprintf(stderr, "relock: %s\n", text);
}

int session_try(const struct args *args, const struct relock_options *options,
                struct relock_client **client)
{
    struct relock_options all = *options;

    all.url = args->url ? args->url : getenv("RELOCK_URL");
    all.user = getenv("RELOCK_USER");
    all.password = password_of(args);
    all.tls_ca_file = getenv("RELOCK_TLS_CA_FILE");
    all.tls_cert_file = getenv("RELOCK_TLS_CERT_FILE");
    all.tls_key_file = getenv("RELOCK_TLS_KEY_FILE");
    if (args->is_verbose && !all.on_log) {
        all.on_log = print_line;
        all.log_level = RELOCK_LOG_DEBUG;
    }
    return relock_client_new(&all, client);
}

struct relock_client *session_open(const struct args *args, const struct relock_options *options)
{
    struct relock_client *client = NULL;
    int r = session_try(args, options, &client);

    if (r != RELOCK_OK)
        exit(session_fail(args, "cannot connect", r));
    return client;
}

int session_fail(const struct args *args, const char *what, int result)
{
    (void)fprintf(stderr, "relock %s: %s: %s\n", args->command->name, what,
                  relock_strerror(result));
    return STATUS_FAILED;
}
