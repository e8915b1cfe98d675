/* relock waiters - who waits for which lock, behind whom */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"

#include <stdio.h>
#include <string.h>

struct waiters {
    struct args args;
    struct relock_client *client;
    struct report *report;
    const struct lock_row *lock; /* the one whose waiters come */
    struct lock_list *list;
    bool are_nested; /* those that hold other locks */
};

enum { NESTED = ARGS_OWN };

static void read_options(struct waiters *waiters, int argc, char **argv)
{
    static const struct option known[] = {
        {"nested", no_argument, NULL, NESTED}, ARGS_JSON_OPTION, ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, ARGS_LETTERS, known, NULL)) >= 0) {
        if (letter == NESTED)
            waiters->are_nested = true;
        else
            args_take(&waiters->args, letter);
    }
    if (waiters->are_nested && optind < argc)
        args_refuse(&waiters->args, "--nested takes no names");
    for (int i = optind; i < argc; i++)
        (void)args_name(&waiters->args, argv[i]);
}

static bool add_row(const struct relock_waiter_info *info, void *arg)
{
    struct waiters *waiters = arg;
    static const char *const sides[] = {"lock", "read", "write"};

    report_text(waiters->report, waiters->lock->name, COLOUR_NONE);
    report_number(waiters->report, info->place);
    report_text(waiters->report, lock_list_who(info->client_name, info->id), COLOUR_NONE);
    report_text(waiters->report, info->id, COLOUR_NONE);
    report_text(waiters->report,
                waiters->lock->kind == RELOCK_KIND_SEMAPHORE ? "permits" : sides[info->side],
                COLOUR_NONE);
    report_text(waiters->report, lock_row_holder(waiters->lock), COLOUR_NONE);
    report_both(waiters->report, info->is_told ? "its turn" : "waits",
                info->is_told ? COLOUR_GOOD : COLOUR_NONE, info->is_told ? "true" : "false");
    report_ms(waiters->report, info->gone_in_ms);
    return true;
}

static int find_locks(struct waiters *waiters, struct lock_list *list, char **names)
{
    int r = RELOCK_OK;

    if (!*names)
        r = lock_list_find(list, waiters->client, "*");
    for (; *names && r == RELOCK_OK; names++)
        r = lock_list_find_name(list, waiters->client, *names);
    lock_list_sort(list, false);
    return r;
}

static int show(struct waiters *waiters, char **names)
{
    struct lock_list list = {0};
    int r = find_locks(waiters, &list, names);

    for (size_t i = 0; i < list.n && r == RELOCK_OK; i++) {
        waiters->lock = &list.rows[i];
        if (waiters->lock->n_waiting > 0)
            r = relock_waiters(waiters->client, waiters->lock->name, add_row, waiters);
    }
    lock_list_free(&list);
    if (r != RELOCK_OK)
        return session_fail(&waiters->args, "cannot read", r);
    (void)report_print(waiters->report, false);
    return STATUS_OK;
}

/* ---- those that hold other locks ----------------------------------------------------------- */

static const struct lock_row *find_row(const struct lock_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->rows[i].name, name) == 0)
            return &list->rows[i];
    return NULL;
}

static bool add_nested(const struct relock_nested_wait *wait, void *arg)
{
    struct waiters *waiters = arg;
    const struct lock_row *lock = find_row(waiters->list, wait->name);

    report_text(waiters->report, wait->name, COLOUR_NONE);
    report_text(waiters->report, lock_list_who(wait->client_name, wait->id), COLOUR_NONE);
    report_text(waiters->report, wait->id, COLOUR_NONE);
    report_text(waiters->report, wait->hold, COLOUR_NONE);
    report_text(waiters->report, lock ? lock_row_holder(lock) : NULL, COLOUR_NONE);
    report_ms(waiters->report, (int64_t)wait->waited_ms);
    return true;
}

static int show_nested(struct waiters *waiters)
{
    struct lock_list list = {0};
    int r = lock_list_find(&list, waiters->client, "*");

    waiters->list = &list;
    if (r == RELOCK_OK)
        r = relock_nested_waits(waiters->client, add_nested, waiters);
    lock_list_free(&list);
    if (r != RELOCK_OK)
        return session_fail(&waiters->args, "cannot read", r);
    (void)report_print(waiters->report, false);
    return STATUS_OK;
}

static int run_waiters(const struct command *self, int argc, char **argv)
{
    static const struct column nested[] = {
        {"LOCK", "name"},     {"WAITER", "waiter"},   {"", "waiter_id"}, {"ITS HOLD", "hold"},
        {"BEHIND", "behind"}, {"WAITS", "waited_ms"}, {NULL, NULL},
    };
    static const struct column columns[] = {
        {"LOCK", "name"}, {"PLACE", "place"},   {"WAITER", "waiter"}, {"", "waiter_id"},
        {"FOR", "for"},   {"BEHIND", "behind"}, {"STATE", "is_told"}, {"GONE IN", "gone_in_ms"},
        {NULL, NULL},
    };
    struct waiters waiters = {.args = {.command = self}};
    int status;

    read_options(&waiters, argc, argv);
    waiters.client = session_open(&waiters.args, &(struct relock_options){.connections = 1});
    waiters.report = report_new(waiters.are_nested ? nested : columns, waiters.args.is_json);
    status = waiters.are_nested ? show_nested(&waiters) : show(&waiters, argv + optind);
    report_free(waiters.report);
    relock_client_free(waiters.client);
    return status;
}

const struct command command_waiters = {
    "waiters",
    "show who waits for which lock, and behind whom",
    "Usage: relock waiters [OPTION]... [NAME]...\n"
    "Shows which clients wait for these locks, or for any lock, in the order of\n"
    "their turns. It finds the queues of fair locks, and clients of relock that wait\n"
    "in line, for semaphores, too. It does not find waiters for spin and plain locks,\n"
    "and those of other libraries. Of latches and unleased semaphores, Redis knows\n"
    "how many clients wait, but not which: see relock status.\n"
    "A client counts once, however many of its threads wait.\n"
    "GONE IN is when a waiter of a fair lock is dropped, unless it asks again.\n"
    "      --nested              instead, which owners have waited for more than\n"
    "                            100 ms (deadlock_ms) while they hold another lock\n"
    "      --json                for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: 0, or 125 if relock failed.\n",
    run_waiters,
};
