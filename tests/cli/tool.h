/*
 * Tool - runs the command-line tool, and looks at what it prints
 *
 * Each run has a session of its own: no terminal, or one of its own. The fixture keeps the
 * output of the tool and of its command. A run ends when both have closed their output.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CLI_TOOL_H
#define RELOCK_TEST_CLI_TOOL_H

#include "support/fixture.h"

struct tool;

/* Runs `relock` with these words, for the server of the fixture: RELOCK_URL. */
#define tool_start(f, ...) tool_start_words((f), false, (const char *const[]){__VA_ARGS__, NULL})
struct tool *tool_start_words(struct fixture *f, bool on_terminal, const char *const *words);

/* Waits until its output has the text. On a terminal, all of it is there. */
bool tool_says(struct tool *tool, const char *text);

/* Its output so far: on stdout, and on stderr. */
const char *tool_out(struct tool *tool);
const char *tool_err(struct tool *tool);

/* All that it has written on stderr by now. */
const char *tool_err_now(struct tool *tool);

/* Whether each write to stderr was a whole line, which no line of another writer can divide. */
bool tool_wrote_whole_lines(const struct tool *tool);

/* Whether a program can read what it has printed on stdout. */
bool tool_printed_json(struct tool *tool);

/* To the process group of the tool, or to the tool alone. */
void tool_signal_group(struct tool *tool, int number);
void tool_signal(struct tool *tool, int number);

/* As if typed at its terminal. */
void tool_type(struct tool *tool, const char *keys);

/* Waits for the end: the exit status, 128 + n for signal n, or -1 if it does not end. The output
 * stays until tool_end_all(). */
int tool_wait(struct tool *tool);

/* For --lease: a short one that a machine may stand still for. */
#define TOOL_LEASE_MS 1000
const char *tool_lease(void);

/* One run from start to end: its status, which an assertion compares. */
#define assert_tool(f, wanted, ...) \
    assert_int_equal(tool_wait(tool_start((f), __VA_ARGS__)), wanted)

/* Around each test, in place of fixture_begin() and fixture_end(). */
int tool_begin(void **state);
int tool_end(void **state);

#define TOOL_TEST(function) cmocka_unit_test_setup_teardown(function, tool_begin, tool_end)

#endif
