/*
 * Clients in the line of a lock, while the server forgets the scripts or restarts. With "keep", the
 * server keeps its data. Only messages and the times of the line wake waiters, no recheck.
 */
#include "faults.h"

#include "support/line.h"

#include <string.h>

#define N_WAITING 4

/* Clients that wait in line, and one that holds the lock. */
struct queue {
    struct faults *t;
    struct relock_client *holder, *clients[N_WAITING];
    struct relock_lock *held, *locks[N_WAITING];
    struct actor *waiting[N_WAITING];
};

static void line_up(struct queue *queue, struct faults *t)
{
    queue->t = t;
    queue->holder = line_client(t->f);
    queue->held = fixture_lock(t->f, queue->holder, "orders");
    assert_result(relock_lock(queue->held), RELOCK_OK);
    for (int i = 0; i < N_WAITING; i++) {
        queue->clients[i] = line_client(t->f);
        queue->locks[i] = fixture_lock(t->f, queue->clients[i], "orders");
        queue->waiting[i] = actor_start();
        actor_begin(queue->waiting[i], actor_take_turn, queue->locks[i]);
        assert_true(line_wait(t->f, i + 1));
    }
}

static void all_get_in(struct queue *queue)
{
    assert_results(queue->waiting, N_WAITING, RELOCK_OK);
    for (int i = 0; i < N_WAITING; i++)
        assert_int_equal(stats_of(queue->clients[i]).rechecks, 0);
}

static void clients_in_line_get_in_after_the_scripts_were_flushed(void **state)
{
    struct queue queue;

    line_up(&queue, *state);
    assert_int_equal(probe_int(queue.t->f->probe, "SCRIPT FLUSH"), 0);
    assert_result(relock_unlock(queue.held), RELOCK_OK);
    all_get_in(&queue);
}

/* The lock is free, and nobody stands in its line. */
static void clients_in_line_get_in_after_a_restart_without_data(void **state)
{
    struct queue queue;

    line_up(&queue, *state);
    server_restart(queue.t->f->server);
    all_get_in(&queue);
    faults_release_forgotten(queue.t, queue.held);
}

/* The line is as before, and the connections are new. */
static void clients_in_line_get_in_after_a_restart_with_data(void **state)
{
    struct queue queue;

    line_up(&queue, *state);
    server_restart(queue.t->f->server);
    assert_true(line_wait(queue.t->f, N_WAITING));
    assert_result(relock_unlock(queue.held), RELOCK_OK);
    all_get_in(&queue);
}

static int start_with_data(void **state)
{
    return faults_start_with(state, &(struct server_options){.keeps_data = true}, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest with_data[] = {
        FAULT_TEST(clients_in_line_get_in_after_a_restart_with_data),
    };
    const struct CMUnitTest tests[] = {
        FAULT_TEST(clients_in_line_get_in_after_the_scripts_were_flushed),
        FAULT_TEST(clients_in_line_get_in_after_a_restart_without_data),
    };

    if (argc > 1 && strcmp(argv[1], "keep") == 0)
        return cmocka_run_group_tests(with_data, start_with_data, faults_stop);
    return FAULT_TESTS_RUN(tests);
}
