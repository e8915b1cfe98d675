/* The settings of the tool: passwords that nobody sees, and colours. */
#include "cli/tool.h"
#include "support/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 30000
#define USER "locker"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* One run as this user, with these variables, which may be NULL. */
static int run_with(struct fixture *f, const char *password, const char *file)
{
    struct tool *tool;
    int status;

    assert_int_equal(setenv("RELOCK_USER", USER, 1), 0);
    if (password)
        assert_int_equal(setenv("RELOCK_PASSWORD", password, 1), 0);
    if (file)
        assert_int_equal(setenv("RELOCK_PASSWORD_FILE", file, 1), 0);
    tool = tool_start(f, "run", "orders", "true");
    status = tool_wait(tool);
    unsetenv("RELOCK_USER");
    unsetenv("RELOCK_PASSWORD");
    unsetenv("RELOCK_PASSWORD_FILE");
    assert_null(strstr(tool_err(tool), "secret"));
    return status;
}

static void a_password_comes_from_a_variable_or_a_file(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/relock-password-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    write_file(path, "secret\r\na second line\n");
    assert_true(probe_make_user(f->probe, USER, "secret", "~* &* +@all"));
    assert_int_equal(run_with(f, NULL, NULL), 125);
    assert_int_equal(run_with(f, "wrong", NULL), 125);
    assert_int_equal(run_with(f, "secret", NULL), 0);
    assert_int_equal(run_with(f, NULL, path), 0);
    assert_int_equal(setenv("RELOCK_USER", USER, 1), 0);
    assert_tool(f, 0, "run", "--password-file", path, "orders", "true");
    assert_tool(f, 125, "run", "--password-file", "/no/such/file", "orders", "true");
    unsetenv("RELOCK_USER");
    unlink(path);
    assert_int_equal(probe_int(f->probe, "ACL DELUSER " USER), 1);
}

static struct tool *status_of(struct fixture *f, bool on_terminal)
{
    const char *const words[] = {"status", "orders", NULL};
    struct tool *tool = tool_start_words(f, on_terminal, words);

    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "held"));
    return tool;
}

static void colours_are_for_terminals(void **state)
{
    struct fixture *f = *state;

    unsetenv("NO_COLOR");
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_non_null(strstr(tool_out(status_of(f, true)), "\033["));
    assert_null(strstr(tool_out(status_of(f, false)), "\033["));
    assert_int_equal(setenv("NO_COLOR", "", 1), 0);
    assert_non_null(strstr(tool_out(status_of(f, true)), "\033["));
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    assert_null(strstr(tool_out(status_of(f, true)), "\033["));
    unsetenv("NO_COLOR");
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(a_password_comes_from_a_variable_or_a_file),
        TOOL_TEST(colours_are_for_terminals),
    };

    return SERVER_TESTS_RUN(tests);
}
