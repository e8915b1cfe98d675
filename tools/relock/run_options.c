#include "run_options.h"

#include "statuses.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEASE_MS 30000
#define LEAST_LEASE_MS 30 /* of the library */
#define GRACE_MS 10000

enum {
    RUN_FAIR = ARGS_OWN,
    RUN_READ,
    RUN_WRITE,
    RUN_FENCED,
    RUN_PLAIN,
    RUN_LIKE,
    RUN_PERMITS,
    RUN_SET_PERMITS,
    RUN_ON_LOST,
    RUN_ONCE_PER,
    RUN_KILL_AFTER
};

static int lost_signal_of(const struct args *args, const char *text)
{
    if (strcmp(text, "term") == 0)
        return SIGTERM;
    if (strcmp(text, "kill") == 0)
        return SIGKILL;
    if (strcmp(text, "warn") != 0)
        args_refuse(args, "--on-lost: `%s` is none of term, kill and warn", text);
    return 0;
}

/* In the order of their options. */
static void take_kind(struct run_options *options, int letter)
{
    static constructor_fn *const constructors[] = {
        relock_fairlock_new,  relock_rdlock_new,    relock_wrlock_new,    relock_fencedlock_new,
        relock_plainlock_new, relock_plainlock_new, relock_semaphore_new, relock_semaphore_new};
    constructor_fn *constructor = constructors[letter - RUN_FAIR];
    bool is_like = letter == RUN_LIKE;

    if (options->constructor && (options->constructor != constructor || is_like || options->like))
        args_refuse(&options->args,
                    "only one of --fair, --read, --write, --fenced, --plain, --like and "
                    "--permits");
    options->constructor = constructor;
    options->like = is_like ? optarg : NULL;
}

static void take_number(struct run_options *options, int letter)
{
    const char *name = letter == RUN_PERMITS ? "--permits" : "--set-permits";

    options->n_permits = args_number(&options->args, name, optarg, RELOCK_SEMAPHORE_MAX);
    options->changes_number = letter == RUN_SET_PERMITS;
    if (options->n_permits == 0)
        args_refuse(&options->args, "%s: at least 1", name);
}

/* As flock(1) runs it. */
static char **shell_command(char *text)
{
    static char dash_c[] = "-c", standard[] = "/bin/sh";
    static char *command[4] = {NULL, dash_c};
    char *shell = getenv("SHELL");

    command[0] = shell && *shell ? shell : standard;
    command[2] = text;
    return command;
}

/* Most of them are as for flock(1). */
static bool take_flock_option(struct run_options *options, int letter)
{
    switch (letter) {
    case 'n':
        options->wait_ms = 0;
        break;
    case 'c':
        options->command = shell_command(optarg);
        break;
    case 'q':
        options->is_quiet = true;
        break;
    case 'E':
        options->conflict_status =
            (int)args_number(&options->args, "--conflict-exit-code", optarg, 255);
        break;
    default:
        return false;
    }
    return true;
}

static void take_option(struct run_options *options, int letter)
{
    const struct args *args = &options->args;

    switch (letter) {
    case 'w':
        options->wait_ms = (int64_t)args_duration(args, "--wait", optarg);
        break;
    case 'l':
        options->lease_ms = args_duration(args, "--lease", optarg);
        if (options->lease_ms < LEAST_LEASE_MS)
            args_refuse(args, "--lease: at least %dms", LEAST_LEASE_MS);
        break;
    case RUN_FAIR:
    case RUN_READ:
    case RUN_WRITE:
    case RUN_FENCED:
    case RUN_PLAIN:
    case RUN_LIKE:
        take_kind(options, letter);
        break;
    case RUN_PERMITS:
    case RUN_SET_PERMITS:
        take_kind(options, letter);
        take_number(options, letter);
        break;
    case RUN_ON_LOST:
        options->lost_signal = lost_signal_of(args, optarg);
        break;
    case RUN_ONCE_PER:
        options->period_ms = args_duration(args, "--once-per", optarg);
        if (options->period_ms < 1000)
            args_refuse(args, "--once-per: at least 1s");
        break;
    case RUN_KILL_AFTER:
        options->grace_ms = args_duration(args, "--kill-after", optarg);
        break;
    default:
        if (!take_flock_option(options, letter))
            args_take(&options->args, letter);
    }
}

static size_t count_to_dashes(char **words)
{
    size_t n = 0;

    while (words[n] && strcmp(words[n], "--") != 0)
        n++;
    return n;
}

/* `NAME -c COMMAND`, as for flock(1). */
static void read_flock_words(struct run_options *options, char **words)
{
    if (!words[2] || words[3])
        args_refuse(&options->args, "-c takes one word, the command");
    options->n_names = 1;
    options->command = shell_command(words[2]);
}

/* The options end at the first name, because the command may have options of its own. */
static void read_words(struct run_options *options, char **words)
{
    size_t n = count_to_dashes(words);

    options->has_dashes = words[n] != NULL;
    options->names = words;
    options->n_names = options->command || options->has_dashes ? n : n > 0;
    if (options->command && options->has_dashes)
        args_refuse(&options->args, "there are two commands, that of -c and that behind `--`");
    if (options->command)
        return;
    if (n > 1 && strcmp(words[1], "-c") == 0)
        read_flock_words(options, words);
    else
        options->command = words + options->n_names + options->has_dashes;
}

static bool is_executable(const char *path)
{
    struct stat stat_of;

    return stat(path, &stat_of) == 0 && S_ISREG(stat_of.st_mode) && access(path, X_OK) == 0;
}

/* Whether execvp() would run it. */
static bool is_program(const char *word)
{
    const char *folder = getenv("PATH");
    char path[PATH_MAX];
    int len;

    if (strchr(word, '/') || !folder)
        return is_executable(word);
    for (; *folder; folder += len + (folder[len] == ':')) {
        len = (int)strcspn(folder, ":");
        (void)snprintf(path, sizeof(path), "%.*s/%s", len > 0 ? len : 1, len > 0 ? folder : ".",
                       word);
        if (is_executable(path))
            return true;
    }
    return false;
}

static void check_words(const struct run_options *options)
{
    if (options->n_names == 0 || !*options->command)
        args_refuse(&options->args, "the %s is missing",
                    options->n_names > 0 ? "command" : "name of the lock");
    for (size_t i = 0; i < options->n_names; i++) {
        (void)args_name(&options->args, options->names[i]);
        if (i > 0 && *options->names[i] == '-')
            args_refuse(&options->args,
                        "`%s` would be the name of a lock: write `--` before the command",
                        options->names[i]);
    }
    /* `relock run deploy ssh host -- rm x` shall not run rm here. */
    if (options->n_names > 1 && options->has_dashes && is_program(options->names[1]))
        args_refuse(&options->args,
                    "`%s` would be the name of a lock, and is a program: write `--` before the "
                    "command too, or pass the command by -c before the names",
                    options->names[1]);
    if (options->n_names > 1 && options->period_ms > 0)
        args_refuse(&options->args, "--once-per takes one name");
    if (options->n_names > 1 && options->n_permits > 0)
        args_refuse(&options->args,
                    "--permits takes one name: for more, let COMMAND be another `relock run`");
    if (options->period_ms > 0 && options->n_permits > 0)
        args_refuse(&options->args, "--once-per is for one machine, and --permits for several");
}

/* The names with blanks between them. */
static const char *join(char **names, size_t n)
{
    static char *text; /* lives as long as the process */
    size_t len = 0;
    char *at;

    for (size_t i = 0; i < n; i++)
        len += strlen(names[i]) + 1;
    text = at = malloc(len + 1);
    for (size_t i = 0; text && i < n; i++) {
        at = stpcpy(at, names[i]);
        *at++ = i + 1 < n ? ' ' : '\0';
    }
    return text ? text : names[0];
}

void run_options_read(struct run_options *options, const struct command *command, int argc,
                      char **argv)
{
    static const struct option known[] = {
        {"wait", required_argument, NULL, 'w'},
        {"nonblock", no_argument, NULL, 'n'},
        {"command", required_argument, NULL, 'c'},
        {"quiet", no_argument, NULL, 'q'},
        {"lease", required_argument, NULL, 'l'},
        {"fair", no_argument, NULL, RUN_FAIR},
        {"read", no_argument, NULL, RUN_READ},
        {"write", no_argument, NULL, RUN_WRITE},
        {"fenced", no_argument, NULL, RUN_FENCED},
        {"plain", no_argument, NULL, RUN_PLAIN},
        {"like", required_argument, NULL, RUN_LIKE},
        {"permits", required_argument, NULL, RUN_PERMITS},
        {"set-permits", required_argument, NULL, RUN_SET_PERMITS},
        {"on-lost", required_argument, NULL, RUN_ON_LOST},
        {"once-per", required_argument, NULL, RUN_ONCE_PER},
        {"kill-after", required_argument, NULL, RUN_KILL_AFTER},
        {"conflict-exit-code", required_argument, NULL, 'E'},
        ARGS_OPTIONS,
    };
    int letter;

    *options = (struct run_options){
        .args = {.command = command, .tells_losses = true},
        .wait_ms = -1,
        .lease_ms = LEASE_MS,
        .lost_signal = SIGTERM,
        .grace_ms = GRACE_MS,
        .conflict_status = -1,
    };
    while ((letter = getopt_long(argc, argv, "+w:nc:ql:E:" ARGS_LETTERS, known, NULL)) >= 0)
        take_option(options, letter);
    read_words(options, argv + optind);
    check_words(options);
    options->title = join(options->names, options->n_names);
    /* A renewal must not keep the lock beyond the period if the command ends earlier. */
    if (options->period_ms > 0 && options->lease_ms > options->period_ms / 10)
        options->lease_ms = options->period_ms / 10;
    if (options->wait_ms < 0)
        options->wait_ms = options->period_ms > 0 ? 0 : RELOCK_FOREVER;
    if (!options->constructor)
        options->constructor = relock_lock_new;
    if (options->conflict_status < 0)
        options->conflict_status = options->period_ms > 0 ? STATUS_OK : STATUS_CONFLICT;
}
