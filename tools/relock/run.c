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
#include "child.h"
#include "clock.h"
#include "hold.h"
#include "run_options.h"
#include "session.h"
#include "statuses.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    const struct run_options *options;
    struct relock_client *client;
    struct relock_lock *lock;
    struct hold hold;
    struct child child;
    bool was_lost;
    uint64_t kill_at_ms;    /* 0: not at all */
    uint64_t keep_until_ms; /* --once-per: do not release before; else 0 */
};

/* ---- the lock ------------------------------------------------------------------------------ */

static void say(const struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct run *run, const char *format, ...)
{
    va_list list;

    (void)fprintf(stderr, "relock run: %s: ", run->options->name);
    va_start(list, format);
    (void)vfprintf(stderr, format, list);
    va_end(list);
    (void)fputc('\n', stderr);
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

static int explain_refusal(const struct run *run, int result)
{
    if (result != RELOCK_BUSY && result != RELOCK_TIMEOUT)
        return session_fail(&run->options->args, run->options->name, result);
    if (run->options->period_ms == 0)
        say(run, "%s", relock_strerror(result));
    else if (run->options->args.is_verbose)
        say(run, "skipped: it ran in this period, or is running");
    return run->options->conflict_status;
}

/* Returns RELOCK_OK, or a failure and the exit status. */
static int acquire(struct run *run, int *status)
{
    const struct relock_how how = {
        .wait_ms = run->options->wait_ms,
        .lease_ms = run->options->period_ms / 10 * 9,
    };
    int number, r;

    *status = STATUS_FAILED;
    r = run->options->constructor(run->client, run->options->name, &run->lock);
    if (r != RELOCK_OK) {
        (void)session_fail(&run->options->args, run->options->name, r);
        return r;
    }
    if (!hold_begin(&run->hold, run->lock, &how, run->options->period_ms > 0)) {
        say(run, "the system lacks a thread or a descriptor");
        return RELOCK_E_NOMEM;
    }
    number = await_lock(run);
    r = hold_join(&run->hold);
    if (r != RELOCK_OK) {
        *status = number > 0 ? STATUS_OF_SIGNAL + number : explain_refusal(run, r);
        return r;
    }
    if (number > 0) {
        (void)hold_release(&run->hold);
        *status = STATUS_OF_SIGNAL + number;
        return RELOCK_CANCELLED;
    }
    if (how.lease_ms > 0)
        run->keep_until_ms = clock_ms() + how.lease_ms;
    return RELOCK_OK;
}

/* ---- the command --------------------------------------------------------------------------- */

static void set_environment(const struct run *run)
{
    char token[24];

    (void)setenv("RELOCK_NAME", run->options->name, 1);
    (void)unsetenv("RELOCK_TOKEN");
    if (run->hold.grant.fencing_token > 0) {
        (void)snprintf(token, sizeof(token), "%llu",
                       (unsigned long long)run->hold.grant.fencing_token);
        (void)setenv("RELOCK_TOKEN", token, 1);
    }
}

static void on_loss(struct run *run)
{
    const char *next = run->options->lost_signal == 0         ? "the command goes on without it"
                       : run->options->lost_signal == SIGKILL ? "the command is killed"
                                                              : "the command gets SIGTERM";
    uint64_t count;

    (void)!read(run->hold.lost_fd, &count, sizeof(count));
    say(run, "the lock was lost: %s; %s", hold_lost_text(&run->hold), next);
    run->was_lost = true;
    if (run->options->lost_signal == 0)
        return;
    child_signal(&run->child, run->options->lost_signal);
    child_signal(&run->child, SIGCONT); /* a stopped process has to hear the first one */
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
            say(run, "the command is still there and is killed");
            child_signal(&run->child, SIGKILL);
            run->kill_at_ms = 0;
        }
    }
}

static int explain_exec(const struct run *run, int error)
{
    say(run, "cannot execute %s: %s", run->options->command[0], strerror(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NO_EXEC;
}

/* Returns the exit status of the tool. Does not return if the lock is kept: freeing the client
 * would release it. */
static int run_command(struct run *run)
{
    int error, status, r = RELOCK_OK;
    bool is_kept;

    set_environment(run);
    error = child_start(&run->child, run->options->command, run->options->lost_signal);
    if (error != 0) {
        (void)hold_release(&run->hold);
        return explain_exec(run, error);
    }
    supervise(run);
    status = child_reap(&run->child, run->was_lost && run->options->lost_signal != 0);
    is_kept = clock_ms() < run->keep_until_ms;
    if (!is_kept)
        r = hold_release(&run->hold);
    else if (relock_check(run->lock, run->hold.how.owner, NULL) != RELOCK_OK)
        r = RELOCK_LOST;
    if (r == RELOCK_LOST && !run->was_lost)
        say(run, "the lock was lost before the command ended");
    else if (r < 0 && r != RELOCK_LOST)
        say(run, "not released, and held until its lease ends: %s", relock_strerror(r));
    if ((run->was_lost || r == RELOCK_LOST) && run->options->lost_signal != 0)
        status = STATUS_LOST;
    if (is_kept)
        _exit(status);
    return status;
}

static int run_run(const struct command *self, int argc, char **argv)
{
    struct run_options options;
    struct run run = {.options = &options};
    int status;

    run_options_read(&options, self, argc, argv);
    if (!child_listen(&run.child)) {
        say(&run, "the system lacks a descriptor");
        return STATUS_FAILED;
    }
    run.client = session_open(
        &options.args,
        &(struct relock_options){.watchdog_timeout_ms = options.lease_ms, .connections = 1});
    if (acquire(&run, &status) == RELOCK_OK)
        status = run_command(&run);
    relock_lock_free(run.lock);
    relock_client_free(run.client);
    if (status > STATUS_OF_SIGNAL && !run.child.pid && run.hold.result == RELOCK_CANCELLED)
        die_of(status - STATUS_OF_SIGNAL);
    return status;
}

const struct command command_run = {
    "run",
    "run a command while holding a lock",
    "Usage: relock run [OPTION]... NAME [--] COMMAND [ARGUMENT]...\n"
    "Acquires the lock NAME, runs COMMAND, and releases the lock when it ends.\n"
    "The environment of COMMAND has RELOCK_NAME and, with --fenced, RELOCK_TOKEN.\n"
    "  -w, --wait TIME           wait at most so long [for ever]; 0: one attempt\n"
    "  -l, --lease TIME          how long the lock outlives this machine [30s]\n"
    "      --fair | --fenced | --read | --write | --plain   the kind of lock\n"
    "      --on-lost term|kill|warn   what to do if the lock is lost [term]\n"
    "      --kill-after TIME     time from that SIGTERM to SIGKILL [10s]\n"
    "      --once-per TIME       for cron: at most once in TIME, on one machine;\n"
    "                            the others skip it, and exit with 0\n"
    "  -E, --conflict-exit-code N  the status if the lock is not free\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: that of COMMAND, or 128 + N if signal N ended it, or\n"
    "  123  the lock was lost, and COMMAND was ended (not with --on-lost warn)\n"
    "  124  another owner holds the lock, or it is reserved for a process that waits\n"
    "  125  relock failed: wrong usage, Redis unreachable, rights missing\n"
    "  126  COMMAND cannot be executed\n"
    "  127  COMMAND was not found\n",
    run_run,
};
