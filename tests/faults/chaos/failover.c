#include "failover.h"

#include "schedule.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * So long workers lock between the stall and the end of the master. The stalled replica does not
 * learn of releases, so all locks that were held before seem to be held there until their leases
 * end. That must be soon after its promotion, or nobody could meet a hold that it does not know.
 */
#define LOAD_MS 6000

void failover_open(struct failover *failover, struct history *history, bool has_tls)
{
    failover->history = history;
    failover->sentinels.has_tls = has_tls;
    failover->sentinels.down_after_ms = slow_ms(SENTINELS_DOWN_AFTER_MS);
    sentinels_launch(&failover->sentinels);
}

void failover_close(struct failover *failover)
{
    sentinels_close(&failover->sentinels);
}

const char *failover_url(const struct failover *failover)
{
    return failover->sentinels.url;
}

static struct failover_cast cast_of(struct failover *failover)
{
    unsigned round = failover->n_rounds++;
    struct failover_cast cast = {.master = sentinels_await_master(&failover->sentinels, -1)};
    int one = (cast.master + 1) % SENTINELS, other = (cast.master + 2) % SENTINELS;

    cast.heir = one;
    cast.stalled = round % 2 == 0 || failover->only_cut_off ? one : other;
    cast.end = failover->only_cut_off ? FAILOVER_CUT_OFF
                                      : (enum failover_end)(round / 2 % FAILOVER_N_ENDS);
    return cast;
}

/* ---- which replica is promoted ------------------------------------------------------------- */

struct wish {
    struct probe *probe;
    char priorities[2][32];
};

static bool knows_priorities(void *arg)
{
    struct wish *wish = arg;
    const char *replicas = probe_list(wish->probe, "SENTINEL REPLICAS " SENTINELS_MASTER);

    return strstr(replicas, wish->priorities[0]) && strstr(replicas, wish->priorities[1]);
}

/* The lower priority is promoted. Each round has its own, so that old ones do not count. */
static void choose_heir(struct sentinels *s, const struct failover_cast *cast, unsigned round)
{
    struct wish wish;
    int n = 0;

    for (int i = 0; i < SENTINELS; i++) {
        unsigned priority = (i == cast->heir ? 1000 : 2000) + round;

        if (i == cast->master)
            continue;
        probe_int(s->probe[i], "CONFIG SET replica-priority %u", priority);
        snprintf(wish.priorities[n++], sizeof(wish.priorities[0]), "slave-priority %u", priority);
    }
    for (int i = 0; i < SENTINELS; i++) {
        wish.probe = s->at_sentinel[i];
        if (!wait_until(knows_priorities, &wish, FAILOVER_MS))
            abort();
    }
}

/* With this password it does not get into its master, which has none. */
static void stall(struct sentinels *s, int replica)
{
    probe_int(s->probe[replica], "CONFIG SET masterauth wrong");
    probe_int(s->probe[replica], "CLIENT KILL TYPE master");
}

/* ---- the end of a master ------------------------------------------------------------------- */

static void end_master(struct sentinels *s, const struct failover_cast *cast)
{
    struct probe *probe = s->probe[cast->master];

    switch (cast->end) {
    case FAILOVER_CUT_OFF:
        probe_int(probe, "ACL SETUSER default off");
        probe_int(probe, "CLIENT KILL USER default SKIPME yes");
        break;
    case FAILOVER_KILLED:
        server_kill(s->server[cast->master]);
        break;
    case FAILOVER_STOPPED:
    default:
        server_pause(s->server[cast->master]);
        break;
    }
}

static void mend(struct sentinels *s, const struct failover_cast *cast)
{
    probe_int(s->probe[cast->stalled], "CONFIG SET masterauth %s", "");
    switch (cast->end) {
    case FAILOVER_CUT_OFF:
        probe_int(s->probe[cast->master], "ACL SETUSER default on");
        break;
    case FAILOVER_KILLED:
        server_restart(s->server[cast->master]);
        break;
    case FAILOVER_STOPPED:
    default:
        server_resume(s->server[cast->master]);
        break;
    }
}

static void write_failover(struct failover *failover, uint64_t from_ns, uint64_t to_ns,
                           bool had_acknowledged)
{
    struct history_record record = {.kind = HISTORY_FAILOVER,
                                    .slot = SCHEDULE_SERVER,
                                    .from_ns = from_ns,
                                    .to_ns = to_ns,
                                    .value = had_acknowledged};

    history_write(failover->history, &record);
}

/* Excuses waiters of all workers. */
static void write_fault(struct failover *failover)
{
    struct history_record record = {.kind = HISTORY_FAULT,
                                    .slot = SCHEDULE_SERVER,
                                    .from_ns = failover->from_ns,
                                    .to_ns = history_now_ns(),
                                    .value = FAULT_RESTART};

    history_write(failover->history, &record);
}

void failover_prepare(struct failover *failover)
{
    struct sentinels *s = &failover->sentinels;

    failover->cast = cast_of(failover);
    choose_heir(s, &failover->cast, failover->n_rounds);
    failover->from_ns = history_now_ns(); /* what was granted before is at both replicas */
    sentinels_await_sync(s, failover->cast.master);
    stall(s, failover->cast.stalled);
    let_pass(slow_ms(LOAD_MS));
}

void failover_happen(struct failover *failover)
{
    struct failover_cast *cast = &failover->cast;

    end_master(&failover->sentinels, cast);
    cast->heir = sentinels_await_master(&failover->sentinels, cast->master);
    failover->happened_ns = history_now_ns();
    write_failover(failover, failover->from_ns, failover->happened_ns, cast->heir != cast->stalled);
    failover->n_ends[cast->end]++;
}

/*
 * Until a sentinel demotes it, the old master can grant locks to a process that asked for the
 * address before the failover and stood still until now. No replica acknowledges such a hold.
 */
void failover_mend(struct failover *failover)
{
    mend(&failover->sentinels, &failover->cast);
    sentinels_await_sync(&failover->sentinels, failover->cast.heir);
    sentinels_await_roles(&failover->sentinels);
    write_failover(failover, failover->happened_ns, history_now_ns(), true);
    write_fault(failover);
}

void failover_print(const struct failover *failover)
{
    printf("masters: %u cut off, %u killed, %u stopped\n", failover->n_ends[FAILOVER_CUT_OFF],
           failover->n_ends[FAILOVER_KILLED], failover->n_ends[FAILOVER_STOPPED]);
}
