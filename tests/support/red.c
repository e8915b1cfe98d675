#include "support/red.h"

#include <stdio.h>
#include <string.h>

#define QUIET_MS 200      /* longer than any pause between two tries */
#define LATE_VOTE_MS 2000 /* a vote that is later does not come */

struct relock_lock *red_lock_of(struct fixture *f, struct relock_lock *const *members, size_t n)
{
    struct relock_lock **lock = fixture_place(f);

    assert_result(relock_redlock_new(members, n, lock), RELOCK_OK);
    return *lock;
}

typedef struct relock_client *client_fn(struct servers *s, size_t i,
                                        const struct relock_options *options);

static struct red make(struct servers *s, const struct relock_options *options, client_fn *client,
                       fixture_constructor_fn *constructor)
{
    struct red red = {.n = s->n};

    for (size_t i = 0; i < s->n; i++) {
        red.clients[i] = client(s, i, options);
        red.members[i] = fixture_lock_of(s->f, red.clients[i], RED_NAME, constructor);
    }
    red.lock = red_lock_of(s->f, red.members, red.n);
    return red;
}

struct red red_new(struct servers *s, const struct relock_options *options)
{
    return make(s, options, servers_client, relock_lock_new);
}

struct red red_new_by_proxy(struct servers *s, const struct relock_options *options)
{
    return make(s, options, servers_client_by_proxy, relock_lock_new);
}

struct red red_new_of(struct servers *s, const struct relock_options *options,
                      fixture_constructor_fn *constructor)
{
    return make(s, options, servers_client, constructor);
}

static bool stands_still(const struct server *server)
{
    char path[64], stat[256] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)server->pid);
    file = fopen(path, "re");
    if (!file)
        return true;
    if (!fgets(stat, sizeof(stat), file))
        stat[0] = '\0';
    fclose(file);
    return strstr(stat, ") T ") != NULL;
}

bool red_has_key(struct servers *s, size_t i)
{
    return s->server[i]->pid > 0 && !stands_still(s->server[i]) &&
           probe_int(s->probe[i], "EXISTS " RED_NAME) == 1;
}

size_t red_n_keys(struct servers *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += red_has_key(s, i);
    return n;
}

void red_strangers_take(struct servers *s, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        assert_int_equal(probe_int(s->probe[i], "HSET " RED_NAME " other:1 1"), 1);
}

void red_delete_keys(struct servers *s, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        assert_int_equal(probe_int(s->probe[i], "DEL " RED_NAME), 1);
}

void red_publish_release(struct servers *s, size_t i)
{
    probe_int(s->probe[i], "PUBLISH redisson_lock__channel:{" RED_NAME "} 0");
}

struct expected {
    struct servers *s;
    size_t n;
};

static bool have_keys(void *arg)
{
    const struct expected *expected = arg;

    return red_n_keys(expected->s) == expected->n;
}

bool red_wait_keys(struct servers *s, size_t n)
{
    return wait_until(have_keys, &(struct expected){s, n}, SOON_MS);
}

static void assert_released(int r)
{
    if (r != RELOCK_E_CONN)
        assert_result(r, RELOCK_OK);
}

void red_unlock(const struct red *red)
{
    assert_released(relock_unlock(red->lock));
}

/* A server that did not answer for long is not asked. Then the lock is acquired anew. */
void red_lock_on_all(struct servers *s, const struct red *red)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    bool has_all;

    assert_result(relock_lock(red->lock), RELOCK_OK);
    while (!(has_all = wait_until(have_keys, &(struct expected){s, s->n}, LATE_VOTE_MS)) &&
           now_ms() < deadline_ms) {
        red_unlock(red);
        assert_true(red_wait_keys(s, 0));
        assert_result(relock_lock(red->lock), RELOCK_OK);
    }
    assert_true(has_all);
}

/* Only votes that were counted are renewed. */
void red_wait_votes(const struct red *red)
{
    uint64_t n_renewed[SERVERS_MAX];

    for (size_t i = 0; i < red->n; i++)
        n_renewed[i] = stats_of(red->clients[i]).renewed;
    for (size_t i = 0; i < red->n; i++)
        assert_true(wait_for_renewals(red->clients[i], n_renewed[i], 1));
}

void red_unlock_by(struct actor *actor, const struct red *red)
{
    assert_released(actor_unlock(actor, red->lock));
}

void red_assert_gets_in(struct actor *actor, const struct red *red)
{
    assert_result(actor_result(actor), RELOCK_OK);
    red_unlock_by(actor, red);
}

void red_settle(struct servers *s, struct red *red, size_t n)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    size_t n_keys;

    do {
        int r = relock_lock(red->lock);

        n_keys = 0;
        if (r == RELOCK_E_CONN)
            continue; /* clients reconnect to a server after a pause */
        assert_result(r, RELOCK_OK);
        let_pass(20); /* the last to answer */
        n_keys = red_n_keys(s);
        red_unlock(red);
        assert_true(red_wait_keys(s, 0));
    } while (n_keys < n && now_ms() < deadline_ms);
    assert_int_equal(n_keys, n);
}

static bool listens_everywhere(void *arg)
{
    struct servers *s = arg;
    bool listens = true;

    for (size_t i = 0; i < s->n && listens; i++)
        listens = s->server[i]->pid == 0 ||
                  probe_subscribers(s->probe[i], "redisson_lock__channel:{" RED_NAME "}") > 0;
    return listens;
}

long long red_script_calls(struct servers *s)
{
    long long calls = 0;

    for (size_t i = 0; i < s->n; i++)
        calls += probe_script_calls(s->probe[i]);
    return calls;
}

static bool is_quiet(void *arg)
{
    long long before = red_script_calls(arg);

    let_pass(QUIET_MS);
    return red_script_calls(arg) == before;
}

void red_assert_sleeps(struct servers *s, struct red *red, struct actor *actor)
{
    assert_true(wait_for_waiters(red->clients[0], 1));
    assert_true(wait_until(listens_everywhere, s, SOON_MS));
    assert_true(wait_until(is_quiet, s, SOON_MS));
    assert_true(actor_is_busy(actor));
}

bool red_wait_quiet(struct servers *s)
{
    return wait_until(is_quiet, s, SOON_MS);
}
