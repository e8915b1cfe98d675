/* Redis runs exactly the Lua files, by their SHA-1, and may forget them at any time. */
#include "scripts.h"
#include "support/waiter.h"

#include <string.h>

#define LEASE_MS 2000 /* outlives a second in which a machine stands still */

static void forget_scripts(struct fixture *f)
{
    assert_int_equal(probe_int(f->probe, "SCRIPT FLUSH"), 0);
}

static void every_call_goes_on_when_redis_forgot_its_scripts(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_holder holder;
    unsigned count;

    for (int round = 0; round < 2; round++) {
        forget_scripts(f);
        assert_result(relock_lock(lock), RELOCK_OK);
        forget_scripts(f);
        assert_result(relock_lock(lock), RELOCK_OK);
        forget_scripts(f);
        assert_result(relock_extend(lock, 0, 60000), RELOCK_OK);
        forget_scripts(f);
        assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
        assert_int_equal(holder.hold_count, 2);
        forget_scripts(f);
        assert_result(relock_hold_count(lock, &count), RELOCK_OK);
        assert_int_equal(count, 2);
        forget_scripts(f);
        assert_result(relock_unlock(lock), RELOCK_OK);
        forget_scripts(f);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    }
    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    forget_scripts(f);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static void renewals_go_on_when_redis_forgot_its_scripts(void **state)
{
    struct fixture *f = *state;
    uint64_t lease_ms = slow_ms(LEASE_MS);
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = lease_ms});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    for (uint64_t until_ms = now_ms() + lease_ms * 5 / 4; now_ms() < until_ms;
         let_pass(lease_ms / 20)) {
        forget_scripts(f);
        assert_true(probe_pttl(f->probe, "orders") > 0);
    }
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void waits_go_on_when_redis_forgot_its_scripts(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    waiter_begin(f, waiting, lock);
    forget_scripts(f);
    waiter_gets_in(f, waiting, lock);
}

/* Sent by hash: the text goes over the wire once. */
static void scripts_are_sent_by_their_hash(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    long long evals = probe_calls(f->probe, "eval"), loads;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    loads = probe_calls(f->probe, "script|load") + probe_calls(f->probe, "script");
    for (int i = 0; i < 10; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_int_equal(probe_calls(f->probe, "eval"), evals);
    assert_int_equal(probe_calls(f->probe, "script|load") + probe_calls(f->probe, "script"), loads);
}

/* Its text and its hash; the unit tests compare the text with the files. */
struct script {
    const char *name, *sha1, *body;
};

static const struct script *find_script(const char *name)
{
    static const struct script scripts[] = {
#define SCRIPT(name, sha1, body) {#name, sha1, body},
        RELOCK_SCRIPT_MAP(SCRIPT)
#undef SCRIPT
    };

    for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++)
        if (strcmp(scripts[i].name, name) == 0)
            return &scripts[i];
    fail_msg("no script %s", name);
    return NULL;
}

static void redis_knows_each_script_by_the_hash_of_its_text(void **state)
{
    static const char *const names[] = {"lock",  "extend", "inspect",
                                        "renew", "unlock", "force_unlock"};
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_holder holder;

    forget_scripts(f);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_for_renewals(client, 0, 1));
    assert_result(relock_extend(lock, 0, LEASE_MS), RELOCK_OK);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_LOST);

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const struct script *script = find_script(names[i]);

        assert_string_equal(
            probe_text(f->probe, "EVAL %s 0 %s", "return redis.sha1hex(ARGV[1])", script->body),
            script->sha1);
        assert_int_equal(probe_int(f->probe, "SCRIPT EXISTS %s", script->sha1), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(every_call_goes_on_when_redis_forgot_its_scripts),
        SERVER_TEST(renewals_go_on_when_redis_forgot_its_scripts),
        SERVER_TEST(waits_go_on_when_redis_forgot_its_scripts),
        SERVER_TEST(scripts_are_sent_by_their_hash),
        SERVER_TEST(redis_knows_each_script_by_the_hash_of_its_text),
    };

    return SERVER_TESTS_RUN(tests);
}
