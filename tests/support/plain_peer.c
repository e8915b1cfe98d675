#include "support/plain_peer.h"

static const char unlock_script[] = "if redis.call('get', KEYS[1]) == ARGV[1] then"
                                    "    return redis.call('del', KEYS[1]) "
                                    "else"
                                    "    return 0 "
                                    "end";

struct relock_lock *plain_handle(struct fixture *f, struct relock_client *client)
{
    return fixture_lock_of(f, client, "orders", relock_plainlock_new);
}

bool plain_peer_lock(struct probe *probe, const char *name, const char *token, uint64_t lease_ms)
{
    return probe_int(probe, "SET %s %s NX PX %llu", name, token, (unsigned long long)lease_ms) == 0;
}

bool plain_peer_unlock(struct probe *probe, const char *name, const char *token)
{
    return probe_int(probe, "EVAL %s 1 %s %s", unlock_script, name, token) == 1;
}

bool plain_peer_usurp(struct probe *probe, const char *name, const char *token, uint64_t lease_ms)
{
    return probe_int(probe, "SET %s %s PX %llu", name, token, (unsigned long long)lease_ms) == 0;
}
