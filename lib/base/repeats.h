/*
 * Repeats - keeps one cause from filling the log
 *
 * The first few lines of a cause are written. The following ones are held back and counted, and
 * at the end of each period one line tells the latest of them and their number. A cause that is
 * quiet for a period begins anew.
 *
 * Threads: the mutex of whoever has it guards it.
 */
#ifndef RELOCK_REPEATS_H
#define RELOCK_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELOCK_REPEATS_AT_ONCE 5
#define RELOCK_REPEATS_PERIOD_MS 10000

/* Why a line is logged, whatever lock it is about. A constant string, compared by its address, and
 * a result or the like: so there are only as many causes as the library has things to say. */
struct relock_cause {
    const char *what;
    int which;
};

struct relock_repeats {
    struct relock_repeated *causes;
};

/* Whether the line is to be written now. If not, it is held back. */
bool relock_repeats_admit(struct relock_repeats *repeats, struct relock_cause cause, int level,
                          const char *line, uint64_t now_ms);

/*
 * Writes what was held back of one cause whose period is over, or, at the `end`, of any. Returns
 * false when there is none.
 */
bool relock_repeats_take(struct relock_repeats *repeats, uint64_t now_ms, bool end, int *level,
                         char *line, size_t size);

/* When there is something to take; RELOCK_NEVER when nothing is held back. */
uint64_t relock_repeats_next_ms(const struct relock_repeats *repeats);

void relock_repeats_deinit(struct relock_repeats *repeats);

#endif
