/* relock status - who holds these locks */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"

#include <stdio.h>

static void read_options(struct args *args, int argc, char **argv)
{
    static const struct option known[] = {ARGS_JSON_OPTION, ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, ARGS_LETTERS, known, NULL)) >= 0)
        args_take(args, letter);
    if (optind == argc)
        args_refuse(args, "the name of a lock is missing");
    for (int i = optind; i < argc; i++)
        (void)args_name(args, argv[i]);
}

static int run_status(const struct command *self, int argc, char **argv)
{
    struct args args = {.command = self};
    struct lock_list list = {0};
    struct relock_client *client;
    int status = STATUS_OK;

    read_options(&args, argc, argv);
    client = session_open(&args, &(struct relock_options){.connections = 1});
    for (int i = optind; i < argc && status != STATUS_FAILED; i++) {
        int r = lock_list_find_name(&list, client, argv[i]);

        if (r != RELOCK_OK)
            status = session_fail(&args, argv[i], r);
        else if (list.rows[list.n - 1].kind == RELOCK_KIND_OTHER)
            status = STATUS_OTHER;
        else if (!lock_row_is_held(&list.rows[list.n - 1]) && status == STATUS_OK)
            status = STATUS_NO;
    }
    if (status != STATUS_FAILED && lock_list_print(&list, list.n, args.is_json, false) != STATUS_OK)
        status = STATUS_FAILED;
    lock_list_free(&list);
    relock_client_free(client);
    return status;
}

const struct command command_status = {
    "status",
    "show who holds these locks, and the remaining leases",
    "Usage: relock status [OPTION]... NAME...\n"
    "Shows the kind of each lock, its holder, levels and remaining lease, and how\n"
    "many wait.\n"
    "The holder is the client_name of its client, by default HOST:PID. If the holder\n"
    "does not use relock, or CLIENT LIST is not allowed, it is an id.\n"
    "      --json                for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "A name is blocked if its key has other data: then nobody can acquire the lock.\n"
    "Exit status: 0 if all locks are held, 1 if one is free, 2 if one is blocked, 125\n"
    "if relock failed.\n",
    run_status,
};
