/* relock status - who holds these locks */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"

#include <stdio.h>

enum { KIND = ARGS_OWN };

static void read_options(struct args *args, enum said *said, int argc, char **argv)
{
    static const struct option known[] = {
        {"kind", required_argument, NULL, KIND}, ARGS_JSON_OPTION, ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == KIND)
            *said = lock_list_said(args, optarg);
        else
            args_take(args, letter);
    if (optind == argc)
        args_refuse(args, "the name of a lock is missing");
    for (int i = optind; i < argc; i++)
        (void)args_name(args, argv[i]);
}

/* Adds a row. Returns what the status is for this one. */
static int look_at(const struct args *args, struct relock_client *client, struct lock_list *list,
                   enum said said, const char *name)
{
    int r = lock_list_find_name(list, client, name);
    struct lock_row *row;

    if (r != RELOCK_OK)
        return session_fail(args, name, r);
    row = &list->rows[list->n - 1];
    (void)lock_row_say(row, said);
    if (row->kind == RELOCK_KIND_OTHER)
        return STATUS_OTHER;
    return lock_row_is_held(row) ? STATUS_OK : STATUS_NO;
}

static int run_status(const struct command *self, int argc, char **argv)
{
    struct args args = {.command = self};
    struct lock_list list = {0};
    struct relock_client *client;
    enum said said = SAID_NOTHING;
    int status = STATUS_OK;

    read_options(&args, &said, argc, argv);
    client = session_open(&args, &(struct relock_options){.connections = 1});
    for (int i = optind; i < argc && status != STATUS_FAILED; i++) {
        int found = look_at(&args, client, &list, said, argv[i]);

        if (found > status)
            status = found;
    }
    if (status != STATUS_FAILED && lock_list_print(&list, list.n, args.is_json, true) != STATUS_OK)
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
    "many wait. Of a semaphore, it shows how many permits are out and who has them.\n"
    "The holder is the client_name of its client, by default HOST:PID. If the holder\n"
    "does not use relock, or CLIENT LIST is not allowed, it is an id.\n"
    "      --kind KIND           what a key with a number is: plain, semaphore,\n"
    "                            unleased, latch. Redis does not show it (number?)\n"
    "      --json                for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "A name is blocked if its key has other data: then nobody can acquire the lock.\n"
    "Exit status: 0 if all locks are held, 1 if one is free, 2 if one is blocked, 125\n"
    "if relock failed. A semaphore is held while a permit is out, an unleased one\n"
    "while none is left, a latch while it is closed, and any other number always.\n",
    run_status,
};
