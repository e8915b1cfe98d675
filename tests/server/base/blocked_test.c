/* The program's callbacks, its log and its stderr may block, and no hold is lost. */
#include "support/actor.h"
#include "support/fixture.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 1500       /* outlives a second in which a machine stands still */
#define LONG_LEASE_MS 60000 /* ends only because somebody deletes the lock */
#define MANY_RENEWALS 8     /* take more than twice the lease */

/* ---- something that blocks ----------------------------------------------------------------- */

/* A callback stops here until the test lets it go on. */
static struct stop {
    atomic_bool stops;
    atomic_int n_begun, n_over;
    sem_t gate;
} stop;

static int begin_stop(void **state)
{
    sem_init(&stop.gate, 0, 0);
    atomic_store(&stop.stops, false);
    atomic_store(&stop.n_begun, 0);
    atomic_store(&stop.n_over, 0);
    return fixture_begin(state);
}

static void let_go_on(void)
{
    if (atomic_exchange(&stop.stops, false))
        sem_post(&stop.gate);
}

static int end_stop(void **state)
{
    int r;

    let_go_on();
    r = fixture_end(state);
    sem_destroy(&stop.gate);
    return r;
}

static void stop_here(void)
{
    atomic_fetch_add(&stop.n_begun, 1);
    if (atomic_load(&stop.stops))
        while (sem_wait(&stop.gate) != 0)
            ;
    atomic_fetch_add(&stop.n_over, 1);
}

static bool has_begun(void *arg)
{
    (void)arg;
    return atomic_load(&stop.n_begun) > 0;
}

static void log_slowly(int level, const char *text, void *arg)
{
    struct fixture *f = arg;

    stop_here();
    log_write(level, text, f->log);
}

static void be_told_slowly(const struct relock_lost *what, void *arg)
{
    (void)what;
    (void)arg;
    stop_here();
}

/* ---- progress meanwhile -------------------------------------------------------------------- */

static bool wait_for_many_renewals(struct relock_client *client)
{
    return wait_for_renewals(client, stats_of(client).renewed, MANY_RENEWALS);
}

/* ---- the log ------------------------------------------------------------------------------- */

static void an_on_log_that_blocks_loses_no_hold_and_no_line(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                   .on_log = log_slowly,
                                                   .on_lost = losses_drop,
                                                   .arg = f});
    struct relock_lock *kept = fixture_lock(f, client, "kept");
    struct relock_lock *gone = fixture_lock(f, client, "gone");

    assert_result(relock_lock(kept), RELOCK_OK);
    assert_result(relock_lock(gone), RELOCK_OK);
    assert_true(log_wait(f->log, relock_client_id(client), SOON_MS));
    atomic_store(&stop.n_begun, 0);
    atomic_store(&stop.stops, true);
    probe_int(f->probe, "DEL gone");
    assert_true(wait_until(has_begun, NULL, SOON_MS)); /* "lost" is being logged */

    assert_true(wait_for_many_renewals(client));
    assert_result(relock_check(kept, 0, NULL), RELOCK_OK);
    assert_int_equal(stats_of(client).lost, 1);
    assert_int_equal(log_count(f->log, "gone: owner"), 0);
    assert_int_equal(stats_of(client).log_dropped, 0);

    let_go_on();
    assert_true(log_wait(f->log, "gone: owner", SOON_MS));
    assert_result(relock_unlock(gone), RELOCK_LOST);
    assert_result(relock_unlock(kept), RELOCK_OK);
}

static void a_call_that_logs_does_not_wait_for_an_on_log_that_blocks(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){.on_log = log_slowly, .on_lost = losses_drop, .arg = f});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *caller = actor_start();

    atomic_store(&stop.stops, true);
    probe_int(f->probe, "SET orders text");
    for (int i = 0; i < 3; i++)
        assert_result(actor_trylock(caller, lock), RELOCK_E_SERVER);
    assert_int_equal(log_count(f->log, "WRONGTYPE"), 0);

    let_go_on();
    assert_true(log_wait_n(f->log, "WRONGTYPE", 3, SOON_MS));
    probe_int(f->probe, "DEL orders");
}

/* A pipe that nobody reads. */
struct full_pipe {
    int ends[2];
    int stderr_before;
};

static void fill_stderr(struct full_pipe *to)
{
    char page[4096];

    memset(page, '.', sizeof(page));
    assert_int_equal(pipe2(to->ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(to->ends[1], page, sizeof(page)) > 0)
        ;
    while (write(to->ends[1], page, 1) > 0)
        ;
    assert_int_equal(fcntl(to->ends[1], F_SETFL, 0), 0); /* from now on it blocks */
    to->stderr_before = dup(STDERR_FILENO);
    assert_true(dup2(to->ends[1], STDERR_FILENO) >= 0);
}

/* No assertion before this: its message would go into the full pipe. */
static void restore_stderr(struct full_pipe *from)
{
    dup2(from->stderr_before, STDERR_FILENO);
    close(from->stderr_before);
    close(from->ends[1]);
}

static bool has_words(struct full_pipe *from, const char *words)
{
    static char text[256 * 1024];
    size_t n = 0;
    ssize_t got;

    while ((got = read(from->ends[0], text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    return strstr(text, words) != NULL;
}

struct reading {
    struct full_pipe *pipe;
    const char *words;
};

static bool are_read(void *arg)
{
    struct reading *reading = arg;

    return has_words(reading->pipe, reading->words);
}

static void a_full_pipe_on_stderr_loses_no_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                   .on_lost = losses_drop});
    struct relock_lock *kept = fixture_lock(f, client, "kept");
    struct relock_lock *gone = fixture_lock(f, client, "gone");
    struct full_pipe pipe;
    struct reading reading = {&pipe, "gone: owner"};
    bool lost, renewed, read;
    int check;

    assert_result(relock_lock(kept), RELOCK_OK);
    assert_result(relock_lock(gone), RELOCK_OK);
    fill_stderr(&pipe);
    probe_int(f->probe, "DEL gone");
    lost = wait_for_lost(client, 1);
    renewed = wait_for_many_renewals(client);
    check = relock_check(kept, 0, NULL);
    read = wait_until(are_read, &reading, SOON_MS);
    restore_stderr(&pipe);
    close(pipe.ends[0]);

    assert_true(lost);
    assert_true(renewed);
    assert_result(check, RELOCK_OK);
    assert_true(read);
    assert_result(relock_unlock(gone), RELOCK_LOST);
    assert_result(relock_unlock(kept), RELOCK_OK);
}

static void a_full_pipe_on_stderr_does_not_keep_a_client_from_being_freed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                   .on_lost = losses_drop});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct full_pipe pipe;
    struct reading reading = {&pipe, "relock: warning: "};
    uint64_t took_ms;
    bool read;
    int r;

    probe_int(f->probe, "SET orders text");
    fill_stderr(&pipe);
    r = relock_trylock(lock);
    took_ms = now_ms();
    fixture_free_client(f, client);
    took_ms = now_ms() - took_ms;
    read = wait_until(are_read, &reading, SOON_MS); /* the line that was being written */
    restore_stderr(&pipe);
    close(pipe.ends[0]);

    assert_result(r, RELOCK_E_SERVER);
    assert_no_later(took_ms, 3000 + slow_ms(SOON_MS));
    assert_true(read);
    probe_int(f->probe, "DEL orders");
}

/* ---- on_lost ------------------------------------------------------------------------------- */

/* Its callback blocks, and the callbacks after it wait. */
static struct relock_lock *lose_and_stop(struct fixture *f, struct relock_client *client)
{
    struct relock_lock *gone = fixture_lock(f, client, "gone");

    assert_result(acquire_reporting(gone, be_told_slowly, NULL), RELOCK_OK);
    atomic_store(&stop.stops, true);
    probe_int(f->probe, "DEL gone");
    assert_true(wait_until(has_begun, NULL, SOON_MS));
    return gone;
}

static void an_on_lost_that_blocks_loses_no_other_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *kept = fixture_lock(f, client, "kept");
    struct relock_lock *gone;

    assert_result(relock_lock(kept), RELOCK_OK);
    gone = lose_and_stop(f, client);
    assert_true(wait_for_many_renewals(client));
    assert_result(relock_check(kept, 0, NULL), RELOCK_OK);
    assert_int_equal(atomic_load(&stop.n_over), 0);

    let_go_on();
    assert_result(relock_unlock(gone), RELOCK_LOST);
    assert_int_equal(atomic_load(&stop.n_over), 1);
    assert_result(relock_unlock(kept), RELOCK_OK);
}

static bool is_lost(void *lock)
{
    return relock_check(lock, 0, NULL) == RELOCK_LOST;
}

static void a_loss_during_a_blocked_callback_is_known_now_and_reported_afterwards(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LONG_LEASE_MS);
    struct relock_lock *next = fixture_lock(f, client, "next");
    struct relock_lock *gone;

    assert_result(relock_lock(next), RELOCK_OK);
    gone = lose_and_stop(f, client);
    probe_int(f->probe, "DEL next");
    assert_true(wait_until(is_lost, next, SOON_MS));
    assert_true(log_wait(f->log, "next: owner", SOON_MS));
    assert_int_equal(losses_count(f->losses), 0);

    let_go_on();
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "next");
    assert_result(relock_unlock(next), RELOCK_LOST);
    assert_result(relock_unlock(gone), RELOCK_LOST);
}

static void a_loss_released_during_a_blocked_callback_is_not_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LONG_LEASE_MS);
    struct relock_lock *next = fixture_lock(f, client, "next");
    struct relock_lock *gone;

    assert_result(relock_lock(next), RELOCK_OK);
    gone = lose_and_stop(f, client);
    probe_int(f->probe, "DEL next");
    assert_true(log_wait(f->log, "next: owner", SOON_MS));
    assert_result(relock_unlock(next), RELOCK_LOST);

    let_go_on();
    assert_result(relock_unlock(gone), RELOCK_LOST);
    fixture_free_client(f, client);
    assert_int_equal(losses_count(f->losses), 0);
}

#define STOP_TEST(function) cmocka_unit_test_setup_teardown(function, begin_stop, end_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STOP_TEST(an_on_log_that_blocks_loses_no_hold_and_no_line),
        STOP_TEST(a_call_that_logs_does_not_wait_for_an_on_log_that_blocks),
        STOP_TEST(a_full_pipe_on_stderr_loses_no_hold),
        STOP_TEST(a_full_pipe_on_stderr_does_not_keep_a_client_from_being_freed),
        STOP_TEST(an_on_lost_that_blocks_loses_no_other_hold),
        STOP_TEST(a_loss_during_a_blocked_callback_is_known_now_and_reported_afterwards),
        STOP_TEST(a_loss_released_during_a_blocked_callback_is_not_reported),
    };

    return SERVER_TESTS_RUN(tests);
}
