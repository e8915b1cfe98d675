#include "names.h"

#include "schedule.h"

#define CROWD_NS ((uint64_t)2500 * 1000 * 1000)

const char *names_text(int lock)
{
    static const char *const texts[NAMES_N] = {
        "orders", "stock", "{till}:7", "prices", "mails:{shop}",  "coupons", "pages",
        "seats",  "rooms", "{till}:8", "keys",   "nights:{shop}", "towels",  "desks",
    };

    return texts[lock];
}

bool names_is_quiet(const struct names *names, int lock)
{
    return names->set != NAMES_HOT && lock >= names->n / 2;
}

static void shuffle(enum history_sort *sorts, const enum history_sort *all, int n, uint64_t *seed)
{
    for (int i = 0; i < n; i++) {
        int j = (int)schedule_dice(seed, (uint64_t)i + 1);

        sorts[i] = sorts[j];
        sorts[j] = all[i];
    }
}

static void draw_mixed(struct names *names, uint64_t seed)
{
    static const enum history_sort all[NAMES_N_KINDS] = {
        HISTORY_REENTRANT, HISTORY_PLAIN, HISTORY_SPIN,     HISTORY_FENCED,
        HISTORY_FAIR,      HISTORY_WRITE, HISTORY_SEMAPHORE};

    names->n = NAMES_N;
    shuffle(names->sorts, all, NAMES_N_KINDS, &seed);
    shuffle(names->sorts + NAMES_N_KINDS, all, NAMES_N_KINDS, &seed);
}

static void draw_red(struct names *names)
{
    names->n = NAMES_N_RED;
    for (int i = 0; i < names->n; i++)
        names->sorts[i] = HISTORY_RED;
}

static void draw_hot(struct names *names, uint64_t seed)
{
    static const enum history_sort others[] = {HISTORY_FENCED, HISTORY_WRITE, HISTORY_SEMAPHORE};
    int reentrant = (int)schedule_dice(&seed, NAMES_N_HOT);

    names->n = NAMES_N_HOT;
    names->sorts[reentrant] = HISTORY_REENTRANT;
    names->sorts[1 - reentrant] = others[schedule_dice(&seed, 3)];
}

void names_draw(struct names *names, enum names_set set, uint64_t seed)
{
    *names = (struct names){.set = set, .seed = seed};
    switch (set) {
    case NAMES_MIXED:
    case NAMES_EVEN:
        draw_mixed(names, seed);
        break;
    case NAMES_RED:
        draw_red(names);
        break;
    case NAMES_HOT:
        draw_hot(names, seed);
        break;
    }
}

/* In turn, so that each has its crowd in a run of 20 s, too. */
static int crowded(const struct names *names)
{
    return (int)((names->seed + history_now_ns() / CROWD_NS) % NAMES_N_KINDS);
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

static int come_mixed(const struct names *names, uint64_t *seed)
{
    if (schedule_dice(seed, 30) == 0)
        return quiet(names, seed);
    if (names->set == NAMES_MIXED && schedule_dice(seed, 4) > 0)
        return crowded(names);
    return (int)schedule_dice(seed, NAMES_N_KINDS);
}

int names_come(const struct names *names, int thread, uint64_t *seed)
{
    switch (names->set) {
    case NAMES_RED:
        return come_red(names, seed);
    case NAMES_HOT:
        return thread % names->n;
    case NAMES_MIXED:
    case NAMES_EVEN:
        break;
    }
    return come_mixed(names, seed);
}
