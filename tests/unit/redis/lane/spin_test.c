/* When a thread retries its socket. Time, processors and preemptions are the test's. */
#include "redis/lane/private.h"
#include "redis/lane/sync_conn.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PROCESSORS 2
#define N_WAITS 4000

static uint64_t now_ns;
static long n_preempted;

uint64_t __wrap_relock_clock_now_ns(void);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

uint64_t __wrap_relock_clock_now_ns(void)
{
    return now_ns += 500; /* as long as a retry */
}

int __wrap_getrusage(int who, struct rusage *usage)
{
    (void)who;

    *usage = (struct rusage){.ru_nivcsw = n_preempted};
    return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    (void)size;

    CPU_ZERO(set);
    for (int i = 0; i < N_PROCESSORS; i++)
        CPU_SET(i, set);
    return 0;
}

/* How long the reply takes to come, and to wake a thread that sleeps. */
struct server {
    uint64_t reply_ns, wake_ns;
};

/* Returns whether the thread has spun. */
static bool wait_once(struct relock_spin *spin, struct server server)
{
    uint64_t comes_ns;
    bool spins = relock_spin_begin(spin);
    bool has_spun = spins;

    comes_ns = now_ns + server.reply_ns;
    while (spins && now_ns < comes_ns)
        spins = relock_spin_continues(spin);
    if (now_ns < comes_ns)
        now_ns = comes_ns;
    if (!spins)
        now_ns += server.wake_ns;
    relock_spin_end(spin);
    now_ns += 10000; /* what the program does */
    return has_spun;
}

static int n_spun(struct relock_spin *spin, struct server server)
{
    int n = 0;

    for (int i = 0; i < N_WAITS; i++)
        n += wait_once(spin, server);
    return n;
}

static const struct server near = {.reply_ns = 20000, .wake_ns = 30000};
static const struct server distant = {.reply_ns = 500000, .wake_ns = 30000};
static const struct server quick_to_wake = {.reply_ns = 20000, .wake_ns = 2000};

static void a_thread_retries_where_waking_takes_longer_than_the_reply(void **state)
{
    struct relock_spin spin = {0};

    (void)state;

    assert_in_range(n_spun(&spin, near), N_WAITS * 95 / 100, N_WAITS);
}

static void a_thread_sleeps_where_the_server_is_distant(void **state)
{
    struct relock_spin spin = {0};

    (void)state;

    assert_in_range(n_spun(&spin, distant), 1, N_WAITS / 50);
}

static void a_thread_sleeps_where_waking_is_quick(void **state)
{
    struct relock_spin spin = {0};

    (void)state;

    assert_in_range(n_spun(&spin, quick_to_wake), 1, N_WAITS / 50);
}

static void a_connection_notices_that_the_server_has_come_nearer(void **state)
{
    struct relock_spin spin = {0};

    (void)state;

    (void)n_spun(&spin, distant);
    (void)n_spun(&spin, near);
    (void)n_spun(&spin, near);
    assert_in_range(n_spun(&spin, near), N_WAITS * 95 / 100, N_WAITS);
    (void)n_spun(&spin, distant);
    assert_in_range(n_spun(&spin, distant), 1, N_WAITS / 50);
}

static void a_processor_is_left_to_others(void **state)
{
    struct relock_spin spin = {0}, other = {0};

    (void)state;

    (void)n_spun(&spin, near);
    (void)n_spun(&other, near);
    while (!relock_spin_begin(&spin))
        relock_spin_end(&spin);
    assert_true(relock_spin_continues(&spin));
    assert_false(relock_spin_begin(&other)); /* it would take the second processor */
    assert_false(relock_spin_continues(&spin));
    relock_spin_end(&other);
    relock_spin_end(&spin);

    assert_false(wait_once(&spin, near)); /* until the threads have met no others for a while */
    assert_in_range(n_spun(&spin, near), N_WAITS * 95 / 100, N_WAITS);
}

static void a_thread_sleeps_while_threads_of_the_process_are_preempted(void **state)
{
    struct relock_spin spin = {0};
    int n = 0;

    (void)state;

    (void)n_spun(&spin, near);
    for (int i = 0; i < N_WAITS; i++) {
        n_preempted += i % 50 == 0; /* every 2 ms or so */
        n += wait_once(&spin, near);
    }
    assert_in_range(n, 1, N_WAITS / 5);
    (void)n_spun(&spin, near);
    assert_in_range(n_spun(&spin, near), N_WAITS * 95 / 100, N_WAITS);
}

static void a_forked_child_does_not_count_threads_of_its_parent(void **state)
{
    struct relock_spin waiting[N_PROCESSORS] = {0}, spin = {0};
    int status = 0;
    pid_t pid;

    (void)state;

    for (int i = 0; i < N_PROCESSORS; i++)
        (void)relock_spin_begin(&waiting[i]);
    pid = fork();
    if (pid == 0)
        _exit(n_spun(&spin, near) > N_WAITS / 2 ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < N_PROCESSORS; i++)
        relock_spin_end(&waiting[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_retries_where_waking_takes_longer_than_the_reply),
        cmocka_unit_test(a_thread_sleeps_where_the_server_is_distant),
        cmocka_unit_test(a_thread_sleeps_where_waking_is_quick),
        cmocka_unit_test(a_connection_notices_that_the_server_has_come_nearer),
        cmocka_unit_test(a_processor_is_left_to_others),
        cmocka_unit_test(a_thread_sleeps_while_threads_of_the_process_are_preempted),
        cmocka_unit_test(a_forked_child_does_not_count_threads_of_its_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
