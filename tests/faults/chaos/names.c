#include "names.h"

#include "schedule.h"

#define CROWD_NS ((uint64_t)3 * 1000 * 1000 * 1000)

const char *names_text(int lock)
{
    static const char *const texts[NAMES_N] = {
        "orders", "stock", "{till}:7", "prices", "mails:{shop}",  "coupons",
        "seats",  "rooms", "{till}:8", "keys",   "nights:{shop}", "towels",
    };

    return texts[lock];
}

bool names_is_quiet(const struct names *names, int lock)
{
    return lock >= names->n / 2;
}

static void shuffle(enum history_sort *sorts, uint64_t *seed)
{
    static const enum history_sort all[NAMES_N_KINDS] = {HISTORY_REENTRANT, HISTORY_PLAIN,
                                                         HISTORY_SPIN,      HISTORY_FENCED,
                                                         HISTORY_FAIR,      HISTORY_WRITE};

    for (int i = 0; i < NAMES_N_KINDS; i++) {
        int j = (int)schedule_dice(seed, (uint64_t)i + 1);

        sorts[i] = sorts[j];
        sorts[j] = all[i];
    }
}

void names_draw(struct names *names, uint64_t seed)
{
    names->seed = seed;
    names->n = NAMES_N;
    shuffle(names->sorts, &seed);
    shuffle(names->sorts + NAMES_N_KINDS, &seed);
}

void names_draw_red(struct names *names)
{
    *names = (struct names){.n = NAMES_N_RED};
    for (int i = 0; i < names->n; i++)
        names->sorts[i] = HISTORY_RED;
}

static int crowded(const struct names *names)
{
    uint64_t seed = names->seed + history_now_ns() / CROWD_NS;

    return (int)schedule_dice(&seed, NAMES_N_KINDS);
}

static int quiet(const struct names *names, uint64_t *seed)
{
    int lock = NAMES_N_KINDS;

    if (schedule_dice(seed, 2) == 0)
        return lock + (int)schedule_dice(seed, NAMES_N_KINDS);
    /* Often the fair one, because its order shows only in long queues. */
    while (names->sorts[lock] != HISTORY_FAIR)
        lock++;
    return lock;
}

static int come_red(const struct names *names, uint64_t *seed)
{
    int first = schedule_dice(seed, 20) == 0 ? names->n / 2 : 0;

    return first + (schedule_dice(seed, 4) == 0);
}

int names_come(const struct names *names, uint64_t *seed)
{
    if (names->sorts[0] == HISTORY_RED)
        return come_red(names, seed);
    if (schedule_dice(seed, 30) == 0)
        return quiet(names, seed);
    if (schedule_dice(seed, 4) > 0)
        return crowded(names);
    return (int)schedule_dice(seed, NAMES_N_KINDS);
}
