#include "held.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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
        struct held held;

        if (sscanf(line, "%31s %31s %31s %" SCNu64 " %" SCNu64 " %" SCNu64, held.who, held.kind,
                   held.lock, &held.from_ns, &held.to_ns, &held.token) != 6) {
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

static bool may_be_together(const struct held *one, const struct held *other)
{
    return strcmp(one->who, other->who) == 0 ||
           (strcmp(one->kind, "read") == 0 && strcmp(other->kind, "read") == 0);
}

static size_t show(FILE *out, const char *what, const struct held *one, const struct held *other)
{
    const struct held *both[] = {one, other};

    fprintf(out, "%s:\n", what);
    for (int i = 0; i < 2; i++)
        fprintf(out, "    %s %s %s from %" PRIu64 " to %" PRIu64 " token %" PRIu64 "\n",
                both[i]->who, both[i]->kind, both[i]->lock, both[i]->from_ns, both[i]->to_ns,
                both[i]->token);
    return 1;
}

size_t held_check(struct helds *helds, FILE *out)
{
    const struct held *end = helds->at + helds->n;
    size_t n = 0;

    if (helds->n > 0)
        qsort(helds->at, helds->n, sizeof(*helds->at), compare);
    for (const struct held *one = helds->at; one < end; one++) {
        for (const struct held *other = one + 1; other < end; other++) {
            if (strcmp(one->lock, other->lock) != 0 || other->from_ns >= one->to_ns)
                break;
            if (!may_be_together(one, other))
                n += show(out, "two holders at once", one, other);
        }
        if (one + 1 < end && strcmp(one->lock, one[1].lock) == 0 &&
            strcmp(one->kind, "fenced") == 0 && one[1].token <= one->token)
            n += show(out, "a token that does not grow", one, one + 1);
    }
    return n;
}

size_t held_count(const struct helds *helds, const char *who, const char *kind)
{
    size_t n = 0;

    for (size_t i = 0; i < helds->n; i++)
        n += strncmp(helds->at[i].who, who, strlen(who)) == 0 &&
             strcmp(helds->at[i].kind, kind) == 0;
    return n;
}
