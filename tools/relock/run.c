/*
 * relock run - runs a command while it holds a lock
 *
 * The states, in order: the thread of hold.c waits for the lock; the command runs; the hold is
 * lost, and the command is being ended; the command has ended. The main thread hears signals in
 * each of them.
 *
 * With --once-per, the hold has a lease of nine tenths of the period and a further level that the
 * watchdog renews. If the command ends sooner, the tool exits without releasing the lock: what is
 * left of the lease keeps the other machines out.
 */
#include "ancestors.h"
#include "child.h"
#include "clock.h"
#include "hold.h"
#include "lock_list.h"
#include "run_options.h"
#include "session.h"
#include "statuses.h"
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_MS 100

struct run {
    const struct run_options *options;
    struct hold hold;
    struct child child;
    bool was_lost;
    bool keeps_quiet;       /* the loss is still to be told */
    bool ends_by_signal;    /* one ended the wait */
    uint64_t kill_at_ms;    /* 0: not at all */
    uint64_t keep_until_ms; /* --once-per: do not release before; else 0 */
};

/* ---- the lock ------------------------------------------------------------------------------ */

static void say(const struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct run *run, const char *format, ...)
{
    va_list list;

    text_begin("run", hold_title(&run->hold));
    va_start(list, format);
    (void)vfprintf(stderr, format, list);
    va_end(list);
    text_end();
}

/* Ends as a program without this handler would. */
static void die_of(int number)
{
    sigset_t set;

    (void)signal(number, SIG_DFL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)raise(number);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Waits until the wait is over. Returns 0, or the signal that came before. */
static int await_lock(struct run *run)
{
    struct pollfd fds[] = {{.fd = run->hold.over_fd, .events = POLLIN},
                           {.fd = run->child.signals_fd, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents) {
            int number = child_hear(&run->child);

            if (number > 0)
                return number;
        } else if (fds[0].revents) {
            return 0;
        }
    }
}

static const char *conflict_text(const struct run *run)
{
    return run->options->n_permits > 0
               ? "no permit is free, or it is kept for a process that waits"
               : "another owner holds the lock, or it is reserved for a process that waits";
}

/* The reason why the number is none of permits; NULL: none is known. */
static const char *find_other_use(const struct lock_row *row)
{
    if (row->kind == RELOCK_KIND_MAYBE_LATCH)
        return "is a latch, as its name says";
    if (row->kind == RELOCK_KIND_NUMBER && row->holder.ttl_ms > 0)
        return "expires, as the counter of a rate limiter does";
    return NULL;
}

/* A number that another program needs must not be overwritten because a message says so. */
static void say_other_number(const struct run *run)
{
    unsigned long long wanted = run->options->n_permits;
    long long number = (long long)run->hold.other_number;
    struct lock_list list = {0};
    const struct lock_row *row =
        lock_list_find_name(&list, run->hold.client, hold_title(&run->hold)) == RELOCK_OK
            ? list.rows
            : NULL;
    const char *other_use = row ? find_other_use(row) : NULL;
    char pass[48] = "";

    if (number > 0)
        (void)snprintf(pass, sizeof(pass), "pass --permits %lld, or ", number);
    if (other_use)
        say(run, "its key is the number %lld, which %s: use another name", number, other_use);
    else if (row &&
             (row->kind == RELOCK_KIND_SEMAPHORE || row->kind == RELOCK_KIND_MAYBE_SEMAPHORE))
        say(run, "its number of permits is %lld: %schange the number by --set-permits %llu", number,
            pass, wanted);
    else
        say(run,
            "its key is the number %lld: a semaphore that has all its permits, or the counter of "
            "another program. If it is a counter, use another name. Only if you know that it is a "
            "semaphore, %soverwrite the number by --set-permits %llu",
            number, pass, wanted);
    lock_list_free(&list);
}

/* A conflict, or a failure: the exit status. */
static int explain(struct run *run)
{
    const struct run_options *options = run->options;
    const char *refused = atomic_load(&run->hold.teller.refused), *obstacle = NULL;
    int r = run->hold.result;

    if (r == RELOCK_CANCELLED && refused) {
        text_begin("run", refused);
        (void)fprintf(stderr, "would wait for ever: %s (RELOCK_HOLDS)",
                      options->n_permits > 0
                          ? "processes that started this one have all its permits"
                          : "a process that started this one holds it");
        text_end();
        return STATUS_FAILED;
    }
    if (run->hold.has_other_number) {
        say_other_number(run);
        return STATUS_FAILED;
    }
    if (r == RELOCK_E_INVALID && !run->hold.client)
        args_refuse(&options->args, "the url or another setting is invalid");
    if (r == RELOCK_E_SERVER && run->hold.client)
        obstacle = hold_obstacle(&run->hold);
    if (obstacle) {
        say(run, "%s", obstacle);
        return STATUS_FAILED;
    }
    if (r != RELOCK_BUSY && r != RELOCK_TIMEOUT)
        return session_fail(&options->args,
                            run->hold.client ? hold_title(&run->hold) : "cannot connect", r);
    if (options->period_ms == 0 && !options->is_quiet)
        say(run, "%s%s", r == RELOCK_TIMEOUT ? "timed out: " : "", conflict_text(run));
    else if (options->args.is_verbose)
        say(run, "skipped: it ran in this period, or is running");
    return options->conflict_status;
}

/* Returns whether it is held; else there is an exit status. */
static bool acquire(struct run *run, int *status)
{
    int number, r;

    *status = STATUS_FAILED;
    if (!hold_begin(&run->hold, run->options)) {
        say(run, "the system lacks a thread or a descriptor");
        return false;
    }
    number = await_lock(run);
    if (!hold_stop(&run->hold) && number > 0) {
        die_of(number);
        _exit(STATUS_OF_SIGNAL + number); /* process 1 does not die of it */
    }
    r = hold_join(&run->hold);
    if (r == RELOCK_OK && number > 0)
        (void)hold_release(&run->hold);
    if (number > 0) {
        *status = STATUS_OF_SIGNAL + number;
        run->ends_by_signal = true;
    } else if (r != RELOCK_OK) {
        *status = explain(run);
    } else if (run->options->period_ms > 0) {
        run->keep_until_ms = clock_ms() + run->hold.how.lease_ms;
    }
    return number == 0 && r == RELOCK_OK;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Of a fenced lock; of several, in the order of their names. */
static void set_tokens(const struct run *run)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    for (size_t i = 0; out && i < run->options->n_names; i++) {
        struct relock_grant grant;

        (void)relock_check(run->hold.members[i], run->hold.how.owner, &grant);
        if (grant.fencing_token > 0)
            (void)fprintf(out, "%s%llu", i > 0 ? " " : "", (unsigned long long)grant.fencing_token);
    }
    if (out)
        (void)fclose(out);
    if (len > 0)
        (void)setenv("RELOCK_TOKEN", text, 1);
    else
        (void)unsetenv("RELOCK_TOKEN");
    free(text);
}

/* A plain lock has no sign of its client in Redis, and neither has a permit. */
static const char *find_hold(const struct run *run, size_t i, struct relock_holder *holder)
{
    if (run->options->n_permits > 0) {
        for (size_t k = 0; k < HOLD_PERMIT_ID; k++)
            (void)snprintf(holder->id + 2 * k, 3, "%02x", (unsigned)run->hold.permit_id[k]);
        return holder->id;
    }
    if (run->options->constructor != relock_plainlock_new)
        return relock_client_id(run->hold.client);
    return relock_who_holds(run->hold.members[i], holder) == RELOCK_OK ? holder->id : "";
}

static void set_environment(const struct run *run)
{
    const struct run_options *options = run->options;
    struct relock_holder holder;

    (void)setenv("RELOCK_NAME", options->title, 1);
    set_tokens(run);
    for (size_t i = 0; i < options->n_names; i++)
        (void)ancestors_add(find_hold(run, i, &holder), run->hold.settings.url, options->names[i]);
}

/* While the command runs: it is to end in time even if nobody reads stderr. */
static bool can_say(void)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&fd, 1, 0) != 0;
}

static const char *thing(const struct run *run)
{
    return run->options->n_permits > 0 ? "permit" : "lock";
}

static void say_loss(struct run *run)
{
    const char *next = run->options->lost_signal == 0         ? "the command goes on without it"
                       : run->options->lost_signal == SIGKILL ? "the command is killed"
                                                              : "the command gets SIGTERM";

    say(run, "the %s was lost: %s; %s", thing(run), hold_lost_text(&run->hold), next);
}

static void on_loss(struct run *run)
{
    uint64_t count;

    (void)!read(run->hold.lost_fd, &count, sizeof(count));
    run->was_lost = true;
    run->keeps_quiet = !can_say();
    if (!run->keeps_quiet)
        say_loss(run);
    if (run->options->lost_signal == 0)
        return;
    child_end(&run->child, run->options->lost_signal);
    child_end(&run->child, SIGCONT); /* a stopped process has to hear the first one */
    run->kill_at_ms = clock_ms() + run->options->grace_ms;
}

static int time_left(const struct run *run)
{
    uint64_t now_ms = clock_ms();

    if (run->kill_at_ms == 0)
        return -1;
    if (run->kill_at_ms <= now_ms)
        return 0;
    return run->kill_at_ms - now_ms < INT_MAX ? (int)(run->kill_at_ms - now_ms) : INT_MAX;
}

/* Until the command has ended. */
static void supervise(struct run *run)
{
    struct pollfd fds[] = {{.fd = run->child.signals_fd, .events = POLLIN},
                           {.fd = run->hold.lost_fd, .events = POLLIN}};

    for (;;) {
        int n = poll(fds, 2, time_left(run));

        if (n > 0 && fds[0].revents && child_hear(&run->child) == 0)
            return;
        if (n > 0 && fds[1].revents)
            on_loss(run);
        if (time_left(run) == 0) {
            if (can_say())
                say(run, "the command is still there and is killed");
            child_end(&run->child, SIGKILL);
            run->kill_at_ms = 0;
        }
    }
}

static int explain_exec(const struct run *run, int error)
{
    say(run, "cannot execute %s: %s", run->options->command[0], strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NO_EXEC;
}

/* After a shorter command, this machine might not be recorded as the one that ran it. */
static void outlast_record(const struct run *run)
{
    uint64_t held_ms = clock_ms() + run->hold.how.lease_ms - run->keep_until_ms;

    if (held_ms < RECORD_MS)
        (void)poll(NULL, 0, (int)(RECORD_MS - held_ms));
}

/* Returns the exit status of the tool. Does not return if the lock is kept: freeing the client
 * would release it. */
static int run_command(struct run *run)
{
    int number, error, status, r = RELOCK_OK;
    bool is_kept;

    set_environment(run);
    number = child_hear(&run->child); /* of the terminal, the command could not get it any more */
    if (number > 0) {
        (void)hold_release(&run->hold);
        run->ends_by_signal = true;
        return STATUS_OF_SIGNAL + number;
    }
    error = child_start(&run->child, run->options->command, run->options->lost_signal);
    if (error != 0) {
        (void)hold_release(&run->hold);
        return explain_exec(run, error);
    }
    supervise(run);
    status = child_reap(&run->child, run->was_lost && run->options->lost_signal != 0);
    if (run->keeps_quiet)
        say_loss(run);
    is_kept = clock_ms() < run->keep_until_ms;
    if (!is_kept)
        r = hold_release(&run->hold);
    else if (relock_check(run->hold.lock, run->hold.how.owner, NULL) != RELOCK_OK)
        r = RELOCK_LOST;
    if (r == RELOCK_LOST && !run->was_lost)
        say(run, "the %s was lost before the command ended", thing(run));
    else if (r < 0 && r != RELOCK_LOST)
        say(run, "not released, and held until its lease ends: %s", relock_strerror(r));
    if ((run->was_lost || r == RELOCK_LOST) && run->options->lost_signal != 0)
        status = STATUS_LOST;
    if (is_kept) {
        outlast_record(run);
        _exit(status);
    }
    return status;
}

static int run_run(const struct command *self, int argc, char **argv)
{
    struct run_options options;
    struct run run = {.options = &options, .hold.options = &options};
    int status;

    run_options_read(&options, self, argc, argv);
    if (!child_listen(&run.child)) {
        say(&run, "the system lacks a descriptor");
        return STATUS_FAILED;
    }
    if (acquire(&run, &status))
        status = run_command(&run);
    hold_end(&run.hold);
    if (run.ends_by_signal)
        die_of(status - STATUS_OF_SIGNAL);
    return status;
}

const struct command command_run = {
    "run",
    "run a command while holding a lock",
    "Usage: relock run [OPTION]... NAME [--] COMMAND [ARGUMENT]...\n"
    "       relock run [OPTION]... NAME... -- COMMAND [ARGUMENT]...\n"
    "       relock run [OPTION]... -c COMMAND NAME...\n"
    "Acquires the locks, runs COMMAND, and releases the locks.\n"
    "COMMAND gets RELOCK_NAME, RELOCK_HOLDS and, with --fenced, RELOCK_TOKEN.\n"
    "  -w, --wait TIME           wait at most so long, also for Redis [for ever]\n"
    "  -n, --nonblock            one attempt, as --wait 0\n"
    "  -c, --command COMMAND     for a shell; all words are names then\n"
    "  -q, --quiet               do not say that a lock is held, nor who holds it\n"
    "  -l, --lease TIME          how long the lock outlives this machine [30s]\n"
    "      --fair | --fenced | --read | --write | --plain   the kind of lock\n"
    "      --like LIBRARY        a plain lock that programs with LIBRARY use as NAME\n"
    "      --permits N           at most N run at a time; --set-permits N changes N\n"
    "      --on-lost term|kill|warn   what to do if the lock is lost [term]\n"
    "      --kill-after TIME     time from that SIGTERM to SIGKILL [10s]\n"
    "      --once-per TIME       once in TIME, on one machine; the others exit with 0\n"
    "  -E, --conflict-exit-code N  the status if the lock is not free [124]\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: that of COMMAND, or 128 + N if signal N ended it, or\n"
    "  123  the lock was lost, and COMMAND was ended (not with --on-lost warn)\n"
    "  124  the lock is held or reserved for a process that waits; no permit is free\n"
    "  125  relock failed    126  cannot execute COMMAND    127  COMMAND not found\n",
    run_run,
};
