/* The scripts that renew many locks by themselves: a result for each lock. */
#include "support/fixture.h"

#include "redis/server/script.h"

/* The lock in the middle has a lease that no command takes. */
static const char *renew_three(struct fixture *f, const struct relock_script *script)
{
    return probe_list(f->probe, "EVAL %s 3 a b c id:1 id:1 id:1 30000 bad 30000", script->body);
}

static void an_error_concerns_its_lock_alone(void **state)
{
    struct fixture *f = *state;

    for (char name = 'a'; name <= 'c'; name++) {
        probe_int(f->probe, "HSET %b id:1 1", &name, (size_t)1);
        probe_int(f->probe, "SET {%b}:id:1:rwlock_timeout:1 1 PX 1000000", &name, (size_t)1);
    }
    assert_string_equal(renew_three(f, &relock_script_renew_many), "1  1");
    assert_string_equal(renew_three(f, &relock_script_read_renew_many), "1  1");
    assert_true(probe_pttl(f->probe, "a") > 0);
    assert_true(probe_pttl(f->probe, "b") < 0);
    assert_true(probe_pttl(f->probe, "c") > 0);
    for (char name = 'a'; name <= 'c'; name++)
        probe_int(f->probe, "SET %b id:1", &name, (size_t)1);
    assert_string_equal(renew_three(f, &relock_script_plain_renew_many), "1  1");
    probe_int(f->probe, "FLUSHALL");
}

static void each_lock_has_its_result(void **state)
{
    struct fixture *f = *state;
    const char *body = relock_script_renew_many.body;

    probe_int(f->probe, "HSET a id:1 1");
    probe_int(f->probe, "HSET c id:2 1");
    probe_int(f->probe, "PEXPIRE c 1000");
    probe_int(f->probe, "SET d other");
    assert_string_equal(probe_list(f->probe, "EVAL %s 4 a b c d id:1 id:1 id:1 id:1 30000", body),
                        "1 0 -1 -1");
    assert_true(probe_pttl(f->probe, "a") > 0);
    assert_true(probe_pttl(f->probe, "c") <= 1000);
    assert_string_equal(probe_list(f->probe, "EVAL %s 2 a b id:1 id:1 -1", body), "1 0");
    probe_int(f->probe, "PEXPIRE a 900000");
    assert_int_equal(probe_int(f->probe, "EVAL %s 1 a id:1 30000", body), 1);
    assert_true(probe_pttl(f->probe, "a") > 30000);
    probe_int(f->probe, "FLUSHALL");
}

static void one_reply_stands_for_all_that_are_renewed(void **state)
{
    struct fixture *f = *state;
    const char *body = relock_script_renew_many.body;

    probe_int(f->probe, "HSET a id:1 1");
    probe_int(f->probe, "HSET b id:2 1");
    assert_int_equal(probe_int(f->probe, "EVAL %s 2 a b id:1 id:2 30000", body), 1);
    assert_true(probe_pttl(f->probe, "b") > 0);
    assert_int_equal(probe_int(f->probe, "EVAL %s 2 a b id:1 id:2 -1", body), 1);
    assert_string_equal(probe_list(f->probe, "EVAL %s 2 a b id:1 id:1 30000", body), "1 -1");
    probe_int(f->probe, "FLUSHALL");
}

/* One that was extended, while another program took the lease of the third one off. */
static void a_longer_lease_stays_and_none_is_replaced(void **state)
{
    struct fixture *f = *state;
    const char *body = relock_script_renew_many.body;

    for (char name = 'a'; name <= 'c'; name++)
        probe_int(f->probe, "HSET %b id:1 1", &name, (size_t)1);
    probe_int(f->probe, "PEXPIRE a 900000");
    probe_int(f->probe, "PEXPIRE b 1000");
    assert_int_equal(probe_int(f->probe, "EVAL %s 3 a b c id:1 id:1 id:1 30000", body), 1);
    assert_true(probe_pttl(f->probe, "a") > 30000);
    assert_in_range(probe_pttl(f->probe, "b"), 20000, 30000);
    assert_in_range(probe_pttl(f->probe, "c"), 20000, 30000);
    probe_int(f->probe, "FLUSHALL");
}

static void each_lock_can_have_a_lease_of_its_own(void **state)
{
    struct fixture *f = *state;
    const char *body = relock_script_renew_many.body;

    for (char name = 'a'; name <= 'c'; name++)
        probe_int(f->probe, "HSET %b id:1 1", &name, (size_t)1);
    assert_int_equal(probe_int(f->probe, "EVAL %s 3 a b c id:1 id:1 id:1 900000 -1 30000", body),
                     1);
    assert_true(probe_pttl(f->probe, "a") > 30000);
    assert_true(probe_pttl(f->probe, "b") < 0);
    assert_in_range(probe_pttl(f->probe, "c"), 1, 30000);
    probe_int(f->probe, "FLUSHALL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(an_error_concerns_its_lock_alone),
        SERVER_TEST(each_lock_has_its_result),
        SERVER_TEST(one_reply_stands_for_all_that_are_renewed),
        SERVER_TEST(a_longer_lease_stays_and_none_is_replaced),
        SERVER_TEST(each_lock_can_have_a_lease_of_its_own),
    };

    return SERVER_TESTS_RUN(tests);
}
