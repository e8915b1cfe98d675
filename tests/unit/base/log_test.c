/* Log lines: which of them reach the sink, and their form. */
#include "base/log.h"

#include "base/thread.h"
#include "support/log.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* The last line that the sink received. */
struct told {
    int n;
    int level;
    char text[4096];
    bool in_callback;
    int cancel_state;
};

static void sink(int level, const char *text, void *arg)
{
    struct told *told = arg;

    told->n++;
    told->level = level;
    snprintf(told->text, sizeof(told->text), "%s", text);
    told->in_callback = relock_callback_is_inside();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &told->cancel_state);
    pthread_setcancelstate(told->cancel_state, NULL);
}

static void a_line_reaches_the_sink_with_its_level_and_argument(void **state)
{
    struct told told = {0};
    struct relock_log log = {.level = RELOCK_LOG_DEBUG, .sink = sink, .arg = &told};

    (void)state;

    relock_log_write(&log, RELOCK_LOG_INFO, "%s is %d", "the answer", 42);
    assert_int_equal(told.n, 1);
    assert_int_equal(told.level, RELOCK_LOG_INFO);
    assert_string_equal(told.text, "the answer is 42");
}

static const int levels[] = {RELOCK_LOG_ERROR, RELOCK_LOG_WARNING, RELOCK_LOG_INFO,
                             RELOCK_LOG_DEBUG};

static void lines_below_the_level_are_dropped(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(levels); i++) {
        for (size_t line = 0; line < COUNT(levels); line++) {
            struct told told = {0};
            struct relock_log log = {.level = levels[i], .sink = sink, .arg = &told};

            relock_log_write(&log, levels[line], "line");
            assert_int_equal(told.n, line <= i);
        }
    }
}

static void a_thread_is_not_cancelled_inside_the_sink(void **state)
{
    struct told told = {0};
    struct relock_log log = {.level = RELOCK_LOG_DEBUG, .sink = sink, .arg = &told};
    int cancel_state;

    (void)state;

    relock_log_write(&log, RELOCK_LOG_ERROR, "line");
    assert_true(told.in_callback);
    assert_int_equal(told.cancel_state, PTHREAD_CANCEL_DISABLE);
    assert_false(relock_callback_is_inside());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel_state);
    assert_int_equal(cancel_state, PTHREAD_CANCEL_ENABLE);
}

static void a_server_text_with_line_breaks_stays_one_line(void **state)
{
    struct told told = {0};
    struct relock_log log = {.level = RELOCK_LOG_DEBUG, .sink = sink, .arg = &told};

    (void)state;

    relock_log_write(&log, RELOCK_LOG_ERROR, "said: %s", "ERR a\r\nrelock: error: b\n\x1b[2J\x7f");
    assert_int_equal(told.n, 1);
    assert_string_equal(told.text, "said: ERR a  relock: error: b  [2J ");

    /* The next line of ISO 8859 and of Unicode, and its line separator. */
    relock_log_write(&log, RELOCK_LOG_ERROR, "said: %s",
                     "a\x85"
                     "b\xc2\x85"
                     "c\xe2\x80\xa8"
                     "d");
    assert_string_equal(told.text, "said: a?b??c???d");
}

static void a_long_line_is_cut(void **state)
{
    struct told told = {0};
    struct relock_log log = {.level = RELOCK_LOG_DEBUG, .sink = sink, .arg = &told};
    char text[3000];

    (void)state;

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    relock_log_write(&log, RELOCK_LOG_ERROR, "begins %s", text);
    assert_true(strlen(told.text) >= 512);
    assert_true(strlen(told.text) < sizeof(text));
    assert_memory_equal(told.text, "begins xxx", 10);
    assert_int_equal(strspn(told.text + 7, "x"), strlen(told.text) - 7);
}

/* ---- without a sink ------------------------------------------------------------------------ */

/* Runs `write` with stderr in a file, and reads that. */
static void with_stderr_in_a_file(void (*write)(const struct relock_log *log),
                                  const struct relock_log *log, char *out, size_t size)
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    size_t n;

    assert_non_null(file);
    assert_true(before >= 0);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    write(log);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);

    rewind(file);
    n = fread(out, 1, size - 1, file);
    out[n] = '\0';
    fclose(file);
}

static void write_each_level(const struct relock_log *log)
{
    relock_log_write(log, RELOCK_LOG_ERROR, "grave");
    relock_log_write(log, RELOCK_LOG_WARNING, "bad\nenough");
    relock_log_write(log, RELOCK_LOG_INFO, "good to know");
    relock_log_write(log, RELOCK_LOG_DEBUG, "for the curious");
}

static void without_a_sink_only_warnings_and_errors_go_to_stderr(void **state)
{
    struct relock_log log = {.level = RELOCK_LOG_DEBUG};
    char out[1024];

    (void)state;

    with_stderr_in_a_file(write_each_level, &log, out, sizeof(out));
    assert_string_equal(out, "relock: error: grave\nrelock: warning: bad enough\n");
}

static void without_a_sink_the_level_counts_too(void **state)
{
    struct relock_log log = {.level = RELOCK_LOG_ERROR};
    char out[1024];

    (void)state;

    with_stderr_in_a_file(write_each_level, &log, out, sizeof(out));
    assert_string_equal(out, "relock: error: grave\n");
}

/* ---- names --------------------------------------------------------------------------------- */

/* In the middle of a larger buffer, which shows a write beyond the ends. */
static const char *name_of(const char *name)
{
    static char out[RELOCK_LOG_NAME_MAX + 1];

    memset(out, '!', sizeof(out));
    assert_ptr_equal(relock_log_name(name, out), out);
    assert_int_equal(out[RELOCK_LOG_NAME_MAX], '!');
    assert_true(memchr(out, '\0', RELOCK_LOG_NAME_MAX) != NULL);
    return out;
}

static void a_name_is_written_in_printable_ascii(void **state)
{
    static const struct {
        const char *name, *written;
    } names[] = {
        {"", ""},
        {"orders:42", "orders:42"},
        {"{a} 'b' \"c\" %s %n ~", "{a} 'b' \"c\" %s %n ~"},
        {"a\nb\r\tc", "a\\x0ab\\x0d\\x09c"},
        {"\x01\x1f\x7f", "\\x01\\x1f\\x7f"},
        {"\x1b[31mred", "\\x1b[31mred"},
        {"back\\slash", "back\\\\slash"},
        {"\\n", "\\\\n"},
        {"caf\xc3\xa9", "caf\\xc3\\xa9"},
        {"\x80\xff", "\\x80\\xff"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(name_of(names[i].name), names[i].written);
}

/* Whether `written` is `piece` repeated so often, then "...". */
static bool is_cut(const char *written, const char *piece)
{
    while (strncmp(written, piece, strlen(piece)) == 0)
        written += strlen(piece);
    return strcmp(written, "...") == 0;
}

static bool is_whole(const char *written, const char *piece, size_t n)
{
    while (n > 0 && strncmp(written, piece, strlen(piece)) == 0) {
        written += strlen(piece);
        n--;
    }
    return n == 0 && *written == '\0';
}

static void a_long_name_is_cut_between_its_letters(void **state)
{
    static const struct {
        char letter;
        const char *written;
    } letters[] = {{'a', "a"}, {'\\', "\\\\"}, {'\n', "\\x0a"}, {'\xff', "\\xff"}};
    char name[4097];

    (void)state;

    for (size_t i = 0; i < COUNT(letters); i++) {
        for (size_t n = 1; n < sizeof(name); n += n < 300 ? 1 : 379) {
            const char *written;

            memset(name, letters[i].letter, n);
            name[n] = '\0';
            written = name_of(name);
            if (n * strlen(letters[i].written) <= RELOCK_LOG_NAME_MAX - 16)
                assert_true(is_whole(written, letters[i].written, n));
            else if (!is_whole(written, letters[i].written, n))
                assert_true(is_cut(written, letters[i].written));
        }
        assert_true(is_cut(name_of(name), letters[i].written));
    }
}

static void no_name_is_longer_than_its_room(void **state)
{
    char name[600];

    (void)state;

    /* Letters of one, two and four bytes: the buffer ends in the middle of each. */
    for (size_t first = 0; first < 4; first++) {
        memset(name, '\xff', sizeof(name));
        memset(name, 'a', first);
        name[sizeof(name) - 1] = '\0';
        assert_true(is_cut(name_of(name) + first, "\\xff"));
        memset(name + first, '\\', sizeof(name) - 1 - first);
        assert_true(is_cut(name_of(name) + first, "\\\\"));
    }
}

/* ---- the sink of the tests ----------------------------------------------------------------- */

static void the_log_of_the_tests_keeps_every_line(void **state)
{
    struct log *kept = log_new();
    struct relock_log log = {.level = RELOCK_LOG_INFO, .sink = log_write, .arg = kept};

    (void)state;

    write_each_level(&log);
    assert_int_equal(log_count(kept, ""), 3);
    assert_int_equal(log_count(kept, "good to know"), 1);
    assert_int_equal(log_count_grave(kept, RELOCK_LOG_WARNING), 2);
    log_free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_reaches_the_sink_with_its_level_and_argument),
        cmocka_unit_test(lines_below_the_level_are_dropped),
        cmocka_unit_test(a_thread_is_not_cancelled_inside_the_sink),
        cmocka_unit_test(a_server_text_with_line_breaks_stays_one_line),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(without_a_sink_only_warnings_and_errors_go_to_stderr),
        cmocka_unit_test(without_a_sink_the_level_counts_too),
        cmocka_unit_test(a_name_is_written_in_printable_ascii),
        cmocka_unit_test(a_long_name_is_cut_between_its_letters),
        cmocka_unit_test(no_name_is_longer_than_its_room),
        cmocka_unit_test(the_log_of_the_tests_keeps_every_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
