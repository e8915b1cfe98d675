#include "support/held.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t held_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void held_add(struct helds *helds, const struct held *held)
{
    if (helds->n == helds->size) {
        helds->size = 2 * helds->size + 1024;
        helds->at = realloc(helds->at, helds->size * sizeof(*helds->at));
        if (!helds->at)
            abort();
    }
    helds->at[helds->n++] = *held;
}

void held_free(struct helds *helds)
{
    free(helds->at);
    *helds = (struct helds){0};
}

void held_read(struct helds *helds, const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];

    if (!file) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    while (fgets(line, sizeof(line), file)) {
        struct held held = {.acked = 0};

        if (sscanf(line, "%31s %31s %31s %" SCNu64 " %" SCNu64 " %" SCNu64 " %u", held.who,
                   held.kind, held.lock, &held.from_ns, &held.to_ns, &held.token,
                   &held.acked) < 6) {
            fprintf(stderr, "%s: what is \"%s\"?\n", path, line);
            exit(EXIT_FAILURE);
        }
        held_add(helds, &held);
    }
    fclose(file);
}

/* By lock, then by the beginning. */
static int compare(const void *a, const void *b)
{
    const struct held *one = a, *other = b;
    int order = strcmp(one->lock, other->lock);

    if (order != 0)
        return order;
    return (one->from_ns > other->from_ns) - (one->from_ns < other->from_ns);
}

static bool is_shared(const struct held *held)
{
    return strcmp(held->kind, "read") == 0 || strcmp(held->kind, "semaphore") == 0;
}

static bool may_be_together(const struct held *one, const struct held *other)
{
    return strcmp(one->who, other->who) == 0 || (is_shared(one) && is_shared(other));
}

struct judge {
    const struct held_failover *failovers;
    size_t n_failovers;
    struct held_pairs pairs;
    FILE *out;
};

/* Whether a failover between the two times may have lost one of the holds. */
static bool is_excused(const struct judge *judge, const struct held *one, const struct held *other,
                       uint64_t from_ns, uint64_t to_ns)
{
    if (one->acked > 0 && other->acked > 0)
        return false;
    for (size_t i = 0; i < judge->n_failovers; i++)
        if (judge->failovers[i].from_ns <= to_ns && from_ns <= judge->failovers[i].to_ns)
            return true;
    return false;
}

static void show(struct judge *judge, const char *what, const struct held *one,
                 const struct held *other)
{
    const struct held *both[] = {one, other};

    judge->pairs.impossible++;
    fprintf(judge->out, "%s:\n", what);
    for (int i = 0; i < 2; i++)
        fprintf(judge->out,
                "    %s %s %s from %" PRIu64 " to %" PRIu64 " token %" PRIu64 " acked %u\n",
                both[i]->who, both[i]->kind, both[i]->lock, both[i]->from_ns, both[i]->to_ns,
                both[i]->token, both[i]->acked);
}

static void check_holders(struct judge *judge, const struct held *one, const struct held *other)
{
    uint64_t to_ns = one->to_ns < other->to_ns ? one->to_ns : other->to_ns;

    if (may_be_together(one, other))
        return;
    if (is_excused(judge, one, other, other->from_ns, to_ns))
        judge->pairs.excused++;
    else
        show(judge, "two holders at once", one, other);
}

static void check_tokens(struct judge *judge, const struct held *one, const struct held *next)
{
    if (strcmp(one->kind, "fenced") != 0 || next->token > one->token)
        return;
    if (is_excused(judge, one, next, one->from_ns, next->from_ns))
        judge->pairs.excused++;
    else
        show(judge, "a token that does not grow", one, next);
}

struct held_pairs held_check(struct helds *helds, const struct held_failover *failovers, size_t n,
                             FILE *out)
{
    const struct held *end = helds->at + helds->n;
    struct judge judge = {.failovers = failovers, .n_failovers = n, .out = out};

    if (helds->n > 0)
        qsort(helds->at, helds->n, sizeof(*helds->at), compare);
    for (const struct held *one = helds->at; one < end; one++) {
        for (const struct held *other = one + 1; other < end; other++) {
            if (strcmp(one->lock, other->lock) != 0 || other->from_ns >= one->to_ns)
                break;
            check_holders(&judge, one, other);
        }
        if (one + 1 < end && strcmp(one->lock, one[1].lock) == 0)
            check_tokens(&judge, one, one + 1);
    }
    return judge.pairs;
}

size_t held_count(const struct helds *helds, const char *who, const char *kind)
{
    size_t n = 0;

    for (size_t i = 0; i < helds->n; i++)
        n += strncmp(helds->at[i].who, who, strlen(who)) == 0 &&
             strcmp(helds->at[i].kind, kind) == 0;
    return n;
}
