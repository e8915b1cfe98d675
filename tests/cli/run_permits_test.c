/* relock run --permits: at most N commands at a time. */
#include "cli/tool.h"
#include "support/actor.h"
#include "support/rights.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "orders"
#define OUT "{orders}:timeout"
#define OTHER "orders:2"
#define SHORT_MS 500

#define RUNNING "echo started; while :; do sleep 0.05; done"

/* A run that ends by a signal. */
#define run_one(f, n) tool_start((f), "run", "--permits", (n), NAME, "--", "sh", "-c", RUNNING)

static void end_run(struct tool *tool)
{
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    while ((text = strstr(text, word))) {
        n++;
        text += strlen(word);
    }
    return n;
}

/* All permits are back, and nothing else is left. */
static void forget(struct fixture *f, long long n)
{
    assert_int_equal(probe_int(f->probe, "GET " NAME), n);
    assert_int_equal(probe_int(f->probe, "DEL " NAME), 1);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* ---- at most N ----------------------------------------------------------------------------- */

/* Takes a permit, says so in the log, and takes it back: `+` and `-` stand in order of time. */
static struct tool *start_logged(struct fixture *f, const char *log)
{
    return tool_start(f, "run", "--permits", "3", NAME, "--", "sh", "-c",
                      "echo + >>\"$0\"; sleep 0.1; echo - >>\"$0\"", log);
}

static int most_at_once(const char *path, int *n_starts)
{
    FILE *log = fopen(path, "re");
    int most = 0, now = 0, mark;

    assert_non_null(log);
    *n_starts = 0;
    while ((mark = fgetc(log)) != EOF) {
        now += mark == '+' ? 1 : mark == '-' ? -1 : 0;
        *n_starts += mark == '+';
        most = now > most ? now : most;
    }
    assert_int_equal(fclose(log), 0);
    assert_int_equal(now, 0);
    return most;
}

/* All of them also start at once, without a number in Redis. */
static void of_many_commands_at_most_n_run_at_a_time(void **state)
{
    struct fixture *f = *state;
    struct tool *tools[12];
    char log[128];
    int n_starts;

    (void)snprintf(log, sizeof(log), "%s/runs", f->server->dir);
    for (int i = 0; i < 12; i++)
        tools[i] = start_logged(f, log);
    for (int i = 0; i < 12; i++)
        assert_int_equal(tool_wait(tools[i]), 0);
    assert_in_range(most_at_once(log, &n_starts), 1, 3);
    assert_int_equal(n_starts, 12);
    forget(f, 3);
}

/* Names three of the holders. */
static void n_run_at_once_and_the_next_one_waits(void **state)
{
    struct fixture *f = *state;
    struct tool *tools[4], *next;
    char host[HOST_NAME_MAX + 1] = "", wanted[HOST_NAME_MAX + 80];
    const char *said;

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    (void)snprintf(wanted, sizeof(wanted),
                   NAME ": waiting: 4 of 4 permits are out, held by %s:", host);
    for (int i = 0; i < 4; i++)
        tools[i] = run_one(f, "4");
    for (int i = 0; i < 4; i++)
        assert_true(tool_says(tools[i], "started"));
    next = run_one(f, "4");
    assert_true(tool_says(next, wanted));
    assert_true(tool_says(next, " and 1 more\n"));
    said = strstr(tool_err(next), wanted);
    (void)snprintf(wanted, sizeof(wanted), ", %s:", host);
    assert_int_equal(count(said, wanted), 2);
    assert_true(probe_wait_in_line(f->probe, NAME, 1));
    assert_string_equal(tool_out(next), "");
    let_pass(SHORT_MS); /* for further looks */
    end_run(tools[0]);
    assert_true(tool_says(next, "started"));
    for (int i = 1; i < 4; i++)
        end_run(tools[i]);
    end_run(next);
    assert_int_equal(count(tool_err(next), "waiting"), 1);
    forget(f, 4);
}

static void without_a_free_permit_it_is_a_conflict(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = run_one(f, "1"), *tool;

    assert_true(tool_says(holder, "started"));
    tool = tool_start(f, "run", "-n", "--permits", "1", NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 124);
    assert_string_equal(tool_err(tool), "relock run: " NAME ": no permit is free, or it is kept "
                                        "for a process that waits\n");
    tool = tool_start(f, "run", "-w", "500ms", "--permits", "1", NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 124);
    assert_non_null(strstr(tool_err(tool), "timed out: no permit is free"));
    tool = tool_start(f, "run", "-q", "-w", "500ms", "-E", "9", "--permits", "1", NAME, "echo");
    assert_int_equal(tool_wait(tool), 9);
    assert_string_equal(tool_err(tool), "");
    end_run(holder);
    forget(f, 1);
}

static void ctrl_c_ends_a_wait_for_a_permit(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = run_one(f, "1"), *tool;

    assert_true(tool_says(holder, "started"));
    tool = run_one(f, "1");
    assert_true(probe_wait_in_line(f->probe, NAME, 1));
    tool_signal_group(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
    assert_string_equal(tool_out(tool), "");
    end_run(holder);
    forget(f, 1);
}

static void the_command_knows_its_permit(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--permits", "1", NAME, "--", "sh", "-c",
                                   "echo \"$RELOCK_NAME $RELOCK_HOLDS\"; echo ${RELOCK_TOKEN-no}; "
                                   "sleep 600");
    char wanted[64];

    assert_true(tool_says(tool, "no\n"));
    (void)snprintf(wanted, sizeof(wanted), NAME " %s\t",
                   probe_text(f->probe, "EVAL %s 1 " OUT,
                              "return (redis.call('zrange', KEYS[1], 0, 0)[1]:gsub('.', "
                              "function(b) return string.format('%02x', b:byte()) end))"));
    assert_memory_equal(tool_out(tool), wanted, strlen(wanted));
    assert_non_null(strstr(tool_out(tool), "\t" NAME "\n"));
    end_run(tool);
    forget(f, 1);
}

/* ---- the number of permits ----------------------------------------------------------------- */

static void another_number_is_refused_and_can_be_changed(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = run_one(f, "3"), *tool, *other;

    assert_true(tool_says(holder, "started"));
    tool = tool_start(f, "run", "--permits", "2", NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_string_equal(tool_out(tool), "");
    assert_string_equal(tool_err(tool),
                        "relock run: " NAME ": its number of permits is 3: pass --permits 3, or "
                        "change the number by --set-permits 2\n");
    assert_int_equal(probe_int(f->probe, "GET " NAME), 2);

    /* One is out, so there is one more. */
    tool = tool_start(f, "run", "--set-permits", "2", NAME, "--", "sh", "-c", RUNNING);
    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "GET " NAME), 0);
    assert_tool(f, 125, "run", "-n", "--permits", "3", NAME, "--", "true");
    other = tool_start(f, "run", "-n", "--permits", "2", NAME, "--", "true");
    assert_int_equal(tool_wait(other), 124);
    end_run(holder);
    end_run(tool);
    forget(f, 2);
}

/* A run that waits for the one permit, and notices an outage soon. */
static struct tool *wait_for_one(struct fixture *f)
{
    struct tool *tool;

    assert_int_equal(setenv("RELOCK_COMMAND_TIMEOUT", "500ms", 1), 0);
    tool = tool_start(f, "run", "--permits", "1", NAME, "--", "echo", "ran");
    unsetenv("RELOCK_COMMAND_TIMEOUT");
    assert_true(tool_says(tool, "1 of 1 permits are out"));
    return tool;
}

/* Its number comes back, too. */
static void a_restart_without_data_ends_no_wait(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = run_one(f, "1"), *tool;

    assert_true(tool_says(holder, "started"));
    tool = wait_for_one(f);
    server_forget(f->server);
    assert_true(tool_says(tool, "trying again"));
    let_pass(3 * SHORT_MS); /* for further attempts */
    server_restart(f->server);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
    assert_true(count(tool_err(tool), "not read or set") + count(tool_err(tool), "not acquired") <=
                1);
    assert_int_equal(tool_wait(holder), 123);
    assert_non_null(strstr(tool_err(holder), "the permit was lost"));
    forget(f, 1);
}

static void a_restart_with_its_data_costs_no_permit(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = run_one(f, "1"), *tool;

    assert_true(tool_says(holder, "started"));
    tool = wait_for_one(f);
    server_kill(f->server);
    assert_true(tool_says(tool, "trying again"));
    server_restart(f->server);
    assert_true(probe_wait_in_line(f->probe, NAME, 1));
    assert_int_equal(probe_int(f->probe, "ZCARD " OUT), 1);
    assert_string_equal(tool_out(tool), "");
    end_run(holder);
    assert_null(strstr(tool_err(holder), "lost"));
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
    forget(f, 1);
}

/* Another program has changed it during the wait. An outage then has the run agree again. */
static void the_number_is_changed_once(void **state)
{
    struct fixture *f = *state;
    struct tool *holders[2] = {run_one(f, "2"), run_one(f, "2")}, *tool;

    assert_true(tool_says(holders[0], "started"));
    assert_true(tool_says(holders[1], "started"));
    assert_int_equal(setenv("RELOCK_COMMAND_TIMEOUT", "500ms", 1), 0);
    tool = tool_start(f, "run", "--set-permits", "2", NAME, "--", "echo", "ran");
    unsetenv("RELOCK_COMMAND_TIMEOUT");
    assert_true(tool_says(tool, "2 of 2 permits are out"));
    assert_tool(f, 124, "run", "-n", "--set-permits", "1", NAME, "--", "true");
    server_kill(f->server);
    assert_true(tool_says(tool, "trying again"));
    server_restart(f->server);
    assert_true(probe_wait_in_line(f->probe, NAME, 1));
    assert_int_equal(probe_int(f->probe, "GET " NAME), -1);
    end_run(holders[0]);
    end_run(holders[1]);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
    forget(f, 1);
}

/* Somebody counts with it: no message is to make a reader overwrite it. */
static void a_counter_of_another_program_is_not_offered_for_overwriting(void **state)
{
    static const struct {
        const char *name, *set, *said;
    } all[] = {
        {"hits", "SET hits 42",
         "relock run: hits: its key is the number 42: a semaphore that has all its permits, or the "
         "counter of another program. If it is a counter, use another name. Only if you know that "
         "it is a semaphore, pass --permits 42, or overwrite the number by --set-permits 3\n"},
        {"rate", "SET rate 42 EX 1000",
         "relock run: rate: its key is the number 42, which expires, as the counter of a rate "
         "limiter does: use another name\n"},
        {"start:latch", "SET start:latch 42",
         "relock run: start:latch: its key is the number 42, which is a latch, as its name says: "
         "use another name\n"},
        {"semaphore:film", "SET semaphore:film 42",
         "relock run: semaphore:film: its number of permits is 42: pass --permits 42, or change "
         "the number by --set-permits 3\n"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct tool *tool;

        probe_text(f->probe, all[i].set);
        tool = tool_start(f, "run", "--permits", "3", all[i].name, "--", "true");
        assert_int_equal(tool_wait(tool), 125);
        assert_string_equal(tool_err(tool), all[i].said);
        assert_int_equal(probe_int(f->probe, "GET %s", all[i].name), 42);
        assert_int_equal(probe_int(f->probe, "DEL %s", all[i].name), 1);
    }
}

/* A program has closed it, say. No run can have this number. */
static void a_number_below_one_can_only_be_changed(void **state)
{
    static const char *const numbers[] = {"0", "-5"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        struct tool *tool;
        char wanted[128];

        probe_text(f->probe, "SET " NAME " %s", numbers[i]);
        tool = tool_start(f, "run", "--permits", "3", NAME, "--", "true");
        assert_int_equal(tool_wait(tool), 125);
        (void)snprintf(wanted, sizeof(wanted),
                       "relock run: " NAME ": its key is the number %s: a semaphore that ",
                       numbers[i]);
        assert_int_equal(strncmp(tool_err(tool), wanted, strlen(wanted)), 0);
        assert_null(strstr(tool_err(tool), "pass --permits"));
        assert_non_null(strstr(tool_err(tool), " overwrite the number by --set-permits 3\n"));
    }
    assert_tool(f, 0, "run", "--set-permits", "3", NAME, "--", "true");
    forget(f, 3);
}

/* An operator, or an eviction. */
static void a_semaphore_that_is_deleted_during_the_wait_gets_its_number_again(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = tool_start(f, "run", "--on-lost", "warn", "--permits", "1", NAME, "--",
                                     "sh", "-c", RUNNING);
    struct tool *tool;

    assert_true(tool_says(holder, "started"));
    assert_int_equal(setenv("RELOCK_RECHECK", "100ms", 1), 0);
    tool = tool_start(f, "run", "--permits", "1", NAME, "--", "echo", "ran");
    unsetenv("RELOCK_RECHECK");
    assert_true(tool_says(tool, "1 of 1 permits are out"));
    assert_int_equal(probe_int(f->probe, "DEL " NAME " " OUT), 2);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
    end_run(holder);
    forget(f, 1);
}

static void a_name_with_other_data_is_refused(void **state)
{
    struct fixture *f = *state;
    struct tool *holder, *tool;

    assert_int_equal(probe_int(f->probe, "RPUSH " NAME " x"), 1);
    tool = tool_start(f, "run", "--permits", "1", NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), NAME ": its key has data that is no semaphore"));
    assert_null(strstr(tool_err(tool), "trying again"));
    assert_int_equal(probe_int(f->probe, "DEL " NAME), 1);
    holder = tool_start(f, "run", NAME, "--", "sh", "-c", RUNNING);
    assert_true(tool_says(holder, "started"));
    tool = tool_start(f, "run", "--permits", "1", NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "such as a lock of another kind: use another name"));
    assert_null(strstr(tool_err(tool), "or delete the key"));
    end_run(holder);
    assert_tool(f, 0, "run", "--permits", "1", NAME, "--", "true");
    tool = tool_start(f, "run", NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), NAME ": its key is a number"));
    assert_null(strstr(tool_err(tool), "trying again"));
    assert_int_equal(count(tool_err(tool), "WRONGTYPE"), 1);
    assert_true(tool_wrote_whole_lines(tool));
    forget(f, 1);
}

/* ---- the end of a permit ------------------------------------------------------------------- */

/* How long the permit is out if nobody renews it. */
static long long rest_ms(struct fixture *f)
{
    return probe_int(f->probe, "EVAL %s 1 " OUT,
                     "local time = redis.call('time') "
                     "return redis.call('zrange', KEYS[1], 0, 0, 'withscores')[2] "
                     "- time[1] * 1000 - math.floor(time[2] / 1000)");
}

static void the_permit_of_a_killed_tool_comes_back_after_its_lease(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = tool_start(f, "run", "--lease", tool_lease(), "--permits", "1", NAME,
                                     "--", "sh", "-c", RUNNING);
    struct tool *tool;
    uint64_t killed_ms;
    long long out_ms;

    assert_true(tool_says(holder, "started"));
    tool = run_one(f, "1");
    assert_true(probe_wait_in_line(f->probe, NAME, 1));
    tool_signal(holder, SIGKILL);
    killed_ms = now_ms();
    out_ms = rest_ms(f);
    assert_true(out_ms > 0);
    assert_true(tool_says(tool, "started"));
    assert_true(now_ms() - killed_ms + TWO_CLOCKS_MS >= (uint64_t)out_ms);
    assert_int_equal(tool_wait(holder), 128 + SIGKILL);
    end_run(tool);
    forget(f, 1);
}

static void a_permit_that_is_taken_back_ends_the_command(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--permits", "2", NAME, "--", "sh", "-c",
                                   "trap 'echo ending; exit 0' TERM; " RUNNING);
    struct relock_lock *lock =
        fixture_lock_of(f, fixture_client(f, NULL), NAME, relock_semaphore_new);

    assert_true(tool_says(tool, "started"));
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(tool_wait(tool), 123);
    assert_non_null(strstr(tool_out(tool), "ending"));
    assert_non_null(strstr(tool_err(tool), NAME ": the permit was lost: it is gone: it was broken "
                                                "or deleted, or the server lost its data; the "
                                                "command gets SIGTERM\n"));
    forget(f, 2);
}

static void on_a_terminal_a_loss_ends_the_group(void **state)
{
    struct fixture *f = *state;
    const char *const words[] = {"run",
                                 "outer",
                                 "--",
                                 "sh",
                                 "-c",
                                 RELOCK_TOOL
                                 " run --permits 1 " NAME
                                 " -- sh -c 'trap : TERM; sh -c \"trap \\\"echo inner ends; exit 0"
                                 "\\\" TERM; " RUNNING "\" & wait; wait'; echo status $?",
                                 NULL};
    struct tool *tool = tool_start_words(f, true, words);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL " OUT), 1);
    assert_true(tool_says(tool, "inner ends"));
    assert_true(tool_says(tool, "status 123"));
    assert_int_equal(tool_wait(tool), 0);
    assert_int_equal(probe_int(f->probe, "DEL " NAME), 1);
}

/* ---- permits of ancestors ------------------------------------------------------------------ */

#define NESTED RELOCK_TOOL, "run", "--permits"

static void the_last_permit_of_ancestors_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    tool =
        tool_start(f, "run", "--permits", "1", NAME, "--", NESTED, "1", NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_string_equal(tool_out(tool), "");
    assert_non_null(strstr(tool_err(tool), NAME ": would wait for ever: processes that started "
                                                "this one have all its permits"));
    forget(f, 1);
    tool = tool_start(f, "run", "--permits", "2", NAME, "--", NESTED, "2", NAME, "--", NESTED, "2",
                      NAME, "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "would wait for ever"));
    forget(f, 2);
}

static void a_permit_beside_those_of_ancestors_is_acquired(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--permits", "2", NAME, "--", NESTED, "2", NAME, "--",
                                   "sh", "-c", "echo \"$RELOCK_HOLDS\" | wc -l");

    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "2\n");
    forget(f, 2);
}

/* The other permit is not the ancestor's, and comes back. The lease of the ancestor's ends first,
 * so that is the one that Redis names. */
static void a_permit_of_a_stranger_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct tool *stranger =
        tool_start(f, "run", "--lease", "10m", "--permits", "2", NAME, "--", "sh", "-c", RUNNING);
    struct tool *tool;

    assert_true(tool_says(stranger, "started"));
    tool =
        tool_start(f, "run", "--permits", "2", NAME, "--", NESTED, "2", NAME, "--", "echo", "ran");
    assert_true(tool_says(tool, "2 of 2 permits are out"));
    assert_true(probe_wait_in_line(f->probe, NAME, 1));
    let_pass(SHORT_MS); /* for further looks */
    end_run(stranger);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
    forget(f, 2);
}

#define ON_USR1 \
    "trap go=1 USR1; echo started; while [ -z \"$go\" ]; do sleep 0.05; done; exec " RELOCK_TOOL

/* Another client is first in line and wants both. It may give up. */
static void a_permit_that_is_not_an_ancestors_is_waited_for(void **state)
{
    const struct relock_how both = {.permits = 2, .wait_ms = NEVER_MS};
    struct fixture *f = *state;
    struct relock_lock *lock =
        fixture_lock_of(f, fixture_client(f, NULL), NAME, relock_semaphore_new);
    struct actor *first = actor_start();
    struct tool *tool = tool_start(f, "run", "--permits", "2", NAME, "--", "sh", "-c",
                                   ON_USR1 " run -w 2s --permits 2 " NAME " -- echo ran");

    assert_true(tool_says(tool, "started"));
    actor_begin_acquire(first, lock, &both);
    assert_true(probe_wait_in_line(f->probe, NAME, 1));
    tool_signal(tool, SIGUSR1);
    assert_int_equal(tool_wait(tool), 124);
    assert_non_null(strstr(tool_err(tool), "1 of 2 permits are out"));
    assert_null(strstr(tool_err(tool), "would wait for ever"));
    assert_result(actor_result(first), RELOCK_OK);
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    forget(f, 2);
}

/* A stranger has it, and releases it some time. */
static void a_permit_that_an_ancestor_has_lost_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock =
        fixture_lock_of(f, fixture_client(f, NULL), NAME, relock_semaphore_new);
    struct tool *tool =
        tool_start(f, "run", "--on-lost", "warn", "--permits", "2", NAME, "--", NESTED, "2", NAME,
                   "--", "sh", "-c", ON_USR1 " run -w 2s --permits 2 " NAME " -- echo ran");
    struct tool *stranger;

    assert_true(tool_says(tool, "started"));
    assert_result(relock_force_unlock(lock), RELOCK_OK); /* the first of the two */
    assert_true(tool_says(tool, "the permit was lost"));
    stranger =
        tool_start(f, "run", "--lease", "10m", "--permits", "2", NAME, "--", "sh", "-c", RUNNING);
    assert_true(tool_says(stranger, "started"));
    tool_signal(tool, SIGUSR1);
    assert_int_equal(tool_wait(tool), 124);
    assert_non_null(strstr(tool_err(tool), "2 of 2 permits are out"));
    assert_null(strstr(tool_err(tool), "would wait for ever"));
    end_run(stranger);
    forget(f, 2);
}

/* ---- usage and rights ---------------------------------------------------------------------- */

static void what_makes_no_sense_with_permits_is_refused(void **state)
{
    static const char *const runs[][8] = {
        {"run", "--permits", "0", NAME, "true"},
        {"run", "--permits", "some", NAME, "true"},
        {"run", "--permits", "2147483648", NAME, "true"},
        {"run", "--permits", "3", "--fair", NAME, "true"},
        {"run", "--plain", "--permits", "3", NAME, "true"},
        {"run", "--like", "redis-py", "--permits", "3", NAME, "true"},
        {"run", "--permits", "3", "--like", "redis-py", NAME, "true"},
        {"run", "--permits", "3", "--once-per", "1h", NAME, "true"},
        {"run", "--permits", "3", NAME, "invoices", "--", "true"},
        {"run", "--set-permits", "0", NAME, "true"},
    };
    static const char *const why[] = {"--permits: at least 1",
                                      "is no number up to 2147483647",
                                      "is no number up to 2147483647",
                                      "only one of --fair",
                                      "only one of --fair",
                                      "only one of --fair",
                                      "only one of --fair",
                                      "--once-per is for one machine",
                                      "--permits takes one name",
                                      "--set-permits: at least 1"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        struct tool *tool = tool_start_words(f, false, runs[i]);

        assert_int_equal(tool_wait(tool), 125);
        assert_non_null(strstr(tool_err(tool), why[i]));
    }
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* A run that waits for the one permit, as a user with these rights. */
static struct tool *wait_as(struct fixture *f, const char *rights)
{
    struct tool *tool;

    rights_give(f, rights, NULL);
    assert_int_equal(setenv("RELOCK_USER", RIGHTS_USER, 1), 0);
    assert_int_equal(setenv("RELOCK_PASSWORD", RIGHTS_PASSWORD, 1), 0);
    tool = tool_start(f, "run", "--permits", "1", NAME, "--", "echo", "ran");
    assert_true(tool_says(tool, "1 of 1 permits are out, held by "));
    return tool;
}

static void forget_user(struct fixture *f)
{
    unsetenv("RELOCK_USER");
    unsetenv("RELOCK_PASSWORD");
    assert_int_equal(probe_int(f->probe, "ACL DELUSER " RIGHTS_USER), 1);
}

/* Those that `relock acl semaphore` prints. Only the name of the holder stays unknown. */
static void the_rights_to_semaphores_suffice(void **state)
{
    struct fixture *f = *state;
    struct tool *holder =
        tool_start(f, "run", "--set-permits", "1", NAME, "--", "sh", "-c", RUNNING);
    struct tool *tool, *nested;

    assert_true(tool_says(holder, "started"));
    tool = wait_as(f, "semaphore");
    assert_tool(f, 125, "run", "--permits", "1", "stock", "--", "true");
    nested = tool_start(f, "run", "--permits", "1", OTHER, "--", NESTED, "1", OTHER, "--", "true");
    assert_int_equal(tool_wait(nested), 125);
    assert_non_null(strstr(tool_err(nested), "would wait for ever"));
    end_run(holder);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
    assert_null(strstr(tool_err(tool), "warning"));
    assert_null(strstr(tool_err(nested), "warning"));
    forget_user(f);
    assert_int_equal(probe_int(f->probe, "DEL " OTHER), 1);
    forget(f, 1);
}

static void an_operator_sees_the_names_of_the_holders(void **state)
{
    struct fixture *f = *state;
    char host[HOST_NAME_MAX + 1] = "", wanted[HOST_NAME_MAX + 40];
    struct tool *holder = run_one(f, "1"), *tool;

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    (void)snprintf(wanted, sizeof(wanted), "held by %s:", host);
    assert_true(tool_says(holder, "started"));
    tool = wait_as(f, "semaphore --operator");
    assert_true(tool_says(tool, wanted));
    end_run(holder);
    assert_int_equal(tool_wait(tool), 0);
    forget_user(f);
    forget(f, 1);
}

static int start(void **state)
{
    return fixture_start_with(state, &(struct server_options){.keeps_data = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(of_many_commands_at_most_n_run_at_a_time),
        TOOL_TEST(n_run_at_once_and_the_next_one_waits),
        TOOL_TEST(without_a_free_permit_it_is_a_conflict),
        TOOL_TEST(ctrl_c_ends_a_wait_for_a_permit),
        TOOL_TEST(the_command_knows_its_permit),
        TOOL_TEST(another_number_is_refused_and_can_be_changed),
        TOOL_TEST(the_number_is_changed_once),
        TOOL_TEST(a_number_below_one_can_only_be_changed),
        TOOL_TEST(a_counter_of_another_program_is_not_offered_for_overwriting),
        TOOL_TEST(a_restart_without_data_ends_no_wait),
        TOOL_TEST(a_restart_with_its_data_costs_no_permit),
        TOOL_TEST(a_semaphore_that_is_deleted_during_the_wait_gets_its_number_again),
        TOOL_TEST(a_name_with_other_data_is_refused),
        TOOL_TEST(the_permit_of_a_killed_tool_comes_back_after_its_lease),
        TOOL_TEST(a_permit_that_is_taken_back_ends_the_command),
        TOOL_TEST(on_a_terminal_a_loss_ends_the_group),
        TOOL_TEST(the_last_permit_of_ancestors_is_not_waited_for),
        TOOL_TEST(a_permit_beside_those_of_ancestors_is_acquired),
        TOOL_TEST(a_permit_of_a_stranger_is_waited_for),
        TOOL_TEST(a_permit_that_is_not_an_ancestors_is_waited_for),
        TOOL_TEST(a_permit_that_an_ancestor_has_lost_is_waited_for),
        TOOL_TEST(what_makes_no_sense_with_permits_is_refused),
        TOOL_TEST(the_rights_to_semaphores_suffice),
        TOOL_TEST(an_operator_sees_the_names_of_the_holders),
    };

    return cmocka_run_group_tests(tests, start, fixture_stop);
}
