/* The record of a process that did not run for a while. */
#include "pulse.h"
#include "schedule.h"
#include "support/child.h"
#include "support/late.h"
#include "support/wait.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NS_PER_MS 1000000
#define STOPPED_MS 600

static char dir[] = "/tmp/relock-pulse-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/history", dir);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    child_end_all();
    return unlink(path) == 0 && rmdir(dir) == 0 ? 0 : -1;
}

static int be_alive(struct child *parent, void *arg)
{
    struct history history;
    struct pulse pulse;

    (void)arg;
    history_open(&history, path);
    pulse_start(&pulse, &history, 3, 7);
    child_must(child_send(parent, getpid()));
    child_must(child_await(parent));
    pulse_stop(&pulse);
    history_close(&history);
    return EXIT_SUCCESS;
}

/* One record spans all of that time. */
static bool is_written(void *arg)
{
    const struct history_record *stopped = arg;
    struct history_records records = {0};
    bool found = false;

    history_read(&records, dir);
    for (size_t i = 0; i < records.n; i++) {
        const struct history_record *r = &records.at[i];

        found =
            found || (r->kind == HISTORY_FAULT && r->value == FAULT_STOP && r->slot == 3 &&
                      r->life == 7 && r->from_ns <= stopped->from_ns && r->to_ns >= stopped->to_ns);
    }
    history_free(&records);
    return found;
}

static void a_process_that_was_not_run_records_from_when_until_when(void **state)
{
    struct child *child = child_start(be_alive, NULL);
    struct history_record stopped;
    int64_t pid;
    int status;

    (void)state;
    assert_true(child_receive(child, &pid));
    child_signal(child, SIGSTOP);
    /* Until all its threads stand still, which may take a while. */
    assert_int_equal(waitpid((pid_t)pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    stopped.from_ns = history_now_ns();
    let_pass(STOPPED_MS);
    stopped.to_ns = history_now_ns();
    child_signal(child, SIGCONT);
    assert_true(wait_until(is_written, &stopped, SOON_MS));
    assert_true(child_send(child, 0));
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_was_not_run_records_from_when_until_when),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
