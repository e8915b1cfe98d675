/*
 * When the waits for a silent server end.
 *
 * The linker replaces the connection of the I/O thread.
 */
#include "lock/wake/wake.h"

#include "redis/io/io.h"
#include "unit/common/offline.h"

#define TIMEOUT_MS 1000
#define ASKED_MS 5000 /* since then the server has owed an answer */

static struct {
    uint64_t silent_ms;
    int n_pings;
} server;

static struct relock_waiter waiter;

struct relock_pipeline *__wrap_relock_node_io_pipeline(struct relock_topology *topology,
                                                       struct relock_text key);
void __wrap_relock_pipeline_ping(struct relock_pipeline *pipeline);
uint64_t __wrap_relock_pipeline_silent_ms(const struct relock_pipeline *pipeline);

struct relock_pipeline *__wrap_relock_node_io_pipeline(struct relock_topology *topology,
                                                       struct relock_text key)
{
    (void)topology;
    (void)key;
    return (struct relock_pipeline *)&server;
}

void __wrap_relock_pipeline_ping(struct relock_pipeline *pipeline)
{
    (void)pipeline;
    server.n_pings++;
}

uint64_t __wrap_relock_pipeline_silent_ms(const struct relock_pipeline *pipeline)
{
    (void)pipeline;
    return server.silent_ms;
}

static int begin(void **state)
{
    (void)state;
    offline_begin();
    client.options.command_timeout_ms = TIMEOUT_MS;
    relock_silence_init(&client);
    server.silent_ms = ASKED_MS;
    server.n_pings = 0;
    waiter = (struct relock_waiter){
        .owner = 1,
        .joined_ms = ASKED_MS,
        .waits_for_server = true,
        .queues_on = resource,
    };
    relock_gate_init(&waiter.gate);
    relock_silence_wait_begins(&client, &waiter);
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_silence_wait_ends(&client, &waiter);
    relock_timer_unset(&client.guarded.timers, &client.guarded.silence);
    return offline_end();
}

/* The timers of one turn of the I/O thread; before the next turn it reads its sockets. */
static void turn(uint64_t now_ms)
{
    struct relock_timer *timer;

    relock_mutex_lock(&client.mutex);
    while ((timer = relock_timers_pop(&client.guarded.timers, now_ms)))
        timer->fire(timer, now_ms);
    relock_mutex_unlock(&client.mutex);
}

static uint64_t next_turn(void)
{
    return relock_timers_next_ms(&client.guarded.timers);
}

static bool has_ended(void)
{
    return waiter.end == RELOCK_WAITER_UNREACHED;
}

static void a_wait_ends_when_the_server_has_been_silent(void **state)
{
    uint64_t now_ms;

    (void)state;
    while ((now_ms = next_turn()) < ASKED_MS + TIMEOUT_MS) {
        turn(now_ms);
        assert_false(has_ended());
    }
    assert_true(server.n_pings >= 1);
    for (int i = 0; i < 2 && !has_ended(); i++)
        turn(next_turn());
    assert_true(has_ended());
}

static void an_answer_that_is_read_late_ends_no_wait(void **state)
{
    uint64_t late_ms = ASKED_MS + 10 * TIMEOUT_MS;

    (void)state;
    turn(late_ms); /* the thread was held up, and has not read the answer */
    assert_false(has_ended());
    assert_true(next_turn() <= late_ms + 1);
    server.silent_ms = RELOCK_NEVER;
    turn(next_turn());
    turn(next_turn());
    assert_false(has_ended());
}

static void a_wait_that_was_held_up_with_a_silent_server_ends(void **state)
{
    (void)state;
    turn(ASKED_MS + 10 * TIMEOUT_MS);
    turn(next_turn());
    assert_true(has_ended());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_wait_ends_when_the_server_has_been_silent, begin, end),
        cmocka_unit_test_setup_teardown(an_answer_that_is_read_late_ends_no_wait, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_that_was_held_up_with_a_silent_server_ends, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
