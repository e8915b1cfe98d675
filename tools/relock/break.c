/*
 * relock break - frees a lock that another owner holds
 *
 * The library deletes the key only while that owner's hold is in it, and tells the waiters. Client
 * tracking tells the holder, or else its next renewal finds out.
 */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"
#include "text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BREAK_YES = 'y' };

typedef int constructor_fn(struct relock_client *client, const char *name,
                           struct relock_lock **lock);

static const char *read_options(struct args *args, bool *is_sure, int argc, char **argv)
{
    static const struct option known[] = {{"yes", no_argument, NULL, BREAK_YES}, ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, "y" ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == BREAK_YES)
            *is_sure = true;
        else
            args_take(args, letter);
    if (optind + 1 != argc)
        args_refuse(args, "it takes the name of one lock");
    return args_name(args, argv[optind]);
}

static void print_holder(const char *before, const struct lock_row *row, const char *after)
{
    (void)fputs(before, stderr);
    text_print(stderr, lock_row_holder(row));
    (void)fputs(after, stderr);
}

/* Asks on the terminal. */
static bool confirms(const struct args *args, const struct lock_row *row)
{
    char answer[16] = "";

    if (!isatty(STDIN_FILENO))
        args_refuse(args, "there is no terminal to ask on; --yes breaks the lock without asking");
    text_print(stderr, row->name);
    print_holder(" is held by ", row,
                 ".\nThe holder may be working until it learns of this.\n"
                 "Break the lock? [y/N] ");
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

/* The answer was about one holder. Meanwhile there may be another. */
static bool has_the_same_holder(struct relock_client *client, const struct lock_row *row)
{
    struct lock_list now = {0};
    bool is_same = lock_list_find_name(&now, client, row->name) == RELOCK_OK &&
                   strcmp(now.rows[0].holder.id, row->holder.id) == 0;

    lock_list_free(&now);
    return is_same;
}

static int force(struct relock_client *client, const char *name, constructor_fn *constructor)
{
    struct relock_lock *lock = NULL;
    int r = constructor(client, name, &lock);

    if (r == RELOCK_OK)
        r = relock_force_unlock(lock);
    relock_lock_free(lock);
    return r;
}

static int break_it(struct relock_client *client, const struct lock_row *row)
{
    int r;

    switch (row->kind) {
    case RELOCK_KIND_FAIR:
        return force(client, row->name, relock_fairlock_new);
    case RELOCK_KIND_FENCED:
        return force(client, row->name, relock_fencedlock_new);
    case RELOCK_KIND_PLAIN:
    case RELOCK_KIND_MAYBE_PLAIN:
        return force(client, row->name, relock_plainlock_new);
    case RELOCK_KIND_RW:
        r = force(client, row->name, relock_wrlock_new);
        return r == RELOCK_OK ? force(client, row->name, relock_rdlock_new) : r;
    default:
        return force(client, row->name, relock_lock_new);
    }
}

static int confirm_and_break(const struct args *args, struct relock_client *client,
                             const struct lock_row *row, bool is_sure)
{
    int r;

    if (row->kind == RELOCK_KIND_OTHER)
        args_refuse(args, "the key of this name is no lock");
    if (row->kind == RELOCK_KIND_FOREIGN)
        args_refuse(args, "this lock is of a library whose locks relock cannot release; delete its "
                          "key (DEL) if its holder is gone");
    if (row->kind == RELOCK_KIND_MAYBE_PLAIN && is_sure)
        args_refuse(args, "the key of this name may be no lock; break it without --yes");
    if (!lock_row_is_held(row)) {
        (void)fprintf(stderr, "relock break: the lock is free\n");
        return STATUS_OK;
    }
    if (!is_sure && !confirms(args, row)) {
        (void)fprintf(stderr, "relock break: not broken\n");
        return STATUS_NO;
    }
    if (!is_sure && !has_the_same_holder(client, row)) {
        (void)fprintf(stderr, "relock break: not broken, because it has another holder now\n");
        return STATUS_NO;
    }
    r = break_it(client, row);
    if (r != RELOCK_OK)
        return session_fail(args, "not broken", r);
    print_holder("relock break: broken; it was held by ", row, "\n");
    return STATUS_OK;
}

static int run_break(const struct command *self, int argc, char **argv)
{
    struct args args = {.command = self};
    struct lock_list list = {0};
    bool is_sure = false;
    const char *name = read_options(&args, &is_sure, argc, argv);
    struct relock_client *client = session_open(
        &args, &(struct relock_options){.connections = 1, .flags = RELOCK_ANNOUNCE_PLAIN});
    int r = lock_list_find_name(&list, client, name), status;

    status = r == RELOCK_OK ? confirm_and_break(&args, client, &list.rows[0], is_sure)
                            : session_fail(&args, name, r);
    lock_list_free(&list);
    relock_client_free(client);
    return status;
}

const struct command command_break = {
    "break",
    "free a lock that another owner holds",
    "Usage: relock break [OPTION]... NAME\n"
    "Frees the lock NAME, whoever holds it, and wakes the waiters. Of a read/write\n"
    "lock, this ends all holds of both sides. The holder mostly learns of the loss\n"
    "within milliseconds, at the latest at its next renewal, and may continue to work\n"
    "until then. The tool shows the holder and asks first; without a terminal, it\n"
    "needs --yes, and it then refuses a string that may be no lock (plain?).\n"
    "  -y, --yes                 do not ask\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: 0 if the lock is free now, 1 if the answer was no or the holder has\n"
    "changed, 125 if relock failed.\n",
    run_break,
};
