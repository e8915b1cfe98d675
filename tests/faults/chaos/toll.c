#include "toll.h"

#include "job.h"

#include <relock.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_COMMANDS 200 /* for one number */
#define LATCH_COUNT 1000  /* is not reached */
#define MOST_PERMITS 5
#define WAIT_MS 20

static bool is_latch(int number)
{
    return number % 2 == 1;
}

static struct history_record record_of(const struct toiler *toiler)
{
    const struct worker_options *options = &toiler->workshop->options;
    const struct toll *toll = &toiler->toll;

    return (struct history_record){.sort =
                                       is_latch(toll->number) ? HISTORY_LATCH : HISTORY_UNLEASED,
                                   .slot = options->slot,
                                   .life = options->life,
                                   .thread = toiler->number,
                                   .lock = toll->number};
}

bool toll_read_name(const char *key, struct history_record *record)
{
    *record = (struct history_record){.kind = HISTORY_NUMBER};
    record->from_ns = record->to_ns = history_now_ns();
    if (sscanf(key, "toll:%d.%d.%d.%d", &record->slot, &record->life, &record->thread,
               &record->lock) != 4)
        return false;
    record->sort = is_latch(record->lock) ? HISTORY_LATCH : HISTORY_UNLEASED;
    return true;
}

/* ---- one command --------------------------------------------------------------------------- */

/* A command that shall change the number by `value`; an acquire waits if there are too few. */
struct payment {
    int64_t value;
    enum { SET, COUNT_DOWN, RELEASE, ADD, ACQUIRE, DRAIN } verb;
};

static struct payment draw(struct toiler *toiler)
{
    const struct toll *toll = &toiler->toll;
    int64_t n = 1 + (int64_t)toiler_dice(toiler, MOST_PERMITS);

    if (is_latch(toll->number))
        return toll->n == 0 ? (struct payment){LATCH_COUNT, SET} : (struct payment){-1, COUNT_DOWN};
    switch (toiler_dice(toiler, 6)) {
    case 0:
        return (struct payment){-n, ADD};
    case 1:
        return (struct payment){-toll->value, DRAIN};
    case 2:
    case 3:
        return (struct payment){-n, ACQUIRE};
    default:
        return (struct payment){n, RELEASE};
    }
}

static int set_latch(const struct toll *toll, int64_t *value)
{
    bool is_set = false;
    int r = relock_latch_try_set(toll->latch, LATCH_COUNT, &is_set);

    if (r == RELOCK_OK && !is_set)
        *value = 0;
    return r;
}

static int drain(const struct toll *toll, int64_t *value)
{
    int64_t n = 0;
    int r = relock_unleased_drain(toll->unleased, &n);

    if (r == RELOCK_OK)
        *value = -n;
    return r;
}

/* `*value` is then by how much it has changed, says the answer. */
static int pay(struct toiler *toiler, const struct payment *payment, int64_t *value)
{
    const struct toll *toll = &toiler->toll;

    *value = payment->value;
    switch (payment->verb) {
    case SET:
        return set_latch(toll, value);
    case COUNT_DOWN:
        return relock_latch_count_down(toll->latch);
    case RELEASE:
        return relock_unleased_release(toll->unleased, (unsigned)payment->value);
    case ADD:
        return relock_unleased_add(toll->unleased, (int)payment->value);
    case ACQUIRE:
        return relock_unleased_acquire(toll->unleased, (unsigned)-payment->value,
                                       (int64_t)toiler_dice(toiler, WAIT_MS), NULL);
    case DRAIN:
    default:
        return drain(toll, value);
    }
}

static void pay_and_record(struct toiler *toiler)
{
    struct history *history = &toiler->workshop->history;
    struct history_record record = record_of(toiler);
    struct toll *toll = &toiler->toll;
    struct payment payment = draw(toiler);

    record.kind = HISTORY_COUNT;
    record.value = payment.value;
    record.from_ns = record.to_ns = history_now_ns();
    history_write(history, &record);
    record.kind = HISTORY_COUNTED;
    record.result = pay(toiler, &payment, &record.value);
    record.to_ns = history_now_ns();
    history_write(history, &record);

    toll->value += record.result == RELOCK_OK ? record.value : 0;
    toll->n += record.result == RELOCK_OK;
    toll->is_over = record.result == RELOCK_E_CONN || toll->n == MOST_COMMANDS;
}

/* ---- one number after the other ------------------------------------------------------------ */

static void begin(struct toiler *toiler)
{
    const struct worker_options *options = &toiler->workshop->options;
    struct toll *toll = &toiler->toll;
    char name[64];
    int r;

    toll->number++;
    snprintf(name, sizeof(name), "toll:%d.%d.%d.%d", options->slot, options->life, toiler->number,
             toll->number);
    r = is_latch(toll->number) ? relock_latch_new(toll->client, name, &toll->latch)
                               : relock_unleased_new(toll->client, name, &toll->unleased);
    if (r != RELOCK_OK)
        abort();
}

void toll_end(struct toiler *toiler)
{
    struct toll *toll = &toiler->toll;

    toll->latch = relock_latch_free(toll->latch);
    toll->unleased = relock_unleased_free(toll->unleased);
    toll->value = 0;
    toll->n = 0;
    toll->is_over = false;
}

void toll_pay(struct toiler *toiler)
{
    if (toiler->toll.is_over)
        toll_end(toiler);
    if (!toiler->toll.latch && !toiler->toll.unleased)
        begin(toiler);
    pay_and_record(toiler);
}
