/* relock acl - the rights of a Redis user, as a line for ACL SETUSER */
#include "args.h"
#include "rights.h"
#include "session.h"
#include "statuses.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER "locker"

enum { ACL_OPERATOR = ARGS_OWN, ACL_PREFIX, ACL_USER, ACL_SHELL = 's' };

struct acl {
    struct args args;
    const char *prefix, *user;
    bool is_operator;
    bool is_for_shell;
};

static void read_options(struct acl *acl, int argc, char **argv)
{
    static const struct option known[] = {{"operator", no_argument, NULL, ACL_OPERATOR},
                                          {"prefix", required_argument, NULL, ACL_PREFIX},
                                          {"shell", no_argument, NULL, ACL_SHELL},
                                          {"user", required_argument, NULL, ACL_USER},
                                          ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, "s" ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == ACL_OPERATOR)
            acl->is_operator = true;
        else if (letter == ACL_PREFIX)
            acl->prefix = optarg;
        else if (letter == ACL_USER)
            acl->user = optarg;
        else if (letter == ACL_SHELL)
            acl->is_for_shell = true;
        else
            args_take(&acl->args, letter);
    if (optind == argc && !acl->is_operator)
        args_refuse(&acl->args, "which kinds of lock? Or --operator");
    for (int i = optind; i < argc; i++)
        if (!rights_has_kind(argv[i]))
            rights_refuse_kind(&acl->args, argv[i]);
}

/* ---- the server ---------------------------------------------------------------------------- */

/* Schemes have no case. */
static bool begins_with(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* Whether the url has this scheme, with TLS or without. */
static bool has_scheme(const char *url, const char *scheme)
{
    size_t len = begins_with(url, "redis") ? 5 : begins_with(url, "valkey") ? 6 : 0;

    return len > 0 && begins_with(url + len + begins_with(url + len, "s"), scheme);
}

/* The database that the url names behind so many slashes, or as `?db=n`. */
static unsigned long database_of(const char *url, int n_slashes)
{
    const char *at = strstr(url, "://"), *query = strstr(url, "db=");

    if (query && query > url && (query[-1] == '?' || query[-1] == '&'))
        return strtoul(query + 3, NULL, 10);
    for (at = at ? at + 2 : NULL; at && n_slashes > 0; n_slashes--)
        at = strchr(at + 1, '/');
    return at && !begins_with(url, "unix:") ? strtoul(at + 1, NULL, 10) : 0;
}

static void keep_why(const struct relock_record *record, void *arg)
{
    session_words(record, arg);
}

/* The library reads the url first. It never connects, as a user for sentinels needs a password. */
static void check_url(const struct acl *acl, const char *url)
{
    char line[SESSION_LINE_MAX] = "";
    const struct relock_options options = {
        .url = url, .sentinel_user = USER, .on_record = keep_why, .arg = line};
    struct relock_client *client = NULL;
    const char *why;

    if (relock_client_new(&options, &client) == RELOCK_OK)
        relock_client_free(client);
    why = strstr(line, "invalid url: ");
    if (why)
        args_refuse(&acl->args, "%s", why);
}

static void add_for_server(struct rights *rights, const struct relock_options *options)
{
    const char *url = options->url ? options->url : "";
    bool is_cluster = has_scheme(url, "+cluster:");

    if (is_cluster)
        (void)rights_add(rights, "cluster");
    if (is_cluster && !strstr(url, "pubsub=plain"))
        (void)rights_add(rights, "sharded");
    if (database_of(url, has_scheme(url, "+sentinel:") ? 2 : 1) > 0)
        (void)rights_add(rights, "database");
    if (options->min_replicas > 0)
        (void)rights_add(rights, "replicas");
}

/* ---- the line ------------------------------------------------------------------------------ */

/* As redis-cli reads it. */
static void print_for_redis(const char *word)
{
    if (!word[strcspn(word, " \t\r\n\"'\\")]) {
        (void)fputs(word, stdout);
        return;
    }
    (void)putchar('"');
    for (; *word; word++)
        if ((unsigned char)*word < ' ')
            (void)printf("\\x%02x", (unsigned)*word);
        else
            (void)printf(*word == '"' || *word == '\\' ? "\\%c" : "%c", *word);
    (void)putchar('"');
}

static void print_word(const struct acl *acl, const char *word)
{
    (void)putchar(' ');
    if (acl->is_for_shell)
        text_print_word(stdout, word);
    else
        print_for_redis(word);
}

static int run_acl(const struct command *self, int argc, char **argv)
{
    struct acl acl = {.args = {.command = self}};
    struct relock_options options = {0};
    struct rights rights = {0};

    read_options(&acl, argc, argv);
    session_read(&acl.args, &options);
    check_url(&acl, options.url);
    if (!acl.user)
        acl.user = options.user && *options.user ? options.user : USER;
    if (!*acl.user || acl.user[strcspn(acl.user, " \t\n\v\f\r")])
        args_refuse(&acl.args, "the name of a Redis user is not empty and has no spaces");
    rights.prefix = acl.prefix ? acl.prefix : options.name_prefix ? options.name_prefix : "";
    for (int i = optind; i < argc; i++)
        (void)rights_add(&rights, argv[i]);
    if (acl.is_operator)
        (void)rights_add(&rights, "operator");
    add_for_server(&rights, &options);
    (void)fputs("ACL SETUSER", stdout);
    print_word(&acl, acl.user);
    print_word(&acl, "resetchannels");
    for (size_t i = 0; i < rights.n; i++)
        print_word(&acl, rights.words[i]);
    (void)putchar('\n');
    rights_free(&rights);
    return STATUS_OK;
}

const struct command command_acl = {
    "acl",
    "print the rights that a Redis user needs",
    "Usage: relock acl [OPTION]... KIND...\n"
    "Prints a command for Redis (ACL SETUSER) that gives a user the rights to these\n"
    "kinds of lock: reentrant, spin, fenced, fair, read-write, plain, semaphore,\n"
    "unleased (a semaphore without leases), latch; announced-plain, with\n"
    "RELOCK_ANNOUNCE_PLAIN; and python-redis-lock, simple-redis-mutex,\n"
    "spring-integration, for locks like theirs. It does not connect. For each server:\n"
    "  relock acl reentrant fair --prefix orders: | redis-cli\n"
    "The line takes no rights away but to channels, and sets no password: use\n"
    "`ACL SETUSER locker on >PASSWORD`, at the prompt of redis-cli.\n"
    "      --prefix PREFIX       names that begin so [RELOCK_NAME_PREFIX, or all]\n"
    "      --operator            also what status, list, waiters, watch, top, break\n"
    "                            need, for locks of any kind; then without KIND, too\n"
    "      --user USER           [RELOCK_USER, or locker]\n"
    "  -s, --shell               quoted for a shell, to be pasted behind `redis-cli`\n"
    "  -u, --url URL             its cluster or database adds rights, as does\n"
    "                            RELOCK_MIN_REPLICAS [RELOCK_URL]\n"
    "      --password-file FILE  no effect\n"
    "  -v, --verbose             no effect\n"
    "Exit status: 0, or 125 for wrong usage.\n",
    run_acl,
};
