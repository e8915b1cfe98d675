#include "teller.h"

#include "ancestors.h"
#include "lock_list.h"
#include "text.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

/* A shorter wait is not worth a word, nor a command to Redis. */
#define FIRST_MS 100
#define LONGEST_MS 10000

#define MOST_NAMES 3 /* of holders of permits */

/* Those that ancestors have; as far as this user may look. */
static uint64_t count_inherited(const struct teller *teller, const struct relock_holder *holder,
                                const struct lock_row *row)
{
    uint64_t n = 0;

    if (!row)
        return holder->hold_count;
    for (size_t i = 0; i < row->n_permits; i++)
        if (ancestors_have(teller->ancestors, row->permits[i].id))
            n += row->permits[i].n;
    return n;
}

/* Anybody else who has a permit may release it. */
static bool is_for_ever(const struct teller *teller, const struct relock_holder *holder,
                        const struct relock_permits *permits, const struct lock_row *row)
{
    return ancestors_have(teller->ancestors, holder->id) && permits->n_free <= 0 &&
           permits->n_out <= count_inherited(teller, holder, row);
}

/* The clients' names if Redis tells them, else ids. Returns how many permits they have. */
static uint64_t print_holders_of_permits(FILE *out, const struct relock_holder *holder,
                                         const struct lock_row *row)
{
    uint64_t n = 0;

    if (!row || row->n_permits == 0) {
        text_print(out, holder->id);
        return holder->hold_count;
    }
    for (size_t i = 0; i < row->n_permits && i < MOST_NAMES; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        text_print(out, lock_list_who(row->permits[i].client_name, row->permits[i].id));
        n += row->permits[i].n;
    }
    return n;
}

static void say_who_has_permits(const char *name, const struct relock_holder *holder,
                                const struct relock_permits *permits, const struct lock_row *row)
{
    uint64_t n;
    FILE *out = stderr;

    text_begin("run", name);
    (void)fprintf(out, "waiting: %llu of %lld permits are out, held by ",
                  (unsigned long long)permits->n_out,
                  (long long)permits->n_free + (long long)permits->n_out);
    n = print_holders_of_permits(out, holder, row);
    if (permits->n_out > n)
        (void)fprintf(out, " and %llu more", (unsigned long long)(permits->n_out - n));
    text_end();
}

/* The client's name if Redis tells it, else the id. */
static void say_who(const struct teller *teller, const char *name,
                    const struct relock_holder *holder)
{
    struct lock_list list = {0};
    const char *who = holder->id;
    char more[32] = "";
    FILE *out = stderr;

    if (lock_list_find_name(&list, teller->client, name) == RELOCK_OK && list.n == 1 &&
        strcmp(list.rows[0].holder.id, holder->id) == 0)
        who = lock_list_who(list.rows[0].client_name, holder->id);
    if (holder->n_holders > 1)
        (void)snprintf(more, sizeof(more), " and %u more", holder->n_holders - 1);
    text_begin("run", name);
    (void)fputs("waiting: held by ", out);
    text_print(out, who);
    (void)fputs(more, out);
    text_end();
    lock_list_free(&list);
}

/* The id of a plain lock does not tell. */
static bool is_own(const struct teller *teller, size_t i, const char *holder_id)
{
    const char *id = relock_client_id(teller->client);

    return strncmp(holder_id, id, strlen(id)) == 0 ||
           relock_check(teller->locks[i], teller->owner, NULL) == RELOCK_OK;
}

static bool may_say(const struct teller *teller)
{
    struct pollfd stop = {.fd = teller->stop_fd, .events = POLLIN};

    return !teller->options->is_quiet && !teller->is_told && poll(&stop, 1, 0) == 0;
}

static void refuse(struct teller *teller, const char *name)
{
    atomic_store(&teller->refused, name);
    relock_cancel_fire(teller->cancel);
}

static void look_at_permits(struct teller *teller, const char *name,
                            const struct relock_holder *holder)
{
    struct relock_permits permits;
    struct lock_list list = {0};
    const struct lock_row *row;

    if (relock_semaphore_read(teller->locks[0], &permits) != RELOCK_OK)
        return;
    row = lock_list_find_name(&list, teller->client, name) == RELOCK_OK ? &list.rows[0] : NULL;
    if (is_for_ever(teller, holder, &permits, row)) {
        refuse(teller, name);
    } else if (may_say(teller)) {
        say_who_has_permits(name, holder, &permits, row);
        teller->is_told = true;
    }
    lock_list_free(&list);
}

static void look_at(struct teller *teller, size_t i)
{
    const char *name = teller->options->names[i];
    struct relock_holder holder;

    if (relock_who_holds(teller->locks[i], &holder) != RELOCK_OK || holder.n_holders == 0 ||
        is_own(teller, i, holder.id))
        return;
    if (teller->options->n_permits > 0) {
        look_at_permits(teller, name, &holder);
    } else if (ancestors_have(teller->ancestors, holder.id)) {
        refuse(teller, name);
    } else if (may_say(teller)) {
        say_who(teller, name, &holder);
        teller->is_told = true;
    }
}

/* An ancestor may be one of several readers, or holders of permits. Redis names it when the others
 * have left. */
static bool is_done(const struct teller *teller)
{
    return atomic_load(&teller->refused) ||
           (!teller->ancestors && (teller->is_told || teller->options->is_quiet));
}

static void *tell(void *arg)
{
    struct teller *teller = arg;
    struct pollfd stop = {.fd = teller->stop_fd, .events = POLLIN};
    int pause_ms = FIRST_MS;

    while (!is_done(teller) && poll(&stop, 1, pause_ms) == 0) {
        for (size_t i = 0; i < teller->options->n_names; i++)
            look_at(teller, i);
        pause_ms = 2 * pause_ms < LONGEST_MS ? 2 * pause_ms : LONGEST_MS;
    }
    return NULL;
}

void teller_begin(struct teller *teller)
{
    teller->ancestors = ancestors_list();
    if (!is_done(teller))
        teller->runs = pthread_create(&teller->thread, NULL, tell, teller) == 0;
}

void teller_join(struct teller *teller)
{
    if (teller->runs)
        (void)pthread_join(teller->thread, NULL);
    teller->runs = false;
}
