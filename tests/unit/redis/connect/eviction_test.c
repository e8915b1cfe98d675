/* The memory of a server: which replies mean that locks may be evicted. */
#include "redis/deployment/run.h"

#include "logins.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

static void says(int type, const char *text)
{
    char copy[128];
    redisReply reply = {.type = type, .str = copy, .len = strlen(text)};

    snprintf(copy, sizeof(copy), "%s", text);
    relock_eviction_warn(&server, &reply);
}

static void says_memory(const char *limit, const char *policy)
{
    char text[128];

    snprintf(text, sizeof(text), "# Memory\r\nmaxmemory:%s\r\nmaxmemory_policy:%s\r\n", limit,
             policy);
    says(REDIS_REPLY_STRING, text);
}

static void every_policy_but_noeviction_may_evict_a_lock(void **state)
{
    static const char *const policies[] = {
        "allkeys-lru",  "allkeys-lfu",     "allkeys-random", "volatile-lru",
        "volatile-lfu", "volatile-random", "volatile-ttl",   "noeviction-but-some",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(policies); i++) {
        says_memory("1", policies[i]);
        assert_int_equal(log_count(lines, policies[i]), 1);
    }
    assert_int_equal(log_count(lines, LOGIN_LABEL ": maxmemory-policy is "), COUNT(policies));
    assert_int_equal(log_count(lines, "set maxmemory-policy noeviction"), COUNT(policies));
}

static void other_replies_mean_no_eviction(void **state)
{
    (void)state;

    says_memory("1", "noeviction");
    says_memory("0", "allkeys-lru");
    says(REDIS_REPLY_STRING, "# Memory\r\nmaxmemory_policy:allkeys-lru\r\n");
    says(REDIS_REPLY_STRING, "# Memory\r\nmaxmemory:1\r\n");
    says(REDIS_REPLY_STRING, "");
    says(REDIS_REPLY_ERROR, "NOPERM no permissions to run 'info'");
    says(REDIS_REPLY_NIL, "");
    assert_int_equal(log_count(lines, ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOGIN_TEST(every_policy_but_noeviction_may_evict_a_lock),
        LOGIN_TEST(other_replies_mean_no_eviction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
