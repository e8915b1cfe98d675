/*
 * A program built with ThreadSanitizer, and the library without it: only races of the program are
 * reported. The program is tsan_user.c, and its path the first argument. A second one, "tls", tells
 * that the library has TLS.
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
static bool has_tls;

/* The exit status of a run, and the beginning of its output. */
struct outcome {
    int status;
    char text[4096];
};

struct run {
    const char *words[5]; /* up to the first NULL */
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

static struct outcome run_user(struct fixture *f, const char *url, const char *what,
                               const char *ca_file)
{
    struct run run = {.words = {program, url, what, ca_file}};
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
    struct outcome outcome = run_user(f, NULL, NULL, NULL);

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
    outcome = run_user(f, f->server->unix_url, NULL, NULL);
    if (outcome.status != EXIT_SUCCESS)
        fail_msg("it ended with %d:\n%s", outcome.status, outcome.text);
    assert_string_equal(outcome.text, "");
}

static void a_race_of_the_program_is_reported(void **state)
{
    struct fixture *f = *state;
    struct outcome outcome;

    skip_without_tsan(f);
    outcome = run_user(f, f->server->unix_url, "race", NULL);
    assert_int_equal(outcome.status, REPORTED);
    assert_non_null(strstr(outcome.text, "WARNING: ThreadSanitizer: data race"));
    assert_null(strstr(outcome.text, "librelock"));
}

/* OpenSSL, say, completes the certificate of a CA when the first connection needs it. */
static void nothing_is_reported_of_threads_that_connect_over_tls(void **state)
{
    struct fixture *f = *state;
    struct outcome outcome;

    skip_without_tsan(f);
    if (!has_tls)
        skip();
    outcome = run_user(f, f->server->tls_url, "tls", f->server->ca_file);
    if (outcome.status != EXIT_SUCCESS)
        fail_msg("it ended with %d:\n%s", outcome.status, outcome.text);
    assert_string_equal(outcome.text, "");
}

static int start(void **state)
{
    return fixture_start_with(state, &(struct server_options){.tls = has_tls});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(nothing_is_reported_of_a_program_without_races),
        FENCED_TEST(a_race_of_the_program_is_reported),
        FENCED_TEST(nothing_is_reported_of_threads_that_connect_over_tls),
    };

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s PROGRAM [tls]\n", argv[0]);
        return 2;
    }
    program = argv[1];
    has_tls = argc == 3;
    return cmocka_run_group_tests(tests, start, fixture_stop);
}
