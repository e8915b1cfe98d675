#include "support/multi.h"

#define MAX_MEMBERS 16

static struct server *servers[N_BESIDE];
static struct probe *probes[N_BESIDE];

struct relock_lock *fixture_multi(struct fixture *f, struct relock_lock *first, ...)
{
    struct relock_lock *members[MAX_MEMBERS] = {first};
    size_t n = 1;
    size_t i = 0;
    va_list more;

    va_start(more, first);
    while (n < MAX_MEMBERS && (members[n] = va_arg(more, struct relock_lock *)))
        n++;
    va_end(more);
    assert_true(n < MAX_MEMBERS);
    while (i < FIXTURE_MAX_LOCKS && f->locks[i])
        i++;
    assert_true(i < FIXTURE_MAX_LOCKS);
    assert_result(relock_multilock_new(members, n, &f->locks[i]), RELOCK_OK);
    return f->locks[i];
}

struct server *beside_server(size_t nth)
{
    return servers[nth];
}

struct probe *beside_probe(size_t nth)
{
    return probes[nth];
}

struct relock_client *beside_client(struct fixture *f, size_t nth,
                                    const struct relock_options *options)
{
    struct relock_options all = options ? *options : (struct relock_options){0};

    all.url = servers[nth]->unix_url;
    return fixture_client(f, &all);
}

int multi_group_start(void **state)
{
    int r = fixture_start(state);

    for (size_t i = 0; r == 0 && i < N_BESIDE; i++) {
        servers[i] = server_start(NULL);
        probes[i] = probe_open(servers[i]->socket);
    }
    return r;
}

int multi_group_stop(void **state)
{
    for (size_t i = 0; i < N_BESIDE; i++) {
        probe_close(probes[i]);
        server_stop(servers[i]);
    }
    return fixture_stop(state);
}

int multi_begin(void **state)
{
    for (size_t i = 0; i < N_BESIDE; i++)
        probe_int(probes[i], "FLUSHALL");
    return fixture_begin(state);
}

static bool has_no_keys(void *arg)
{
    return probe_n_keys(arg) == 0;
}

int multi_end(void **state)
{
    static const char forget_counters[] =
        "for _, key in ipairs(redis.call('keys', 'redisson_lock_token:*')) do"
        "    redis.call('del', key) "
        "end "
        "return 0";
    bool no_keys = true;
    int r;

    for (size_t i = 0; i < N_BESIDE; i++) {
        if (servers[i]->pid == 0)
            server_restart(servers[i]);
        server_resume(servers[i]);
        probe_int(probes[i], "EVAL %s 0", forget_counters);
        no_keys = wait_until(has_no_keys, probes[i], SOON_MS) && no_keys;
    }
    r = fixture_end_fenced(state);
    assert_true(no_keys);
    return r;
}
