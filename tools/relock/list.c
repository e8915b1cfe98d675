/* relock list - the locks that are held */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"

static const char *read_options(struct args *args, int argc, char **argv)
{
    static const struct option known[] = {ARGS_JSON_OPTION, ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, ARGS_LETTERS, known, NULL)) >= 0)
        args_take(args, letter);
    return args_pattern(args, argv + optind);
}

static int run_list(const struct command *self, int argc, char **argv)
{
    struct args args = {.command = self};
    struct lock_list list = {0};
    const char *pattern = read_options(&args, argc, argv);
    struct relock_client *client = session_open(&args, &(struct relock_options){.connections = 1});
    int r = lock_list_find(&list, client, pattern), status;

    lock_list_sort(&list, false);
    if (r != RELOCK_OK)
        status = session_fail(&args, pattern, r);
    else
        status = lock_list_print(&list, list.n, args.is_json, false);
    lock_list_free(&list);
    relock_client_free(client);
    return status;
}

const struct command command_list = {
    "list",
    "show all locks that are held",
    "Usage: relock list [OPTION]... [PATTERN]\n"
    "Shows the locks that are held and whose names match PATTERN, as in the Redis\n"
    "command KEYS: `orders:*`. Quote it for the shell. Without PATTERN, all locks.\n"
    "It uses SCAN on each master, which does not block Redis, and reads each hash,\n"
    "string and sorted set that matches. So with many other keys, PATTERN saves time.\n"
    "Of strings, it lists those that look like plain locks of relock or of a known\n"
    "library; `plain?` may be other data. Of numbers, it lists semaphores with\n"
    "permits that are out; and, if the name has this word or clients wait for it, as\n"
    "`semaphore?` what is 0 or less, or has waiters, and as `latch?` what is above 0.\n"
    "`relock status` shows any number.\n"
    "      --json                for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: 0, or 125 if relock failed.\n",
    run_list,
};
