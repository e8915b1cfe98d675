#include "support/red_line.h"

#include <stdatomic.h>
#include <string.h>

struct red red_line_new(struct servers *s)
{
    return red_new(
        s, &(struct relock_options){.recheck_ms = NEVER_MS, .watchdog_timeout_ms = NEVER_MS});
}

size_t red_line_sequencer(const struct servers *s)
{
    size_t first = 0;

    for (size_t i = 1; i < s->n; i++)
        if (strcmp(s->server[i]->unix_url, s->server[first]->unix_url) < 0)
            first = i;
    return first;
}

bool red_line_wait(struct servers *s, long long n)
{
    return probe_wait_in_line(s->probe[red_line_sequencer(s)], RED_NAME, n);
}

static atomic_int n_before; /* turns so far */

static int take_a_turn(void *arg)
{
    struct red_line_turn *turn = arg;
    int r = relock_lock(turn->lock);

    if (r < 0)
        return r;
    turn->place = atomic_fetch_add(&n_before, 1);
    r = relock_unlock(turn->lock);
    return r == RELOCK_E_CONN ? RELOCK_OK : r; /* on a slow machine a majority may be late */
}

struct actor *red_line_begin(struct red_line_turn *turn, const struct red *red)
{
    struct actor *actor = actor_start();

    *turn = (struct red_line_turn){.lock = red->lock, .place = -1};
    actor_begin(actor, take_a_turn, turn);
    return actor;
}
