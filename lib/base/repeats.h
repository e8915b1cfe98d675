/*
 * Repeats - keeps a cause that repeats from filling the log
 *
 * The first few lines of a cause are written. Later lines are held back and counted; at the end of
 * each period the latest of them is written with their number. After a period without lines the
 * cause starts anew.
 *
 * Threads: any, under a mutex of the owner.
 */
#ifndef RELOCK_REPEATS_H
#define RELOCK_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELOCK_REPEATS_AT_ONCE 5
#define RELOCK_REPEATS_PERIOD_MS 10000

/* Why a line is logged, whichever lock it concerns. `what` is a constant string, compared by
 * address; `which` is a result or the like. So the number of causes is limited. */
struct relock_cause {
    const char *what;
    int which;
};

struct relock_repeats {
    struct relock_repeated *causes;
};

/* Returns whether the line is to be written now. If not, it is held back. */
bool relock_repeats_admit(struct relock_repeats *repeats, struct relock_cause cause, int level,
                          const char *line, uint64_t now_ms);

/*
 * Takes the lines held back of one cause whose period is over, or, with `end`, of any cause. Writes
 * the latest of them to `line`, with their number. Returns false if there is none.
 */
bool relock_repeats_take(struct relock_repeats *repeats, uint64_t now_ms, bool end, int *level,
                         char *line, size_t size);

/* When the next line can be taken; RELOCK_NEVER if none is held back. */
uint64_t relock_repeats_next_ms(const struct relock_repeats *repeats);

void relock_repeats_deinit(struct relock_repeats *repeats);

#endif
