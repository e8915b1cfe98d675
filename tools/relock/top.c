/* relock top - the locks for which most wait */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define INTERVAL_MS 2000
#define ROWS 20

enum { TOP_ONCE = ARGS_OWN, TOP_INTERVAL = 'n' };

struct top {
    struct args args;
    const char *pattern;
    int interval_ms;
    bool is_once;
    struct relock_client *client;
};

static void read_options(struct top *top, int argc, char **argv)
{
    static const struct option known[] = {{"interval", required_argument, NULL, TOP_INTERVAL},
                                          {"once", no_argument, NULL, TOP_ONCE},
                                          ARGS_JSON_OPTION,
                                          ARGS_OPTIONS};
    int letter;

    top->interval_ms = INTERVAL_MS;
    while ((letter = getopt_long(argc, argv, "n:" ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == TOP_INTERVAL)
            top->interval_ms = args_interval(&top->args, "--interval", optarg);
        else if (letter == TOP_ONCE)
            top->is_once = true;
        else
            args_take(&top->args, letter);
    top->pattern = args_pattern(&top->args, argv + optind);
    top->is_once |= top->args.is_json || !isatty(STDOUT_FILENO);
}

static int show(struct top *top)
{
    struct lock_list list = {0};
    int r = lock_list_find(&list, top->client, top->pattern), status;

    lock_list_sort(&list, true);
    if (!top->is_once)
        (void)fputs("\033[H\033[2J", stdout);
    if (r == RELOCK_OK)
        status = lock_list_print(&list, ROWS, top->args.is_json, false);
    else
        status = session_fail(&top->args, top->pattern, r);
    lock_list_free(&list);
    return r == RELOCK_E_CONN && !top->is_once ? STATUS_OK : status;
}

static int run_top(const struct command *self, int argc, char **argv)
{
    struct top top = {.args = {.command = self}};
    int status;

    read_options(&top, argc, argv);
    top.client = session_open(&top.args, &(struct relock_options){.connections = 1});
    do {
        status = show(&top);
    } while (status == STATUS_OK && !top.is_once && poll(NULL, 0, top.interval_ms) == 0);
    relock_client_free(top.client);
    return status;
}

const struct command command_top = {
    "top",
    "show the locks for which most wait",
    "Usage: relock top [OPTION]... [PATTERN]\n"
    "Shows the 20 locks for which most clients wait, until Ctrl-C. Without a\n"
    "terminal, it shows them once. `relock waiters --help` says which waiters it\n"
    "finds, and `relock list --help` what PATTERN is.\n"
    "  -n, --interval TIME       how often to search [2s]\n"
    "      --once                show them once\n"
    "      --json                once, for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: 0, or 125 if relock failed.\n",
    run_top,
};
