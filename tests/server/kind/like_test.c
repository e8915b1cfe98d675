/* relock_plainlock_like(): the keys of other libraries, and how their waiters are told. The suite
 * `interop` runs the libraries themselves. */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/listener.h"
#include "support/plain_peer.h"

#include <stdio.h>
#include <string.h>

#define SILENT_MS 100

static struct relock_lock *like(struct fixture *f, struct relock_client *client,
                                const char *library, const char *name)
{
    struct relock_lock **lock = fixture_place(f);

    assert_result(relock_plainlock_like(client, library, name, lock), RELOCK_OK);
    return *lock;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void each_library_has_its_key(void **state)
{
    static const char *const rows[][2] = {
        {"bsm-redislock", "orders"},
        {"django-redis", ":1:orders"},
        {"django-redis:shop:2", "shop:2:orders"},
        {"node-redlock", "orders"},
        {"pottery", "redlock:orders"},
        {"python-redis-lock", "lock:orders"},
        {"redis-lock", "lock.orders"},
        {"redis-py", "orders"},
        {"redis-semaphore", "mutex:orders"},
        {"redlock-py", "orders"},
        {"redlock-universal", "orders"},
        {"redsync", "orders"},
        {"rslock", "orders"},
        {"rueidislock", "rueidislock:0:orders"},
        {"rueidislock:shop", "shop:0:orders"},
        {"sesamecare-redlock", "orders"},
        {"shedlock", "job-lock:default:orders"},
        {"shedlock:test", "job-lock:test:orders"},
        {"simple-redis-mutex", "@simple-redis-mutex:lock-orders"},
        {"spring-integration:shop", "shop:orders"},
        {"spring-integration:shop:locks", "shop:locks:orders"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct relock_client *client = fixture_client(f, NULL);
        struct relock_lock *lock = like(f, client, rows[i][0], "orders");

        print_message("%s\n", rows[i][0]);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_int_equal(probe_int(f->probe, "STRLEN %s", rows[i][1]), 40);
        assert_string_equal(relock_lock_name(lock), "orders");
        assert_result(relock_unlock(lock), RELOCK_OK);
        fixture_free_lock(f, lock);
        fixture_free_client(f, client);
    }
}

static bool count_lock(const struct relock_lock_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return true;
}

static int n_found(struct relock_client *client)
{
    int n = 0;

    assert_result(relock_locks(client, "*", count_lock, &n), RELOCK_OK);
    return n;
}

/* By its key, which is not one that the client could name by its prefix. */
static void a_client_with_a_prefix_does_not_find_keys_that_begin_otherwise(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.name_prefix = "eu:"});
    struct relock_lock *locks[] = {like(f, client, "pottery", "orders"),
                                   like(f, client, "redis-py", "orders")};

    assert_result(relock_lock(locks[0]), RELOCK_OK);
    assert_int_equal(n_found(client), 0);
    assert_int_equal(n_found(fixture_client(f, NULL)), 1);
    assert_result(relock_lock(locks[1]), RELOCK_OK);
    assert_int_equal(n_found(client), 1);
    assert_result(relock_unlock(locks[1]), RELOCK_OK);
    assert_result(relock_unlock(locks[0]), RELOCK_OK);
}

/* The prefix is a part of what the other library is given. */
static void the_prefix_of_the_client_stands_before_the_name(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.name_prefix = "eu:"});
    struct relock_lock *lock = like(f, client, "spring-integration:shop", "orders");
    struct listener *heard = listener_open(f->server->socket, "shop-channel:shop:eu:orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "STRLEN shop:eu:orders"), 40);
    assert_string_equal(relock_lock_name(lock), "orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(heard, "shop:eu:orders", SOON_MS));
    listener_close(heard);
}

static int try_like(struct relock_client *client, const char *library, const char *name)
{
    struct relock_lock *lock = NULL;
    int r = relock_plainlock_like(client, library, name, &lock);

    relock_lock_free(lock);
    return r;
}

static void what_names_no_lock_is_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    char long_one[4096];

    assert_result(try_like(client, "portalocker", "orders"), RELOCK_E_INVALID);
    assert_true(log_wait(f->log,
                         "is none of bsm-redislock django-redis node-redlock pottery "
                         "python-redis-lock redis-lock redis-py redis-semaphore redlock-py "
                         "redlock-universal redsync rslock rueidislock sesamecare-redlock "
                         "shedlock simple-redis-mutex spring-integration",
                         SOON_MS));
    assert_result(try_like(client, "redis", "orders"), RELOCK_E_INVALID);
    assert_result(try_like(client, "redis-py2", "orders"), RELOCK_E_INVALID);
    assert_result(try_like(client, "", "orders"), RELOCK_E_INVALID);
    assert_result(try_like(client, NULL, "orders"), RELOCK_E_INVALID);
    assert_result(try_like(NULL, "redis-py", "orders"), RELOCK_E_INVALID);

    assert_result(try_like(client, "redis-py:x", "orders"), RELOCK_E_INVALID);
    assert_true(log_wait(f->log, "nothing may follow its name", SOON_MS));
    assert_result(try_like(client, "spring-integration", "orders"), RELOCK_E_INVALID);
    assert_result(try_like(client, "spring-integration:", "orders"), RELOCK_E_INVALID);
    assert_true(log_wait(f->log, "the key of the registry", SOON_MS));

    assert_result(try_like(client, "redis-py", ""), RELOCK_E_INVALID);
    assert_result(try_like(client, "redis-py", NULL), RELOCK_E_INVALID);
    memset(long_one, 'x', sizeof(long_one) - 1);
    long_one[sizeof(long_one) - 1] = '\0'; /* 4095 bytes */
    assert_result(try_like(client, "redis-py", long_one), RELOCK_OK);
    assert_result(try_like(client, "pottery", long_one), RELOCK_E_INVALID);
    memcpy(long_one, "shedlock:", strlen("shedlock:"));
    assert_result(try_like(client, long_one, "orders"), RELOCK_E_INVALID);
}

static void a_key_has_one_name_and_one_way_to_tell(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = like(f, client, "spring-integration:shop", "eu:orders");
    struct relock_lock *plain = fixture_lock_of(f, client, "orders", relock_plainlock_new);
    struct relock_lock *same;

    assert_result(try_like(client, "spring-integration:shop", "eu:orders"), RELOCK_OK);
    assert_result(try_like(client, "spring-integration:shop:eu", "orders"), RELOCK_E_INVALID);
    assert_true(log_wait(f->log, "with this key under another name", SOON_MS));
    assert_result(relock_plainlock_new(client, "shop:eu:orders", &same), RELOCK_E_INVALID);
    assert_true(log_wait(f->log, "a lock of another kind", SOON_MS));
    fixture_free_lock(f, lock);
    assert_result(try_like(client, "spring-integration:shop:eu", "orders"), RELOCK_OK);

    assert_result(relock_lock(plain), RELOCK_OK);
    assert_true(relock_is_mine(like(f, client, "redis-py", "orders"))); /* they are one */
    assert_result(relock_unlock(plain), RELOCK_OK);
}

/* The list has a slot of its own. */
static void in_a_cluster_a_list_needs_a_tag(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){.url = "redis+cluster://127.0.0.1:1", .flags = RELOCK_LAZY});

    assert_result(try_like(client, "python-redis-lock", "orders"), RELOCK_E_INVALID);
    assert_true(log_wait(f->log, "the name needs a { and a }", SOON_MS));
    assert_result(try_like(client, "python-redis-lock", "{}orders"), RELOCK_E_INVALID);
    assert_result(try_like(client, "python-redis-lock", "orders}"), RELOCK_E_INVALID);
    assert_result(try_like(client, "python-redis-lock", "{shop}orders"), RELOCK_OK);
    assert_result(try_like(client, "spring-integration:shop", "orders"), RELOCK_OK);
    assert_result(try_like(client, "redis-semaphore", "orders"), RELOCK_OK);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Once, by the last level; not by a hold that was lost. */
static void tells_once(struct fixture *f, struct relock_lock *lock, const char *key,
                       struct listener *heard, const char *message)
{
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears_nothing(heard, SILENT_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(heard, message, SOON_MS));

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(plain_peer_usurp(f->probe, key, PLAIN_PEER, NEVER_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(listener_hears_nothing(heard, SILENT_MS));
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(heard, message, SOON_MS));
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_release_tells_the_waiters_of_spring(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock =
        like(f, fixture_client(f, NULL), "spring-integration:sh%k:op", "ord%pers");
    struct listener *heard = listener_open(f->server->socket, "sh%k:op-channel:sh%k:op:ord%pers");

    tells_once(f, lock, "sh%k:op:ord%pers", heard, "sh%k:op:ord%pers");
    listener_close(heard);
}

/* In JSON, which a name with a quote would break. */
static void a_release_tells_the_waiters_of_simple_redis_mutex(void **state)
{
    static const char begins[] =
        "{ \"key\": \"@simple-redis-mutex:lock-a \\\"b\\\"\", \"value\": \"";
    struct fixture *f = *state;
    struct relock_lock *lock = like(f, fixture_client(f, NULL), "simple-redis-mutex", "a \"b\"");
    struct listener *heard = listener_open(f->server->socket, "@simple-redis-mutex:locks-releases");
    char message[sizeof(begins) + 64];

    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(message, sizeof(message), "%s%s\" }", begins,
             probe_text(f->probe, "GET %s", "@simple-redis-mutex:lock-a \"b\""));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(heard, message, SOON_MS));
    listener_close(heard);
}

/* 1 if a signal came. */
static int await_signal(void *probe)
{
    return strcmp(probe_list(probe, "BLPOP lock-signal:orders 30"), "lock-signal:orders 1") == 0;
}

static bool is_blocked(void *probe)
{
    return strstr(probe_text(probe, "INFO clients"), "blocked_clients:1") != NULL;
}

static void a_release_tells_the_waiters_of_python_redis_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = like(f, fixture_client(f, NULL), "python-redis-lock", "orders");
    struct probe *blocking = probe_open(f->server->socket);
    struct actor *waiting = actor_start();
    int64_t pttl;

    for (int by_force = 0; by_force < 2; by_force++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        actor_begin(waiting, await_signal, blocking);
        assert_true(wait_until(is_blocked, f->probe, SOON_MS));
        assert_result(by_force ? relock_force_unlock(lock) : relock_unlock(lock), RELOCK_OK);
        assert_int_equal(actor_result(waiting), 1);
        if (by_force)
            assert_result(relock_unlock(lock), RELOCK_LOST);
    }
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "RPUSH lock-signal:orders 1 1 1"), 3);
    assert_result(relock_unlock(lock), RELOCK_OK);
    pttl = probe_pttl(f->probe, "lock-signal:orders"); /* of the one that replaced these, or over */
    assert_in_range(pttl + 2, 0, 1002);
    assert_true(probe_int(f->probe, "LLEN lock-signal:orders") <= 1);
    assert_true(wait_for_no_keys(f->probe));
    probe_close(blocking);
}

/* ---- rights -------------------------------------------------------------------------------- */

static struct relock_client *client_without(struct fixture *f, const char *right)
{
    char rights[64];

    snprintf(rights, sizeof(rights), "~* &* +@all %s", right);
    assert_true(probe_make_user(f->probe, "locker", "secret", rights));
    return fixture_client(f, &(struct relock_options){.user = "locker", .password = "secret"});
}

static void a_release_needs_no_right_to_tell(void **state)
{
    static const char *const rows[][2] = {{"spring-integration:shop", "-publish"},
                                          {"simple-redis-mutex", "-publish"},
                                          {"python-redis-lock", "-lpush"}};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct relock_client *client = client_without(f, rows[i][1]);
        struct relock_lock *lock = like(f, client, rows[i][0], "orders");

        print_message("%s\n", rows[i][0]);
        log_clear(f->log);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_true(log_wait(f->log, "refused to tell the waiters of the other library", SOON_MS));
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_force_unlock(lock), RELOCK_OK);
        assert_int_equal(probe_n_keys(f->probe), 0);
        assert_result(relock_unlock(lock), RELOCK_LOST);
        fixture_free_lock(f, lock);
        fixture_free_client(f, client);
    }
}

/* Without memory for a list. */
static void a_full_server_still_frees_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = like(f, fixture_client(f, NULL), "python-redis-lock", "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "CONFIG SET maxmemory 1"), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "CONFIG SET maxmemory 0"), 0);
    assert_int_equal(probe_int(f->probe, "EXISTS lock:orders"), 0);
    assert_true(wait_for_no_keys(f->probe));
}

/* Of a plain lock with this name, nobody knows whether it is python-redis-lock's. */
static void a_forced_unlock_leaves_the_data_of_other_programs(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock_of(f, client, "lock:orders", relock_plainlock_new);

    assert_result(relock_lock(lock), RELOCK_OK);
    probe_text(f->probe, "SET lock-signal:orders data");
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_string_equal(probe_text(f->probe, "GET lock-signal:orders"), "data");
    assert_int_equal(probe_int(f->probe, "DEL lock-signal:orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_library_has_its_key),
        SERVER_TEST(the_prefix_of_the_client_stands_before_the_name),
        SERVER_TEST(a_client_with_a_prefix_does_not_find_keys_that_begin_otherwise),
        SERVER_TEST(what_names_no_lock_is_refused),
        SERVER_TEST(a_key_has_one_name_and_one_way_to_tell),
        SERVER_TEST(in_a_cluster_a_list_needs_a_tag),
        SERVER_TEST(a_release_tells_the_waiters_of_spring),
        SERVER_TEST(a_release_tells_the_waiters_of_simple_redis_mutex),
        SERVER_TEST(a_release_tells_the_waiters_of_python_redis_lock),
        SERVER_TEST(a_release_needs_no_right_to_tell),
        SERVER_TEST(a_full_server_still_frees_the_lock),
        SERVER_TEST(a_forced_unlock_leaves_the_data_of_other_programs),
    };

    return SERVER_TESTS_RUN(tests);
}
