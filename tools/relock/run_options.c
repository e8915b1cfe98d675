#include "run_options.h"

#include "statuses.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 30000
#define LEAST_LEASE_MS 30 /* of the library */
#define GRACE_MS 10000

enum {
    RUN_FAIR = ARGS_OWN,
    RUN_READ,
    RUN_WRITE,
    RUN_FENCED,
    RUN_PLAIN,
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

static int status_of(const struct args *args, const char *text)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (end == text || *end || number > 255)
        args_refuse(args, "--conflict-exit-code: `%s` is no number up to 255", text);
    return (int)number;
}

/* In the order of their options. */
static void take_kind(struct run_options *options, int letter)
{
    static run_constructor_fn *const constructors[] = {relock_fairlock_new, relock_rdlock_new,
                                                       relock_wrlock_new, relock_fencedlock_new,
                                                       relock_plainlock_new};
    run_constructor_fn *constructor = constructors[letter - RUN_FAIR];

    if (options->constructor && options->constructor != constructor)
        args_refuse(&options->args, "only one of --fair, --read, --write, --fenced and --plain");
    options->constructor = constructor;
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
    case 'E':
        options->conflict_status = status_of(args, optarg);
        break;
    case RUN_FAIR:
    case RUN_READ:
    case RUN_WRITE:
    case RUN_FENCED:
    case RUN_PLAIN:
        take_kind(options, letter);
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
        args_take(&options->args, letter);
    }
}

/* The options end at the name, because the command may have options of its own. */
static void read_words(struct run_options *options, char **words)
{
    options->name = words[0];
    options->command = words + (options->name ? 1 : 0);
    if (*options->command && strcmp(*options->command, "--") == 0)
        options->command++;
    if (!*options->command)
        args_refuse(&options->args, "the %s is missing",
                    options->name ? "command" : "name of the lock");
    (void)args_name(&options->args, options->name);
}

void run_options_read(struct run_options *options, const struct command *command, int argc,
                      char **argv)
{
    static const struct option known[] = {
        {"wait", required_argument, NULL, 'w'},
        {"lease", required_argument, NULL, 'l'},
        {"fair", no_argument, NULL, RUN_FAIR},
        {"read", no_argument, NULL, RUN_READ},
        {"write", no_argument, NULL, RUN_WRITE},
        {"fenced", no_argument, NULL, RUN_FENCED},
        {"plain", no_argument, NULL, RUN_PLAIN},
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
    while ((letter = getopt_long(argc, argv, "+w:l:E:" ARGS_LETTERS, known, NULL)) >= 0)
        take_option(options, letter);
    read_words(options, argv + optind);
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
