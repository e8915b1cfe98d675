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

/* Whoever has one of several permits may release it. */
static bool is_for_ever(const struct teller *teller, const char *name,
                        const struct relock_holder *holder, const struct relock_permits *permits)
{
    unsigned n = ancestors_count(teller->ancestors, teller->url, name);

    return ancestors_have(teller->ancestors, holder->id) && permits->n_free <= 0 &&
           (permits->n_out <= 1 || permits->n_out <= n);
}

/* The client's name if Redis tells it, else the id. */
static void say_who(const struct teller *teller, const char *name,
                    const struct relock_holder *holder, const struct relock_permits *permits)
{
    struct lock_list list = {0};
    const char *who = holder->id;
    unsigned n_same = teller->options->n_permits > 0 ? holder->hold_count : 1;
    char more[32] = "", out_of[64] = "";
    FILE *out = stderr;

    if (lock_list_find_name(&list, teller->client, name) == RELOCK_OK && list.n == 1 &&
        strcmp(list.rows[0].holder.id, holder->id) == 0)
        who = lock_list_who(list.rows[0].client_name, holder->id);
    if (holder->n_holders > n_same)
        (void)snprintf(more, sizeof(more), " and %u more", holder->n_holders - n_same);
    if (teller->options->n_permits > 0)
        (void)snprintf(out_of, sizeof(out_of), "%u of %lld permits are out, ", holder->n_holders,
                       (long long)permits->n_free + (long long)permits->n_out);
    flockfile(out);
    (void)fputs("relock run: ", out);
    text_print(out, name);
    (void)fprintf(out, ": waiting: %sheld by ", out_of);
    text_print(out, who);
    (void)fprintf(out, "%s\n", more);
    funlockfile(out);
    lock_list_free(&list);
}

/* The id of a plain lock does not tell. */
static bool is_own(const struct teller *teller, size_t i, const char *holder_id)
{
    const char *id = relock_client_id(teller->client);

    return strncmp(holder_id, id, strlen(id)) == 0 ||
           relock_check(teller->locks[i], teller->owner, NULL) == RELOCK_OK;
}

static void look_at(struct teller *teller, size_t i)
{
    const char *name = teller->options->names[i];
    struct pollfd stop = {.fd = teller->stop_fd, .events = POLLIN};
    struct relock_permits permits = {0}; /* of a lock: none is free */
    struct relock_holder holder;

    if (relock_who_holds(teller->locks[i], &holder) != RELOCK_OK || holder.n_holders == 0 ||
        is_own(teller, i, holder.id))
        return;
    if (teller->options->n_permits > 0 &&
        relock_semaphore_read(teller->locks[i], &permits) != RELOCK_OK)
        return;
    if (is_for_ever(teller, name, &holder, &permits)) {
        atomic_store(&teller->refused, name);
        relock_cancel_fire(teller->cancel);
    } else if (!teller->options->is_quiet && !teller->is_told && poll(&stop, 1, 0) == 0) {
        say_who(teller, name, &holder, &permits);
        teller->is_told = true;
    }
}

/* An ancestor may be one of several readers. Redis names it when the others have left. */
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
