/*
 * relock break - frees a lock that another owner holds
 *
 * The library deletes the key only while that owner's hold is in it, and tells the waiters. Client
 * tracking tells the holder, or else its next renewal finds out. A latch and an unleased semaphore
 * have no holders: the one is deleted, the other gets permits.
 */
#include "lock_list.h"
#include "session.h"
#include "statuses.h"
#include "text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BREAK_YES = 'y', BREAK_KIND = ARGS_OWN, BREAK_PERMIT, BREAK_PERMITS };

#define MOST_PERMITS 2147483647 /* as Redisson */

struct breaking {
    struct args args;
    const char *name;
    bool is_sure;
    enum said said;
    const char *permit; /* its id; NULL: all */
    unsigned n_permits; /* to be given back to an unleased semaphore */
    struct relock_client *client;
    struct lock_row *row; /* what is broken */
    bool was_out;         /* that permit, when it was taken back */
};

static void read_permit(struct breaking *breaking, const char *id)
{
    size_t len = strlen(id);

    if (len == 0)
        args_refuse(&breaking->args, "--permit: the id is empty, as from a variable that is not "
                                     "set. `relock status` shows the ids");
    if (len % 2 != 0 || len > RELOCK_PERMIT_HEX_MAX || strspn(id, "0123456789abcdef") != len)
        args_refuse(&breaking->args,
                    "--permit: `%s` is not the id of a permit: digits as in `relock status`", id);
    breaking->permit = id;
}

static void read_options(struct breaking *breaking, int argc, char **argv)
{
    static const struct option known[] = {{"yes", no_argument, NULL, BREAK_YES},
                                          {"kind", required_argument, NULL, BREAK_KIND},
                                          {"permit", required_argument, NULL, BREAK_PERMIT},
                                          {"permits", required_argument, NULL, BREAK_PERMITS},
                                          ARGS_OPTIONS};
    const struct args *args = &breaking->args;
    int letter;

    while ((letter = getopt_long(argc, argv, "y" ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == BREAK_YES)
            breaking->is_sure = true;
        else if (letter == BREAK_KIND)
            breaking->said = lock_list_said(args, optarg);
        else if (letter == BREAK_PERMIT)
            read_permit(breaking, optarg);
        else if (letter == BREAK_PERMITS)
            breaking->n_permits = args_number(args, "--permits", optarg, MOST_PERMITS);
        else
            args_take(&breaking->args, letter);
    if (optind + 1 != argc)
        args_refuse(args, "it takes the name of one lock");
    breaking->name = args_name(args, argv[optind]);
}

/* ---- what there is to break ---------------------------------------------------------------- */

struct sort {
    const char *nothing; /* the message if there is nothing to break */
    void (*ask)(const struct breaking *breaking);
    int (*act)(struct breaking *breaking);
    int (*report)(const struct breaking *breaking); /* what was done; the exit status */
};

static const char risk[] = ".\nThe holder may be working until it learns of this.\n";

static void print_holder(const char *before, const struct lock_row *row, const char *after)
{
    (void)fputs(before, stderr);
    text_print(stderr, lock_row_holder(row));
    (void)fputs(after, stderr);
}

/* ---- latches ------------------------------------------------------------------------------- */

static void ask_for_latch(const struct breaking *breaking)
{
    (void)fprintf(stderr, " is %s.\nAll that wait for it go on.\nDelete the latch? [y/N] ",
                  lock_row_state(breaking->row));
}

static int delete_latch(struct breaking *breaking)
{
    struct relock_latch *latch = NULL;
    int r = relock_latch_new(breaking->client, breaking->row->name, &latch);

    if (r == RELOCK_OK)
        r = relock_latch_delete(latch, NULL);
    relock_latch_free(latch);
    return r;
}

static int report_latch(const struct breaking *breaking)
{
    (void)fprintf(stderr, "relock break: deleted; it was %s\n", lock_row_state(breaking->row));
    return STATUS_OK;
}

static const struct sort latches = {"the latch is open", ask_for_latch, delete_latch, report_latch};

/* ---- unleased semaphores ------------------------------------------------------------------- */

static void ask_for_unleased(const struct breaking *breaking)
{
    (void)fprintf(
        stderr,
        " has %s.\nIts holders are not known: if they are not gone, more work at the same "
        "time.\nAdd %u? [y/N] ",
        lock_row_state(breaking->row), breaking->n_permits);
}

static int add_permits(struct breaking *breaking)
{
    struct relock_unleased *semaphore = NULL;
    int r = relock_unleased_new(breaking->client, breaking->row->name, &semaphore);

    if (r == RELOCK_OK)
        r = relock_unleased_add(semaphore, (int)breaking->n_permits);
    relock_unleased_free(semaphore);
    return r;
}

static int report_unleased(const struct breaking *breaking)
{
    (void)fprintf(stderr, "relock break: permits added: %u; it had %s\n", breaking->n_permits,
                  lock_row_state(breaking->row));
    return STATUS_OK;
}

static const struct sort unleased_semaphores = {"there is no such semaphore", ask_for_unleased,
                                                add_permits, report_unleased};

/* ---- semaphores ---------------------------------------------------------------------------- */

static void ask_for_permits(const struct breaking *breaking)
{
    (void)fprintf(stderr, " has %s", lock_row_state(breaking->row));
    print_holder(", with ", breaking->row, risk);
    (void)fprintf(stderr, "Take back %s? [y/N] ",
                  breaking->permit ? "those of this acquire" : "all of them");
}

/* Permits that are not there have come back meanwhile. */
static int take_back(struct breaking *breaking)
{
    const struct lock_row *row = breaking->row;
    struct relock_lock *lock = NULL;
    int r = relock_semaphore_new(breaking->client, row->name, &lock);

    if (r == RELOCK_OK && breaking->permit)
        r = relock_force_unlock_permit(lock, breaking->permit, &breaking->was_out);
    for (size_t i = 0; r == RELOCK_OK && !breaking->permit && i < row->n_permits; i++)
        r = relock_force_unlock_permit(lock, row->permits[i].id, NULL);
    relock_lock_free(lock);
    return r;
}

static int report_permits(const struct breaking *breaking)
{
    unsigned long long n_left = lock_row_n_unseen(breaking->row);

    if (breaking->permit) {
        (void)fputs(breaking->was_out ? "relock break: taken back: the permits of one acquire\n"
                                      : "relock break: this permit is not out\n",
                    stderr);
        return STATUS_OK;
    }
    print_holder("relock break: taken back; the holders were ", breaking->row, "\n");
    if (n_left == 0)
        return STATUS_OK;
    (void)fprintf(stderr, "relock break: permits that are still out: %llu; repeat the command\n",
                  n_left);
    return STATUS_NO;
}

static const struct sort semaphores = {"no permit is out", ask_for_permits, take_back,
                                       report_permits};

/* ---- locks --------------------------------------------------------------------------------- */

static void ask_for_lock(const struct breaking *breaking)
{
    print_holder(" is held by ", breaking->row, risk);
    (void)fputs("Break the lock? [y/N] ", stderr);
}

static int force(const struct breaking *breaking, constructor_fn *constructor)
{
    struct relock_lock *lock = NULL;
    int r = constructor(breaking->client, breaking->row->name, &lock);

    if (r == RELOCK_OK)
        r = relock_force_unlock(lock);
    relock_lock_free(lock);
    return r;
}

static int break_lock(struct breaking *breaking)
{
    int r;

    if (breaking->row->said == SAID_PLAIN)
        return force(breaking, relock_plainlock_new);
    switch (breaking->row->kind) {
    case RELOCK_KIND_FAIR:
        return force(breaking, relock_fairlock_new);
    case RELOCK_KIND_FENCED:
        return force(breaking, relock_fencedlock_new);
    case RELOCK_KIND_PLAIN:
    case RELOCK_KIND_MAYBE_PLAIN:
        return force(breaking, relock_plainlock_new);
    case RELOCK_KIND_RW:
        r = force(breaking, relock_wrlock_new);
        return r == RELOCK_OK ? force(breaking, relock_rdlock_new) : r;
    default:
        return force(breaking, relock_lock_new);
    }
}

static int report_lock(const struct breaking *breaking)
{
    print_holder("relock break: broken; it was held by ", breaking->row, "\n");
    return STATUS_OK;
}

static const struct sort locks = {"the lock is free", ask_for_lock, break_lock, report_lock};

static const struct sort *sort_of(const struct lock_row *row)
{
    static const struct sort *const sorts[] = {
        [SAID_NOTHING] = &locks,        [SAID_PLAIN] = &locks,
        [SAID_SEMAPHORE] = &semaphores, [SAID_UNLEASED] = &unleased_semaphores,
        [SAID_LATCH] = &latches,
    };

    return sorts[lock_row_sight(row)];
}

/* ---- the command --------------------------------------------------------------------------- */

/* Asks on the terminal. */
static bool confirms(const struct breaking *breaking)
{
    char answer[16] = "";

    if (!isatty(STDIN_FILENO))
        args_refuse(&breaking->args,
                    "there is no terminal to ask on; --yes breaks the lock without asking");
    text_print(stderr, breaking->row->name);
    sort_of(breaking->row)->ask(breaking);
    (void)fflush(stderr);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static bool is_semaphore(const struct lock_row *row)
{
    return lock_row_sight(row) == SAID_SEMAPHORE;
}

/* The answer was about one holder. Meanwhile there may be another. Of a semaphore, only the permits
 * that were there are taken back. */
static bool is_still_so(const struct breaking *breaking)
{
    const struct lock_row *row = breaking->row;
    struct lock_list now = {0};
    bool is_same = lock_list_find_name(&now, breaking->client, row->name) == RELOCK_OK &&
                   lock_row_say(&now.rows[0], breaking->said) &&
                   (is_semaphore(row) || (strcmp(now.rows[0].holder.id, row->holder.id) == 0 &&
                                          now.rows[0].number == row->number));

    lock_list_free(&now);
    return is_same;
}

/* Exits if that cannot be. */
static void refuse_what_cannot_be(const struct breaking *breaking)
{
    const struct args *args = &breaking->args;
    struct lock_row *row = breaking->row;

    if (!lock_row_say(row, breaking->said))
        args_refuse(args, "this name has no such key: it is `%s`", lock_row_kind(row));
    if (row->kind == RELOCK_KIND_OTHER)
        args_refuse(args, "the key of this name is no lock");
    if (row->kind == RELOCK_KIND_FOREIGN)
        args_refuse(args, "this lock is of a library whose locks relock cannot release; delete its "
                          "key (DEL) if its holder is gone");
    if (lock_row_is_unsaid(row))
        args_refuse(args,
                    "the key of this name is the number %lld: of a latch, a semaphore, a plain "
                    "lock, or no lock. Say which: --kind",
                    (long long)row->number);
    if (row->kind == RELOCK_KIND_MAYBE_PLAIN && breaking->is_sure && row->said == SAID_NOTHING)
        args_refuse(args, "the key of this name may be no lock; break it without --yes, or with "
                          "--kind plain");
    if (row->said == SAID_UNLEASED && breaking->n_permits == 0)
        args_refuse(args,
                    "an unleased semaphore has no holders and no leases, so nobody knows which "
                    "permits are lost; --permits N adds N");
    if (row->said != SAID_UNLEASED && breaking->n_permits > 0)
        args_refuse(args, "--permits is for --kind unleased alone");
    if (breaking->permit && !is_semaphore(row))
        args_refuse(args, "--permit is for semaphores alone");
}

/* Permits can be added to an unleased semaphore in any state. */
static bool is_nothing(const struct lock_row *row)
{
    return row->said == SAID_UNLEASED ? row->kind == RELOCK_KIND_NONE : !lock_row_is_held(row);
}

static int confirm_and_break(struct breaking *breaking)
{
    const struct sort *sort;
    int r;

    refuse_what_cannot_be(breaking);
    sort = sort_of(breaking->row);
    if (is_nothing(breaking->row)) {
        (void)fprintf(stderr, "relock break: %s\n", sort->nothing);
        return STATUS_OK;
    }
    if (!breaking->is_sure && !confirms(breaking)) {
        (void)fprintf(stderr, "relock break: not broken\n");
        return STATUS_NO;
    }
    if (!breaking->is_sure && !is_still_so(breaking)) {
        (void)fprintf(stderr, "relock break: not broken, because it has changed meanwhile\n");
        return STATUS_NO;
    }
    r = sort->act(breaking);
    return r == RELOCK_OK ? sort->report(breaking) : session_fail(&breaking->args, "not broken", r);
}

static int run_break(const struct command *self, int argc, char **argv)
{
    struct breaking breaking = {.args = {.command = self}};
    struct lock_list list = {0};
    int r, status;

    read_options(&breaking, argc, argv);
    breaking.client = session_open(
        &breaking.args, &(struct relock_options){.connections = 1, .flags = RELOCK_ANNOUNCE_PLAIN});
    r = lock_list_find_name(&list, breaking.client, breaking.name);
    breaking.row = list.rows;
    status = r == RELOCK_OK ? confirm_and_break(&breaking)
                            : session_fail(&breaking.args, breaking.name, r);
    lock_list_free(&list);
    relock_client_free(breaking.client);
    return status;
}

const struct command command_break = {
    "break",
    "free a lock that another owner holds",
    "Usage: relock break [OPTION]... NAME\n"
    "Frees the lock NAME, whoever holds it, and wakes the waiters. Of a read/write\n"
    "lock, this ends all holds of both sides; of a semaphore, all permits come back.\n"
    "The holder mostly learns of the loss within milliseconds, at the latest at its\n"
    "next renewal, and may continue to work until then. The tool shows the holder\n"
    "and asks first; without a terminal, it needs --yes, and it then refuses a string\n"
    "that may be no lock (plain?).\n"
    "  -y, --yes                 do not ask\n"
    "      --permit ID           of a semaphore, only the permits of one acquire:\n"
    "                            `relock status` shows the ids\n"
    "      --kind KIND           what a key with a number is: needed for a `latch`,\n"
    "                            which is deleted, so all that wait for it go on; for\n"
    "                            `unleased`; and for a `plain` lock with a number\n"
    "      --permits N           adds N to an unleased semaphore, whose holders\n"
    "                            nobody knows: as many as crashes have lost\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: 0 if the lock is free now, 1 if the answer was no or the holder has\n"
    "changed, 125 if relock failed.\n",
    run_break,
};
