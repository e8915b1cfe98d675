/* The queue of a log, while the sink blocks and while it does not. */
#include "base/log.h"
#include "base/private.h"

#include "base/thread.h"
#include "lock/state/client.h"
#include "support/late.h"
#include "support/leaks.h"
#include "support/log.h"
#include "support/wait.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define FULL RELOCK_LOGGER_QUEUE_MAX
#define MANY 100 /* lines that repeat: fewer than fit, in much less than a period */

static atomic_int behind_s; /* the library's clock is, so that a period ends soon */

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    int r = (int)syscall(SYS_clock_gettime, clock, ts);

    ts->tv_sec -= atomic_load(&behind_s);
    return r;
}

/* A sink that writes to a log, and blocks while its gate is closed. */
struct slow_sink {
    struct log *log;
    sem_t gate; /* opened once per line, while `blocks` */
    atomic_bool blocks;
    atomic_int n_begun;
    atomic_bool in_callback;
};

static struct slow_sink sink;
static struct leaks before;

static void write_slowly(int level, const char *text, void *arg)
{
    struct slow_sink *to = arg;

    atomic_fetch_add(&to->n_begun, 1);
    atomic_store(&to->in_callback, relock_callback_is_inside());
    if (atomic_load(&to->blocks))
        while (sem_wait(&to->gate) != 0)
            ;
    log_write(level, text, to->log);
}

static int begin(void **state)
{
    (void)state;
    before = leaks_now();
    sink.log = log_new();
    sem_init(&sink.gate, 0, 0);
    atomic_init(&sink.blocks, false);
    atomic_init(&sink.n_begun, 0);
    atomic_init(&sink.in_callback, false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    log_free(sink.log);
    sem_destroy(&sink.gate);
    return leaks_none_since(&before) ? 0 : -1;
}

static struct relock_logger *new_logger(void)
{
    struct relock_logger *logger;

    assert_int_equal(
        relock_logger_new(&(struct relock_sink){.log = write_slowly, .arg = &sink}, &logger),
        RELOCK_OK);
    return logger;
}

static void put(struct relock_logger *logger, struct relock_cause cause, int level,
                const char *text)
{
    relock_logger_put(logger, cause, &(struct relock_record){.level = level, .text = text});
}

/* Each line has its own cause. */
static void put_lines(struct relock_logger *logger, int n)
{
    for (int i = 0; i < n; i++) {
        char text[32];

        snprintf(text, sizeof(text), "line %d.", i);
        put(logger, (struct relock_cause){"a test", i}, RELOCK_LOG_WARNING, text);
    }
}

static bool has_begun(void *arg)
{
    (void)arg;
    return atomic_load(&sink.n_begun) > 0;
}

/* The thread is inside the sink with "line 0.", and the queue is empty. */
static void block_the_thread(struct relock_logger *logger)
{
    atomic_store(&sink.blocks, true);
    put_lines(logger, 1);
    assert_true(wait_until(has_begun, NULL, SOON_MS));
}

static void unblock(void)
{
    atomic_store(&sink.blocks, false);
    sem_post(&sink.gate);
}

static void lines_are_written_in_their_order_by_another_thread(void **state)
{
    struct relock_logger *logger = new_logger();

    (void)state;
    put_lines(logger, 3);
    assert_true(log_wait(sink.log, "line 2.", SOON_MS));
    assert_int_equal(log_count(sink.log, ""), 3);
    assert_true(atomic_load(&sink.in_callback));
    relock_logger_free(logger);
}

static void the_end_waits_for_queued_lines(void **state)
{
    struct relock_logger *logger = new_logger();

    (void)state;
    put_lines(logger, 100);
    relock_logger_free(logger);
    assert_int_equal(log_count(sink.log, "line "), 100);
}

static void a_blocked_sink_blocks_no_caller_and_drops_no_queued_line(void **state)
{
    struct relock_logger *logger = new_logger();

    (void)state;
    block_the_thread(logger);
    put_lines(logger, FULL);
    assert_int_equal(relock_logger_dropped(logger), 0);
    unblock();
    assert_true(log_wait_n(sink.log, "line ", FULL + 1, SOON_MS));
    relock_logger_free(logger);
    assert_int_equal(log_count(sink.log, "dropped"), 0);
}

static void lines_that_do_not_fit_are_counted_and_the_count_is_logged(void **state)
{
    struct relock_logger *logger = new_logger();

    (void)state;
    block_the_thread(logger);
    put_lines(logger, FULL + 7);
    assert_int_equal(relock_logger_dropped(logger), 7);
    unblock();
    assert_true(log_wait(sink.log, "7 log lines were dropped", SOON_MS));
    assert_int_equal(log_count(sink.log, "line "), FULL + 1);

    put_lines(logger, 1);
    relock_logger_free(logger);
    assert_int_equal(log_count(sink.log, "dropped"), 1);
}

static void repeats_are_logged_at_the_end_if_not_before(void **state)
{
    struct relock_logger *logger = new_logger();
    struct relock_cause cause = {"a test", 0};

    (void)state;
    for (int i = 0; i < MANY; i++)
        put(logger, cause, RELOCK_LOG_WARNING, "again");
    relock_logger_free(logger);
    assert_int_equal(log_count(sink.log, "again"), RELOCK_REPEATS_AT_ONCE + 1);
    assert_int_equal(log_count(sink.log, "again ... and 94 more in the last "), 1);
}

static void repeats_are_logged_after_a_period_without_further_lines(void **state)
{
    struct relock_logger *logger = new_logger();
    struct relock_cause cause = {"a test", 0};

    (void)state;
    atomic_store(&behind_s, RELOCK_REPEATS_PERIOD_MS / 1000 - 2);
    for (int i = 0; i < MANY; i++)
        put(logger, cause, RELOCK_LOG_WARNING, "again");
    atomic_store(&behind_s, 0);
    put(logger, (struct relock_cause){"another", 0}, RELOCK_LOG_DEBUG, "the thread asks the clock");
    assert_int_equal(log_count(sink.log, "and 94 more"), 0);
    assert_true(log_wait(sink.log, "and 94 more", SOON_MS));
    relock_logger_free(logger);
    assert_int_equal(log_count(sink.log, "again"), RELOCK_REPEATS_AT_ONCE + 1);
}

static void debug_lines_may_repeat(void **state)
{
    struct relock_logger *logger = new_logger();
    struct relock_cause cause = {"a test", 0};

    (void)state;
    for (int i = 0; i < MANY; i++)
        put(logger, cause, RELOCK_LOG_DEBUG, "again");
    relock_logger_free(logger);
    assert_int_equal(log_count(sink.log, "again"), MANY);
}

static void a_blocked_sink_does_not_delay_the_end_and_gets_no_further_line(void **state)
{
    struct relock_logger *logger = new_logger();
    uint64_t began_ms;

    (void)state;
    block_the_thread(logger);
    put_lines(logger, 10);
    began_ms = now_ms();
    relock_logger_free(logger);
    assert_true(now_ms() - began_ms + TWO_CLOCKS_MS >= RELOCK_LOGGER_END_MS);
    assert_no_later(now_ms() - began_ms, RELOCK_LOGGER_END_MS + slow_ms(SOON_MS));
    unblock();
    assert_true(leaks_none_since(&before)); /* the thread has ended */
    assert_int_equal(atomic_load(&sink.n_begun), 1);
}

/* ---- with a client ------------------------------------------------------------------------- */

static void a_client_counts_dropped_lines(void **state)
{
    struct relock_options options = {.url = "unix:///nonexistent/relock.sock",
                                     .flags = RELOCK_LAZY,
                                     .log_level = RELOCK_LOG_DEBUG,
                                     .on_log = write_slowly,
                                     .arg = &sink};
    struct relock_client *client;
    struct relock_stats stats;

    (void)state;
    atomic_store(&sink.blocks, true);
    assert_int_equal(relock_client_new(&options, &client), RELOCK_OK);
    for (int i = 0; i < 2 * FULL; i++)
        relock_log_write(&client->log, RELOCK_LOG_DEBUG, "line");
    assert_int_equal(relock_client_stats(client, &stats, sizeof(stats)), RELOCK_OK);
    assert_true(stats.log_dropped >= FULL - 1);
    unblock();
    relock_client_free(client);
    assert_true(log_count(sink.log, "log lines were dropped here") >= 1);
}

static void the_reason_of_a_failed_client_is_logged_when_the_call_returns(void **state)
{
    struct relock_options options = {.connections = 1025, .on_log = log_write, .arg = sink.log};
    struct relock_client *client;

    (void)state;
    assert_int_equal(relock_client_new(&options, &client), RELOCK_E_INVALID);
    assert_int_equal(log_count(sink.log, "connections is above 1024"), 1);
    options.connections = 0;
    options.url = "unix:///nonexistent/relock.sock";
    assert_int_equal(relock_client_new(&options, &client), RELOCK_E_CONN);
    assert_int_equal(log_count(sink.log, "/nonexistent/relock.sock"), 1);
}

#define LOGGER_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOGGER_TEST(lines_are_written_in_their_order_by_another_thread),
        LOGGER_TEST(the_end_waits_for_queued_lines),
        LOGGER_TEST(a_blocked_sink_blocks_no_caller_and_drops_no_queued_line),
        LOGGER_TEST(lines_that_do_not_fit_are_counted_and_the_count_is_logged),
        LOGGER_TEST(repeats_are_logged_at_the_end_if_not_before),
        LOGGER_TEST(repeats_are_logged_after_a_period_without_further_lines),
        LOGGER_TEST(debug_lines_may_repeat),
        LOGGER_TEST(a_blocked_sink_does_not_delay_the_end_and_gets_no_further_line),
        LOGGER_TEST(a_client_counts_dropped_lines),
        LOGGER_TEST(the_reason_of_a_failed_client_is_logged_when_the_call_returns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
