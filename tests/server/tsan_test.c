/*
 * A program built with ThreadSanitizer, and the library without it: only races of the program are
 * reported. The program is tsan_user.c, and its path the argument.
 */
#include "support/child.h"
#include "support/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#define REPORTED 66
#define RUN_MS 60000

static const char *program;

/* The exit status of a run, and the beginning of its output. */
struct outcome {
    int status;
    char text[4096];
};

struct run {
    const char *words[4]; /* up to the first NULL */
    char log[128];
};

static int become_user(struct child *parent, void *arg)
{
    struct run *run = arg;
    int fd = open(run->log, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

    (void)parent;
    child_must(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    /* An older sanitizer does not know mappings as random as today's kernels make them. */
    (void)personality(ADDR_NO_RANDOMIZE);
    child_must(setenv("TSAN_OPTIONS", "exitcode=66", 1) == 0);
    execv(program, (char **)run->words);
    return CHILD_FAILED;
}

static struct outcome run_user(struct fixture *f, const char *url, const char *what)
{
    struct run run = {.words = {program, url, what}};
    struct outcome outcome = {0};
    FILE *log;

    snprintf(run.log, sizeof(run.log), "%s/tsan.log", f->server->dir);
    outcome.status = child_wait(child_start(become_user, &run), RUN_MS);
    log = fopen(run.log, "r");
    assert_non_null(log);
    (void)fread(outcome.text, 1, sizeof(outcome.text) - 1, log);
    fclose(log);
    unlink(run.log);
    return outcome;
}

/* Without a URL the program only says how it is used, if it runs at all. */
static void skip_without_tsan(struct fixture *f)
{
    struct outcome outcome = run_user(f, NULL, NULL);

    if (outcome.status != EXIT_FAILURE) {
        print_message("ThreadSanitizer does not run here: %s\n", outcome.text);
        skip();
    }
}

static void nothing_is_reported_of_a_program_without_races(void **state)
{
    struct fixture *f = *state;
    struct outcome outcome;

    skip_without_tsan(f);
    outcome = run_user(f, f->server->unix_url, NULL);
    if (outcome.status != EXIT_SUCCESS)
        fail_msg("it ended with %d:\n%s", outcome.status, outcome.text);
    assert_string_equal(outcome.text, "");
}

static void a_race_of_the_program_is_reported(void **state)
{
    struct fixture *f = *state;
    struct outcome outcome;

    skip_without_tsan(f);
    outcome = run_user(f, f->server->unix_url, "race");
    assert_int_equal(outcome.status, REPORTED);
    assert_non_null(strstr(outcome.text, "WARNING: ThreadSanitizer: data race"));
    assert_null(strstr(outcome.text, "librelock"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(nothing_is_reported_of_a_program_without_races),
        FENCED_TEST(a_race_of_the_program_is_reported),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s PROGRAM\n", argv[0]);
        return 2;
    }
    program = argv[1];
    return SERVER_TESTS_RUN(tests);
}
