/*
 * Refusals of a real server that last: RELOCK_E_SERVER at once, with the server's own words in the
 * log. For missing rights see rights_test.c, for unknown commands unknown_test.c.
 */
#include "faults.h"

#define LEASE_MS 3000

static void set_max_memory(struct faults *t, const char *bytes)
{
    assert_int_equal(probe_int(t->f->probe, "CONFIG SET maxmemory %s", bytes), 0);
}

static void a_server_out_of_memory_refuses_new_holds_only(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *other = fixture_lock(t->f, client, "invoices");

    assert_result(relock_lock(lock), RELOCK_OK);
    set_max_memory(t, "1");
    assert_result(relock_lock(other), RELOCK_E_SERVER);
    assert_true(log_wait(t->f->log, "OOM", SOON_MS));
    assert_result(relock_unlock(other), RELOCK_NOT_OWNER);

    assert_result(relock_lock(lock), RELOCK_E_SERVER); /* still held once */
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 3));
    assert_true(relock_valid_ms(lock) > 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

static void a_server_out_of_memory_ends_no_hold_of_any_kind(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    int (*const constructors[])(struct relock_client *, const char *, struct relock_lock **) = {
        relock_lock_new,   relock_fairlock_new,  relock_fencedlock_new, relock_rdlock_new,
        relock_wrlock_new, relock_plainlock_new, relock_semaphore_new};
    struct relock_lock *locks[7];

    for (int i = 0; i < 7; i++) {
        char name[] = "orders:0";

        name[sizeof(name) - 2] += (char)i;
        assert_result(constructors[i](client, name, &locks[i]), RELOCK_OK);
        if (i == 6)
            assert_result(relock_semaphore_init(locks[i], 1, NULL), RELOCK_OK);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    set_max_memory(t, "1");
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 7 * 4)); /* over a lease */
    for (int i = 0; i < 7; i++) {
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        relock_lock_free(locks[i]);
    }
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_int_equal(probe_int(t->f->probe, "DEL orders:6 redisson_lock_token:{orders:2}"), 2);
}

/* A stranger overwrites the key: the holder is told at once, the key stays as it is, and the other
 * holds are renewed. */
static void a_key_that_becomes_another_type_is_lost_and_left_alone(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *other = fixture_lock(t->f, client, "invoices");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(other), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "SET orders precious"), 0);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(t->f->losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(log_count(t->f->log, "WRONGTYPE"), 0);
    assert_result(relock_unlock(other), RELOCK_OK);
    assert_string_equal(probe_text(t->f->probe, "GET orders"), "precious");
    assert_int_equal(probe_int(t->f->probe, "DEL orders"), 1);
}

/* Also after a failed test. */
static int end_refusals(void **state)
{
    set_max_memory(*state, "0");
    return faults_end(state);
}

#define REFUSAL_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, end_refusals)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFUSAL_TEST(a_server_out_of_memory_refuses_new_holds_only),
        REFUSAL_TEST(a_server_out_of_memory_ends_no_hold_of_any_kind),
        REFUSAL_TEST(a_key_that_becomes_another_type_is_lost_and_left_alone),
    };

    return FAULT_TESTS_RUN(tests);
}
