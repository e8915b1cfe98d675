/* Read/write locks: readers together, a writer alone. */
#include "support/actor.h"
#include "support/sides.h"

#include <pthread.h>
#include <stdatomic.h>

#define N_READERS 12
#define ROUNDS 40

static void readers_hold_the_lock_together(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(actor_trylock(actor, ours.read), RELOCK_OK);
    assert_result(relock_trylock(theirs.read), RELOCK_OK);
    assert_result(relock_trylock(theirs.write), RELOCK_E_DEADLOCK);
    assert_true(log_wait_n(f->log, "holds the read side; release that first", 1, SOON_MS));
    assert_result(actor_unlock(actor, ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_writer_is_alone(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(actor_trylock(actor, ours.write), RELOCK_BUSY);
    assert_result(actor_trylock(actor, ours.read), RELOCK_BUSY);
    assert_result(actor_trylock(actor, theirs.read), RELOCK_BUSY);
    assert_result(actor_trylock(actor, theirs.write), RELOCK_BUSY);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_trylock(actor, theirs.read), RELOCK_BUSY);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_trylock(actor, theirs.read), RELOCK_OK);
    assert_result(relock_trylock(ours.write), RELOCK_BUSY);
    assert_result(actor_unlock(actor, theirs.read), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* Two clients are two strangers, even in one thread. */
static void a_writer_keeps_its_own_thread_out_of_another_client(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_trylock(theirs.read), RELOCK_BUSY);
    assert_result(relock_trylock(theirs.write), RELOCK_BUSY);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_trylock(theirs.write), RELOCK_BUSY);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

static void a_writer_may_read_and_go_on_reading(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    actor_begin_lock(actor, theirs.read);
    assert_true(wait_for_waiters(f->clients[1], 1));
    assert_result(relock_unlock(ours.write), RELOCK_OK); /* wakes the other reader */
    assert_result(actor_result(actor), RELOCK_OK);
    assert_true(relock_is_mine(ours.read));
    assert_result(relock_lock(ours.write), RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(actor_unlock(actor, theirs.read), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_writer_that_reads_may_write_deeper_until_it_only_reads(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_trylock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_trylock(ours.write), RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(ours.write), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_trylock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
}

/* A release of the read side does not release the write side. */
static void a_writer_that_stops_reading_is_still_alone(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_true(relock_is_mine(ours.write));
    assert_result(relock_trylock(theirs.read), RELOCK_BUSY);
    assert_result(relock_trylock(theirs.write), RELOCK_BUSY);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* A writer that reads waits for nobody, not even for the reader that waits for it. */
static void a_writer_reads_though_another_waits_to_read(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.recheck_ms = slow_ms(60000),
                                                   .watchdog_timeout_ms = slow_ms(60000)});
    struct sides ours = sides_of(f, client);
    struct actor *reader = actor_start();
    uint64_t contended;

    assert_result(relock_lock(ours.write), RELOCK_OK);
    actor_begin_lock(reader, ours.read);
    assert_true(wait_for_waiters(client, 1));
    contended = stats_of(client).contended;
    assert_result(relock_trylock(ours.read), RELOCK_OK);
    assert_int_equal(stats_of(client).contended, contended);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_timedlock(ours.read, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_gets_in(reader, ours.read);
}

/* ---- from reading to writing --------------------------------------------------------------- */

static void a_reader_that_asks_to_write_gets_deadlock(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, untracked_client(f));
    uint64_t owner = relock_owner_new();
    struct relock_how named = {.owner = owner};
    struct relock_how patient = {.owner = owner, .wait_ms = RELOCK_FOREVER};
    long long commands;

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_acquire(ours.read, &named, NULL), RELOCK_OK);
    assert_true(wait_for_login(f->probe));
    commands = probe_commands(f->probe);
    assert_result(relock_trylock(ours.write), RELOCK_E_DEADLOCK);
    assert_result(relock_timedlock(ours.write, 60000), RELOCK_E_DEADLOCK);
    assert_result(relock_lock(ours.write), RELOCK_E_DEADLOCK);
    assert_result(relock_acquire(ours.write, &named, NULL), RELOCK_E_DEADLOCK);
    assert_result(relock_acquire(ours.write, &patient, NULL), RELOCK_E_DEADLOCK);
    assert_int_equal(probe_commands(f->probe), commands);

    /* Each owner counts alone: once it has stopped reading, it may wait for the other. */
    assert_result(relock_release(ours.read, owner), RELOCK_OK);
    assert_result(relock_acquire(ours.write, &named, NULL), RELOCK_BUSY);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_acquire(ours.write, &named, NULL), RELOCK_OK);
    assert_result(relock_trylock(ours.read), RELOCK_BUSY); /* it is another owner */
    assert_result(relock_release(ours.write, owner), RELOCK_OK);
}

/* The writer ahead waits for this reader, so both would wait for ever. */
static void a_reader_that_asks_to_write_behind_a_waiting_writer_gets_deadlock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct sides ours = sides_of(f, client);
    struct actor *writer = actor_start(), *reader = actor_start();

    assert_result(actor_lock(reader, ours.read), RELOCK_OK);
    actor_begin_lock(writer, ours.write);
    assert_true(wait_for_waiters(client, 1));
    assert_result(actor_trylock(reader, ours.write), RELOCK_E_DEADLOCK);
    assert_result(actor_lock(reader, ours.write), RELOCK_E_DEADLOCK);
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    assert_gets_in(writer, ours.write);
}

/* ---- one try ------------------------------------------------------------------------------- */

struct crowd {
    struct relock_lock *read;
    pthread_barrier_t together;
    atomic_int n_refused;
};

static int try_to_read_together(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < ROUNDS; i++) {
        bool got;

        pthread_barrier_wait(&crowd->together);
        got = relock_trylock(crowd->read) == RELOCK_OK;
        crowd->n_refused += !got;
        if (i % 2 == 0) /* all at once, or as it comes */
            pthread_barrier_wait(&crowd->together);
        if (got && relock_unlock(crowd->read) != RELOCK_OK)
            crowd->n_refused++;
    }
    return RELOCK_OK;
}

static void a_reader_that_tries_does_not_block_another(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd = {.n_refused = 0};
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct actor *readers[N_READERS];

    crowd.read = ours.read;
    pthread_barrier_init(&crowd.together, NULL, N_READERS);
    actors_begin(readers, N_READERS, try_to_read_together, &crowd);
    for (int i = 0; i < N_READERS; i++)
        assert_result(actor_result_within(readers[i], 6 * SOON_MS), RELOCK_OK);
    pthread_barrier_destroy(&crowd.together);
    assert_int_equal(crowd.n_refused, 0);
    assert_int_equal(stats_of(f->clients[0]).contended, 0);
    assert_int_equal(stats_of(f->clients[0]).acquired, N_READERS * ROUNDS);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* ---- kinds --------------------------------------------------------------------------------- */

static void a_name_with_sides_is_of_no_other_kind(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = NULL;

    (void)sides_of(f, client);
    assert_result(relock_lock_new(client, "orders", &lock), RELOCK_E_INVALID);
    assert_result(relock_fairlock_new(client, "orders", &lock), RELOCK_E_INVALID);
    (void)fixture_lock(f, client, "invoices");
    assert_result(relock_rdlock_new(client, "invoices", &lock), RELOCK_E_INVALID);
    assert_result(relock_wrlock_new(client, "invoices", &lock), RELOCK_E_INVALID);
    assert_null(lock);
}

static void a_reentrant_lock_of_another_client_keeps_both_sides_out(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *reentrant = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(reentrant), RELOCK_OK);
    assert_result(relock_trylock(ours.read), RELOCK_BUSY);
    assert_result(relock_trylock(ours.write), RELOCK_BUSY);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(relock_unlock(reentrant), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_trylock(reentrant), RELOCK_BUSY);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(readers_hold_the_lock_together),
        SERVER_TEST(a_writer_is_alone),
        SERVER_TEST(a_writer_keeps_its_own_thread_out_of_another_client),
        SERVER_TEST(a_writer_may_read_and_go_on_reading),
        SERVER_TEST(a_writer_that_reads_may_write_deeper_until_it_only_reads),
        SERVER_TEST(a_writer_that_stops_reading_is_still_alone),
        SERVER_TEST(a_writer_reads_though_another_waits_to_read),
        SERVER_TEST(a_reader_that_asks_to_write_gets_deadlock),
        SERVER_TEST(a_reader_that_asks_to_write_behind_a_waiting_writer_gets_deadlock),
        SERVER_TEST(a_reader_that_tries_does_not_block_another),
        SERVER_TEST(a_name_with_sides_is_of_no_other_kind),
        SERVER_TEST(a_reentrant_lock_of_another_client_keeps_both_sides_out),
    };

    return SERVER_TESTS_RUN(tests);
}
