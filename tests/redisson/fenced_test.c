/* The tokens of fenced locks grow over all grants of both libraries. */
#include "duet.h"

#include <stdlib.h>

/* Acquires the lock here or in Redisson, and releases it. The token must be greater than `last`. */
static uint64_t next_token(struct duet *d, struct relock_lock *lock, bool here, uint64_t last)
{
    struct relock_grant grant;
    uint64_t token;

    if (here) {
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        token = grant.fencing_token;
        assert_result(relock_unlock(lock), RELOCK_OK);
    } else {
        assert_string_equal(duet_do(d, "ann", "lock orders"), "ok");
        token = strtoull(duet_do(d, "ann", "token orders"), NULL, 10);
        assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
    }
    assert_true(token > last);
    return token;
}

static void tokens_grow_across_both_libraries(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    static const bool here[] = {false, true, true, false, false, true, false, true};
    uint64_t token = 0;

    for (size_t i = 0; i < sizeof(here) / sizeof(*here); i++)
        token = next_token(d, lock, here[i], token);
    assert_int_equal(token, sizeof(here) / sizeof(*here));
}

/* A deeper level raises the counter in Redisson, but not here. */
static void levels_do_not_break_the_order(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    struct relock_grant first, second;
    uint64_t token;

    assert_string_equal(duet_do(d, "ann", "lock orders"), "ok");
    assert_string_equal(duet_do(d, "ann", "lock orders"), "ok");
    token = strtoull(duet_do(d, "ann", "token orders"), NULL, 10);
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");

    assert_result(relock_acquire(lock, NULL, &first), RELOCK_OK);
    assert_true(first.fencing_token > token);
    assert_result(relock_acquire(lock, NULL, &second), RELOCK_OK);
    assert_true(second.fencing_token == first.fencing_token);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    next_token(d, lock, false, second.fencing_token);
}

static void a_forced_release_does_not_reset_the_counter(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    uint64_t token = next_token(d, lock, true, 0);

    assert_string_equal(duet_do(d, "ann", "lock orders"), "ok");
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    token = next_token(d, lock, true, token + 1);
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "not-owner");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_string_equal(duet_do(d, "ann", "force orders"), "yes");
    token = next_token(d, lock, false, token + 1);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    next_token(d, lock, true, token);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUET_TEST(tokens_grow_across_both_libraries),
        DUET_TEST(levels_do_not_break_the_order),
        DUET_TEST(a_forced_release_does_not_reset_the_counter),
    };

    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
