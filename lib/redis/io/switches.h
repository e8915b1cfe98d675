/*
 * Switches - hears from the sentinels that another server is the master
 *
 * It subscribes to +switch-master at each sentinel, so it hears of a failover while one of them can
 * be reached. Without it, connections to the old master go on until they break: to one that is cut
 * off from the sentinels, for as long as it answers.
 *
 * Threads: the I/O thread; new and free while that does not run.
 */
#ifndef RELOCK_SWITCHES_H
#define RELOCK_SWITCHES_H

#include "redis/server/peer.h"
#include "redis/server/server.h"

struct relock_loop;
struct relock_switches;

/* `old` is the master no more. */
typedef void relock_switch_fn(void *arg, const struct relock_peer *old);

/*
 * Of a server without sentinels, no switches are heard. After `ping_ms` of silence a PING is sent.
 * Returns RELOCK_OK, RELOCK_E_NOMEM.
 */
int relock_switches_new(struct relock_loop *loop, const struct relock_server *server,
                        uint64_t ping_ms, relock_switch_fn *fn, void *arg,
                        struct relock_switches **switches);

/* Takes NULL. Returns NULL. */
struct relock_switches *relock_switches_free(struct relock_switches *switches);

/* Connects to the sentinels. */
void relock_switches_open(struct relock_switches *switches);

#endif
