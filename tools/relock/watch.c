/* relock watch - follows a lock, and prints a line for each change */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"
#include "text.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_MS 500

enum { WATCH_INTERVAL = 'n', WATCH_KIND = ARGS_OWN };

struct watch {
    struct args args;
    const char *name;
    int interval_ms;
    enum said said;
    struct relock_client *client;
};

static void read_options(struct watch *watch, int argc, char **argv)
{
    static const struct option known[] = {{"interval", required_argument, NULL, WATCH_INTERVAL},
                                          {"kind", required_argument, NULL, WATCH_KIND},
                                          ARGS_JSON_OPTION,
                                          ARGS_OPTIONS};
    int letter;

    watch->interval_ms = INTERVAL_MS;
    while ((letter = getopt_long(argc, argv, "n:" ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == WATCH_INTERVAL)
            watch->interval_ms = args_interval(&watch->args, "--interval", optarg);
        else if (letter == WATCH_KIND)
            watch->said = lock_list_said(&watch->args, optarg);
        else
            args_take(&watch->args, letter);
    if (optind + 1 != argc)
        args_refuse(&watch->args, "it takes the name of one lock");
    watch->name = args_name(&watch->args, argv[optind]);
}

static bool has_permit(const struct lock_row *row, const char *id)
{
    for (size_t i = 0; i < row->n_permits; i++)
        if (strcmp(row->permits[i].id, id) == 0)
            return true;
    return false;
}

/* Each renewal changes which of them expires first, and so, if there are more than relock_locks()
 * shows, which of them it shows. */
static bool has_same_acquires(const struct lock_row *a, const struct lock_row *b)
{
    if (lock_row_n_unseen(a) > 0 || lock_row_n_unseen(b) > 0)
        return true;
    for (size_t i = 0; i < b->n_permits; i++)
        if (!has_permit(a, b->permits[i].id))
            return false;
    return a->n_permits == b->n_permits;
}

static bool has_same_holder(const struct lock_row *a, const struct lock_row *b)
{
    if (a->n_out > 0 && b->n_out > 0)
        return has_same_acquires(a, b);
    return strcmp(a->holder.id, b->holder.id) == 0 &&
           a->holder.hold_count == b->holder.hold_count &&
           a->holder.n_holders == b->holder.n_holders;
}

static bool is_same(const struct lock_list *before, const struct lock_list *now)
{
    const struct lock_row *a = before->rows, *b = now->rows;

    return before->n > 0 && a->kind == b->kind && has_same_holder(a, b) &&
           a->n_waiting == b->n_waiting && a->number == b->number && a->n_out == b->n_out;
}

/* For people: the time, and what changed. The lease changes all the time, and is not shown. */
static int print_text(const struct lock_row *row)
{
    char when[16];
    time_t now = time(NULL);
    struct tm local;

    (void)strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&now, &local));
    (void)printf("%s  %s", when,
                 row->kind == RELOCK_KIND_OTHER ? "blocked by other data" : lock_row_state(row));
    if (lock_row_holder(row)) {
        (void)fputs(row->permits ? ", by " : " by ", stdout);
        text_print(stdout, lock_row_holder(row));
        if (!row->permits)
            (void)printf(", levels: %u", row->holder.hold_count);
    }
    (void)printf(", waiting: %u\n", row->n_waiting);
    return fflush(stdout) == 0 ? STATUS_OK : STATUS_FAILED;
}

/* Pauses before the next query. False if nobody can read stdout any more, as when grep(1) has found
 * what it was to wait for. */
static bool pauses(const struct watch *watch)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    return poll(&out, 1, watch->interval_ms) <= 0;
}

static int follow(struct watch *watch)
{
    struct lock_list before = {0};
    int status = STATUS_OK;

    do {
        struct lock_list now = {0};
        int r = lock_list_find_name(&now, watch->client, watch->name);

        if (r == RELOCK_OK)
            (void)lock_row_say(&now.rows[0], watch->said);
        if (r != RELOCK_OK && r != RELOCK_E_CONN) {
            status = session_fail(&watch->args, watch->name, r);
        } else if (r == RELOCK_OK && !is_same(&before, &now)) {
            status = watch->args.is_json ? lock_list_print_line(&now) : print_text(&now.rows[0]);
        }
        if (r == RELOCK_OK) {
            lock_list_free(&before);
            before = now;
        }
    } while (status == STATUS_OK && pauses(watch));
    lock_list_free(&before);
    return status;
}

static int run_watch(const struct command *self, int argc, char **argv)
{
    struct watch watch = {.args = {.command = self}};
    int status;

    read_options(&watch, argc, argv);
    watch.client = session_open(&watch.args, &(struct relock_options){.connections = 1});
    status = follow(&watch);
    relock_client_free(watch.client);
    return status;
}

const struct command command_watch = {
    "watch",
    "follow a lock: print a line for each change",
    "Usage: relock watch [OPTION]... NAME\n"
    "Prints who holds the lock and how many wait, and a line for each change, until\n"
    "Ctrl-C, or until nobody reads its output. It asks Redis at intervals, so it may\n"
    "miss a hold that is shorter. It continues while Redis is unreachable.\n"
    "  -n, --interval TIME       how often to ask [500ms]\n"
    "      --kind KIND           what the key is: see `relock status --help`\n"
    "      --json                an object per line, for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: 125 if relock failed.\n",
    run_watch,
};
