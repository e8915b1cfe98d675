#include "deadlock/private.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE RELOCK_GRAPH_NONE
#define NAMED_MAX 3 /* locks that the log names; a longer cycle is cut short there */

/* By so many a beat must have grown: see the header. */
#define BEATS 2

void relock_graph_clear(struct relock_graph *graph)
{
    for (size_t i = 0; i < graph->n_locks; i++)
        free(graph->locks[i].name);
    free(graph->locks);
    free(graph->holds);
    free(graph->waits);
    *graph = (struct relock_graph){.n_searches = graph->n_searches};
}

/* The sizes are powers of 2. */
bool relock_graph_has_room(void **array, size_t n, size_t size)
{
    void *new;

    if (n >= RELOCK_GRAPH_MOST)
        return false;
    if (n & (n - 1) && n != 0)
        return true;
    new = realloc(*array, (n == 0 ? 1 : 2 * n) * size);
    if (!new)
        return false;
    *array = new;
    return true;
}

size_t relock_graph_add_lock(struct relock_graph *graph, const char *name, size_t len,
                             const char *form, unsigned step)
{
    struct relock_graph_lock lock = {.len = len, .form = form, .step = step};

    for (size_t i = 0; i < graph->n_locks; i++)
        if (graph->locks[i].len == len && graph->locks[i].form == form &&
            memcmp(graph->locks[i].name, name, len) == 0)
            return i;
    if (!relock_graph_has_room((void **)&graph->locks, graph->n_locks, sizeof(lock)))
        return NONE;
    lock.name = malloc(len + 1);
    if (!lock.name)
        return NONE;
    memcpy(lock.name, name, len);
    lock.name[len] = '\0';
    graph->locks[graph->n_locks] = lock;
    return graph->n_locks++;
}

static void copy(char *out, size_t size, const char *text, size_t len)
{
    (void)snprintf(out, size, "%.*s", (int)len, text);
}

size_t relock_graph_add_hold(struct relock_graph *graph, size_t lock, const char *id, size_t id_len,
                             const char *field, size_t field_len)
{
    struct relock_graph_hold hold = {.lock = lock, .wait = NONE};

    if (id_len >= sizeof(hold.id) || field_len >= sizeof(hold.field) ||
        !relock_graph_has_room((void **)&graph->holds, graph->n_holds, sizeof(hold)))
        return NONE;
    copy(hold.id, sizeof(hold.id), id, id_len);
    copy(hold.field, sizeof(hold.field), field, field_len);
    graph->holds[graph->n_holds] = hold;
    return graph->n_holds++;
}

size_t relock_graph_find(const struct relock_graph *graph, const char *id, uint64_t serial)
{
    for (size_t i = 0; i < graph->n_waits; i++)
        if (graph->waits[i].serial == serial && strcmp(graph->waits[i].id, id) == 0)
            return i;
    return NONE;
}

size_t relock_graph_add_wait(struct relock_graph *graph, const char *id, uint64_t serial,
                             uint64_t at_us, size_t lock)
{
    struct relock_graph_wait wait = {.serial = serial, .at_us = at_us, .lock = lock};
    size_t found = relock_graph_find(graph, id, serial);

    if (found != NONE)
        return found;
    if (!relock_graph_has_room((void **)&graph->waits, graph->n_waits, sizeof(wait)))
        return NONE;
    copy(wait.id, sizeof(wait.id), id, strlen(id));
    graph->waits[graph->n_waits] = wait;
    return graph->n_waits++;
}

/* A total order, the same in all clients: they all compare what is published. */
static bool is_younger(const struct relock_graph_wait *wait, const struct relock_graph_wait *than)
{
    int order = strcmp(wait->id, than->id);

    if (wait->at_us != than->at_us)
        return wait->at_us > than->at_us;
    return order != 0 ? order > 0 : wait->serial > than->serial;
}

/* ---- the search ---------------------------------------------------------------------------- */

struct search {
    struct relock_graph *graph;
    size_t first; /* the wait through which the cycle is to go */
    size_t last;  /* to be visited */
    size_t found; /* a hold of that wait's owner: the cycle is closed */
};

static void reach(struct search *search, size_t from, size_t hold)
{
    struct relock_graph_wait *waits = search->graph->waits;
    size_t wait = search->graph->holds[hold].wait;

    if (wait == NONE || waits[wait].is_over || search->found != NONE)
        return;
    if (wait == search->first) {
        if (from != wait) {
            search->found = hold;
            waits[wait].from = from;
        }
        return;
    }
    if (waits[wait].search == search->graph->n_searches ||
        is_younger(&waits[wait], &waits[search->first]) ||
        waits[from].n_steps + 2 > RELOCK_GRAPH_STEPS)
        return;
    waits[wait].search = search->graph->n_searches;
    waits[wait].from = from;
    waits[wait].from_hold = hold;
    waits[wait].n_steps = waits[from].n_steps + 1;
    waits[wait].next_found = NONE;
    waits[search->last].next_found = wait;
    search->last = wait;
}

static void step_init(struct relock_proof_step *step, const struct relock_graph *graph, size_t hold)
{
    const struct relock_graph_wait *wait = &graph->waits[graph->holds[hold].wait];

    *step = (struct relock_proof_step){
        .serial = wait->serial, .at_us = wait->at_us, .lock = wait->lock};
    copy(step->id, sizeof(step->id), graph->holds[hold].id, sizeof(step->id));
    copy(step->field, sizeof(step->field), graph->holds[hold].field, sizeof(step->field));
    copy(step->wait_id, sizeof(step->wait_id), wait->id, sizeof(step->wait_id));
}

static struct relock_proof *proof_of(const struct search *search)
{
    const struct relock_graph_wait *waits = search->graph->waits;
    size_t at = waits[search->first].from;
    size_t n = waits[at].n_steps + 1;
    struct relock_proof *proof = calloc(1, sizeof(*proof) + n * sizeof(proof->steps[0]));

    if (!proof)
        return NULL;
    proof->n = n;
    proof->n_looks = 1;
    step_init(&proof->steps[--n], search->graph, search->found);
    for (; n > 0; at = waits[at].from)
        step_init(&proof->steps[--n], search->graph, waits[at].from_hold);
    return proof;
}

struct relock_proof *relock_graph_search(struct relock_graph *graph, size_t wait)
{
    struct search search = {.graph = graph, .first = wait, .last = wait, .found = NONE};

    graph->n_searches++;
    graph->waits[wait].search = graph->n_searches;
    graph->waits[wait].n_steps = 0;
    graph->waits[wait].next_found = NONE;
    for (size_t at = wait; at != NONE && search.found == NONE; at = graph->waits[at].next_found)
        for (size_t i = 0; i < graph->n_holds; i++)
            if (graph->holds[i].lock == graph->waits[at].lock)
                reach(&search, at, i);
    return search.found == NONE ? NULL : proof_of(&search);
}

/* ---- the proof ----------------------------------------------------------------------------- */

/* The hold of this step, if it is in the way of the wait, and its owner waits as before. */
static size_t find_step(const struct relock_graph *graph, const struct relock_graph_wait *wait,
                        const struct relock_proof_step *step)
{
    const struct relock_graph_hold *hold;

    for (size_t i = 0; i < graph->n_holds; i++) {
        hold = &graph->holds[i];
        if (hold->lock != wait->lock || strcmp(hold->id, step->id) != 0 ||
            strcmp(hold->field, step->field) != 0)
            continue;
        if (hold->wait == NONE || graph->waits[hold->wait].is_over ||
            graph->waits[hold->wait].serial != step->serial ||
            graph->waits[hold->wait].at_us != step->at_us ||
            strcmp(graph->waits[hold->wait].id, step->wait_id) != 0)
            return NONE;
        return i;
    }
    return NONE;
}

enum relock_proof_state relock_proof_check(struct relock_proof *proof,
                                           const struct relock_graph *graph, size_t wait)
{
    enum relock_proof_state state = RELOCK_PROOF_DONE;
    const struct relock_graph_wait *at = &graph->waits[wait], *first = at;

    for (size_t i = 0; i < proof->n; i++) {
        struct relock_proof_step *step = &proof->steps[i];
        size_t hold = find_step(graph, at, step);

        if (hold == NONE)
            return RELOCK_PROOF_GONE;
        at = &graph->waits[graph->holds[hold].wait];
        step->lock = at->lock;
        if (at != first && is_younger(at, first))
            return RELOCK_PROOF_GONE;
        if (proof->n_looks == 1 && at->beat > 0)
            step->beat = at->beat + BEATS;
        if (at->beat < step->beat)
            state = RELOCK_PROOF_OPEN;
    }
    proof->n_looks++;
    return proof->n_looks == 2 ? RELOCK_PROOF_OPEN : state;
}

static int write_owner(const struct relock_graph_wait *wait, char *out, size_t size)
{
    if (wait->owner > 0)
        return snprintf(out, size, "owner %llu", (unsigned long long)wait->owner);
    return snprintf(out, size, "client %s", *wait->name ? wait->name : wait->id);
}

void relock_proof_explain(const struct relock_proof *proof, const struct relock_graph *graph,
                          size_t wait, char *out, size_t size)
{
    const struct relock_graph_wait *waits[RELOCK_GRAPH_STEPS + 1] = {&graph->waits[wait]};
    char name[RELOCK_LOG_NAME_MAX];
    size_t len, n = 0;

    for (; n + 1 < proof->n; n++)
        waits[n + 1] =
            &graph->waits[graph->holds[find_step(graph, waits[n], &proof->steps[n])].wait];
    len = (size_t)snprintf(out, size, "this owner holds ");
    for (size_t named = 0; len < size; named++) {
        len += (size_t)snprintf(
            out + len, size - len, "%.40s%s",
            named == NAMED_MAX ? "another lock of this cycle"
                               : relock_log_name(graph->locks[waits[n]->lock].name, name),
            n > 0 && named < NAMED_MAX ? ", for which " : "; release that and start again");
        if (n == 0 || named == NAMED_MAX || len >= size)
            break;
        len += (size_t)write_owner(waits[n--], out + len, size - len);
        if (len < size)
            len += (size_t)snprintf(out + len, size - len, " waits, who holds ");
    }
}
