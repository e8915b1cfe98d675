/* The scripts in the library. scripts_test.py compares their text. */
#include "redis/server/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const struct relock_script *script;
    const char *name;
} scripts[] = {
    {&relock_script_extend, "extend"},
    {&relock_script_fair_force_unlock, "fair_force_unlock"},
    {&relock_script_fair_lock, "fair_lock"},
    {&relock_script_fair_unlock, "fair_unlock"},
    {&relock_script_fenced_lock, "fenced_lock"},
    {&relock_script_force_unlock, "force_unlock"},
    {&relock_script_inspect, "inspect"},
    {&relock_script_latch_count_down, "latch_count_down"},
    {&relock_script_latch_delete, "latch_delete"},
    {&relock_script_like_force_unlock, "like_force_unlock"},
    {&relock_script_like_unlock, "like_unlock"},
    {&relock_script_line_leave, "line_leave"},
    {&relock_script_lock, "lock"},
    {&relock_script_look, "look"},
    {&relock_script_number_try_set, "number_try_set"},
    {&relock_script_plain_force_unlock, "plain_force_unlock"},
    {&relock_script_plain_inspect, "plain_inspect"},
    {&relock_script_plain_lock, "plain_lock"},
    {&relock_script_plain_renew, "plain_renew"},
    {&relock_script_plain_renew_many, "plain_renew_many"},
    {&relock_script_plain_unlock, "plain_unlock"},
    {&relock_script_plain_watch, "plain_watch"},
    {&relock_script_publish_waits, "publish_waits"},
    {&relock_script_read_extend, "read_extend"},
    {&relock_script_read_lock, "read_lock"},
    {&relock_script_read_renew, "read_renew"},
    {&relock_script_read_renew_many, "read_renew_many"},
    {&relock_script_read_unlock, "read_unlock"},
    {&relock_script_renew, "renew"},
    {&relock_script_renew_many, "renew_many"},
    {&relock_script_rw_force_unlock, "rw_force_unlock"},
    {&relock_script_rw_inspect, "rw_inspect"},
    {&relock_script_since_read, "since_read"},
    {&relock_script_since_write, "since_write"},
    {&relock_script_semaphore_force_unlock, "semaphore_force_unlock"},
    {&relock_script_semaphore_inspect, "semaphore_inspect"},
    {&relock_script_semaphore_lock, "semaphore_lock"},
    {&relock_script_semaphore_permits, "semaphore_permits"},
    {&relock_script_semaphore_renew, "semaphore_renew"},
    {&relock_script_semaphore_renew_many, "semaphore_renew_many"},
    {&relock_script_semaphore_unlock, "semaphore_unlock"},
    {&relock_script_unleased_acquire, "unleased_acquire"},
    {&relock_script_unleased_add, "unleased_add"},
    {&relock_script_unleased_drain, "unleased_drain"},
    {&relock_script_unleased_release, "unleased_release"},
    {&relock_script_unlock, "unlock"},
    {&relock_script_waits_behind, "waits_behind"},
    {&relock_script_waits_find, "waits_find"},
    {&relock_script_write_lock, "write_lock"},
    {&relock_script_write_unlock, "write_unlock"},
};

#define N_SCRIPTS (sizeof(scripts) / sizeof(*scripts))

static void each_script_has_its_name_its_hash_and_its_body(void **state)
{
    (void)state;

    for (size_t i = 0; i < N_SCRIPTS; i++) {
        const struct relock_script *script = scripts[i].script;

        assert_string_equal(script->name, scripts[i].name);
        assert_int_equal(strlen(script->sha1), 40);
        assert_int_equal(strspn(script->sha1, "0123456789abcdef"), 40);
        assert_memory_equal(script->body, "--[[\n", 5);
        assert_non_null(strstr(script->body, "redis.call("));
    }
}

static void no_two_scripts_are_the_same(void **state)
{
    (void)state;

    for (size_t i = 0; i < N_SCRIPTS; i++)
        for (size_t other = 0; other < i; other++) {
            assert_string_not_equal(scripts[i].script->sha1, scripts[other].script->sha1);
            assert_string_not_equal(scripts[i].script->body, scripts[other].script->body);
        }
}

static void the_list_has_all_scripts(void **state)
{
    size_t n = 0;

    (void)state;

    while (relock_scripts[n])
        n++;
    assert_int_equal(n, N_SCRIPTS);
    for (size_t i = 0; i < N_SCRIPTS; i++)
        assert_ptr_equal(relock_scripts[i], scripts[i].script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_script_has_its_name_its_hash_and_its_body),
        cmocka_unit_test(no_two_scripts_are_the_same),
        cmocka_unit_test(the_list_has_all_scripts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
