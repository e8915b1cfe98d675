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
    struct relock_graph_lock lock = {.len = len, .form = form, .step = step, .holds = NONE};

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
    graph->is_thinned = false;
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
    struct relock_graph_hold hold = {.lock = lock, .wait = NONE, .n = 1};

    if (id_len >= sizeof(hold.id) || field_len >= sizeof(hold.field) ||
        !relock_graph_has_room((void **)&graph->holds, graph->n_holds, sizeof(hold)))
        return NONE;
    copy(hold.id, sizeof(hold.id), id, id_len);
    copy(hold.field, sizeof(hold.field), field, field_len);
    hold.next = graph->locks[lock].holds;
    graph->locks[lock].holds = graph->n_holds;
    graph->is_thinned = false;
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
        return graph->waits[found].at_us == at_us && graph->waits[found].lock == lock ? found
                                                                                      : NONE;
    if (!relock_graph_has_room((void **)&graph->waits, graph->n_waits, sizeof(wait)))
        return NONE;
    copy(wait.id, sizeof(wait.id), id, strlen(id));
    graph->is_thinned = false;
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

/* ---- what blocked owners keep ---------------------------------------------------------------- */

/* Whether the owner of this wait does not go on while `n` permits, or holds of its lock, stay where
 * they are. One that wants more permits than there are is refused when it asks. */
static bool stops(const struct relock_graph *graph, const struct relock_graph_wait *wait,
                  uint64_t n)
{
    uint64_t n_all = graph->locks[wait->lock].n_all;

    if (wait->need == 0)
        return n > 0;
    return wait->need <= n_all && n > n_all - wait->need;
}

static bool is_stopped(const struct relock_graph *graph, const struct relock_graph_wait *wait)
{
    uint64_t kept = graph->locks[wait->lock].kept;

    /* An owner keeps permits from itself, but no lock. */
    return stops(graph, wait, wait->need > 0 ? kept : kept - wait->own);
}

static void keep_nothing(struct relock_graph *graph)
{
    for (size_t i = 0; i < graph->n_locks; i++)
        graph->locks[i].kept = 0;
    for (size_t i = 0; i < graph->n_waits; i++)
        graph->waits[i].own = 0;
}

/* The owner of this hold is blocked. */
static void keep(struct relock_graph *graph, const struct relock_graph_hold *hold)
{
    struct relock_graph_wait *wait = &graph->waits[hold->wait];

    graph->locks[hold->lock].kept += hold->n;
    if (hold->lock == wait->lock)
        wait->own += hold->n;
}

/* ---- the search ------------------------------------------------------------------------------ */

struct search {
    struct relock_graph *graph;
    size_t first;  /* the wait with which it began */
    size_t *found; /* this one, and those to which it leads */
    size_t n;
};

static void find(struct search *search, size_t wait, unsigned n_steps)
{
    struct relock_graph_wait *at = &search->graph->waits[wait];

    at->search = search->graph->n_searches;
    at->n_steps = n_steps;
    at->own = 0;
    at->holds = NONE;
    at->is_blocked = true;
    at->is_in_proof = false;
    search->found[search->n++] = wait;
}

static void reach(struct search *search, size_t from, size_t hold)
{
    const struct relock_graph_wait *waits = search->graph->waits;
    size_t wait = search->graph->holds[hold].wait;

    if (wait == NONE || waits[wait].is_over || waits[wait].search == search->graph->n_searches ||
        is_younger(&waits[wait], &waits[search->first]) ||
        waits[from].n_steps + 2 > RELOCK_GRAPH_STEPS)
        return;
    if (!waits[wait].goes_on)
        find(search, wait, waits[from].n_steps + 1);
}

static void reach_all(struct search *search)
{
    struct relock_graph *graph = search->graph;

    graph->n_searches++;
    find(search, search->first, 0);
    for (size_t at = 0; at < search->n; at++) {
        size_t from = search->found[at];
        struct relock_graph_lock *lock = &graph->locks[graph->waits[from].lock];

        if (lock->search == graph->n_searches) /* reached in fewer steps */
            continue;
        lock->search = graph->n_searches;
        for (size_t i = lock->holds; i != NONE; i = graph->holds[i].next)
            reach(search, from, i);
    }
}

static void count_lock(struct relock_graph *graph, struct relock_graph_lock *lock)
{
    lock->counted = graph->n_searches;
    lock->kept = 0;
    for (size_t i = lock->holds; i != NONE; i = graph->holds[i].next) {
        struct relock_graph_hold *hold = &graph->holds[i];
        struct relock_graph_wait *wait = hold->wait == NONE ? NULL : &graph->waits[hold->wait];

        if (!wait || wait->search != graph->n_searches)
            continue;
        hold->next_of_wait = wait->holds;
        wait->holds = i;
        keep(graph, hold);
    }
}

/* All waits that were found are blocked, as far as is known. Each gets the holds that count. */
static void count_kept(struct search *search)
{
    struct relock_graph *graph = search->graph;

    for (size_t i = 0; i < search->n; i++) {
        struct relock_graph_lock *lock = &graph->locks[graph->waits[search->found[i]].lock];

        if (lock->counted != graph->n_searches)
            count_lock(graph, lock);
    }
}

static void take_out(struct relock_graph *graph, struct relock_graph_wait *wait)
{
    for (size_t i = wait->holds; i != NONE; i = graph->holds[i].next_of_wait)
        graph->locks[graph->holds[i].lock].kept -= graph->holds[i].n;
    wait->own = 0;
    wait->is_blocked = false;
}

/* Takes out all waits that are not blocked. Those farthest from the first one go first, so a chain
 * of them takes one round. */
static void let_go_on(struct search *search)
{
    struct relock_graph *graph = search->graph;
    uint64_t n_left = 0;
    bool some;

    do {
        some = false;
        for (size_t i = search->n; i-- > 0;) {
            struct relock_graph_wait *wait = &graph->waits[search->found[i]];

            if (!wait->is_blocked || is_stopped(graph, wait))
                continue;
            take_out(graph, wait);
            wait->leaves = ++n_left;
            some = true;
        }
    } while (some);
}

/* First among all that were found, then without the first one. */
static bool is_victim(struct search *search)
{
    struct relock_graph_wait *waits = search->graph->waits;
    struct relock_graph_wait *first = &waits[search->first];

    count_kept(search);
    let_go_on(search);
    if (!first->is_blocked)
        return false;
    for (size_t i = 0; i < search->n; i++) {
        struct relock_graph_wait *wait = &waits[search->found[i]];

        wait->leaves = wait->is_blocked ? RELOCK_GRAPH_STAYS : 0;
    }
    take_out(search->graph, first);
    let_go_on(search);
    /* Else it is behind an older deadlock, which has a victim of its own. */
    return !is_stopped(search->graph, first);
}

/* Marks the waits that are in no deadlock and behind none. Without a deadlock these are all waits,
 * and none is searched by itself. */
static void thin(struct search *search)
{
    struct relock_graph *graph = search->graph;

    graph->n_searches++;
    for (size_t i = 0; i < graph->n_waits; i++)
        if (!graph->waits[i].is_over)
            find(search, i, 0);
    count_kept(search);
    let_go_on(search);
    for (size_t i = 0; i < search->n; i++)
        graph->waits[search->found[i]].goes_on = !graph->waits[search->found[i]].is_blocked;
    search->n = 0;
    graph->is_thinned = true;
}

/* ---- the steps of a proof -------------------------------------------------------------------- */

struct pair {
    size_t behind, hold; /* as in the step */
};

struct steps {
    const struct search *search;
    struct pair *pairs;
    size_t n;
};

/* An order of holds: those first whose owners go on the soonest when the victim is refused. So the
 * steps lead back to the victim. */
static bool goes_before(const struct relock_graph *graph, size_t hold, size_t than)
{
    uint64_t leaves = graph->waits[graph->holds[hold].wait].leaves;
    uint64_t than_leaves = graph->waits[graph->holds[than].wait].leaves;

    return leaves != than_leaves ? leaves < than_leaves : hold < than;
}

static bool is_in_the_way(const struct relock_graph *graph, size_t wait, size_t hold)
{
    const struct relock_graph_hold *at = &graph->holds[hold];

    return at->wait != NONE && graph->waits[at->wait].search == graph->n_searches &&
           graph->waits[at->wait].leaves > 0 && (at->wait != wait || graph->waits[wait].need > 0);
}

/* The first hold in this order that is in the way of the wait, and in no step yet. */
static size_t next_hold(const struct relock_graph *graph, size_t wait)
{
    size_t found = NONE;
    size_t i = graph->locks[graph->waits[wait].lock].holds;

    for (; i != NONE; i = graph->holds[i].next)
        if (!graph->holds[i].is_in_proof && is_in_the_way(graph, wait, i) &&
            (found == NONE || goes_before(graph, i, found)))
            found = i;
    return found;
}

/* Holds, until these and those of earlier steps stop the owner of this wait. Returns false if there
 * is no room or no memory. */
static bool add_steps(struct steps *steps, size_t wait, size_t behind)
{
    struct relock_graph *graph = steps->search->graph;

    graph->waits[wait].is_in_proof = true;
    while (!is_stopped(graph, &graph->waits[wait])) {
        size_t hold = next_hold(graph, wait);

        if (hold == NONE ||
            !relock_graph_has_room((void **)&steps->pairs, steps->n, sizeof(*steps->pairs)))
            return false;
        steps->pairs[steps->n++] = (struct pair){behind, hold};
        graph->holds[hold].is_in_proof = true;
        keep(graph, &graph->holds[hold]);
    }
    return true;
}

static void step_init(struct relock_proof_step *step, const struct relock_graph *graph,
                      const struct pair *pair)
{
    const struct relock_graph_hold *hold = &graph->holds[pair->hold];
    const struct relock_graph_wait *wait = &graph->waits[hold->wait];

    *step = (struct relock_proof_step){.behind = pair->behind,
                                       .serial = wait->serial,
                                       .at_us = wait->at_us,
                                       .wait = hold->wait,
                                       .lock = wait->lock};
    copy(step->id, sizeof(step->id), hold->id, sizeof(step->id));
    copy(step->field, sizeof(step->field), hold->field, sizeof(step->field));
    copy(step->wait_id, sizeof(step->wait_id), wait->id, sizeof(step->wait_id));
}

static struct relock_proof *proof_of(const struct search *search)
{
    struct relock_graph *graph = search->graph;
    struct steps steps = {.search = search};
    struct relock_proof *proof = NULL;
    bool has_all;

    keep_nothing(graph);
    for (size_t i = 0; i < graph->n_holds; i++)
        graph->holds[i].is_in_proof = false;
    has_all = add_steps(&steps, search->first, NONE);
    for (size_t i = 0; has_all && i < steps.n; i++) {
        size_t wait = graph->holds[steps.pairs[i].hold].wait;

        has_all = graph->waits[wait].is_in_proof || add_steps(&steps, wait, i);
    }
    if (has_all)
        proof = calloc(1, sizeof(*proof) + steps.n * sizeof(proof->steps[0]));
    if (proof) {
        proof->n = steps.n;
        proof->n_looks = 1;
        for (size_t i = 0; i < steps.n; i++)
            step_init(&proof->steps[i], graph, &steps.pairs[i]);
    }
    free(steps.pairs);
    return proof;
}

struct relock_proof *relock_graph_search(struct relock_graph *graph, size_t wait)
{
    struct search search = {.graph = graph, .first = wait};
    struct relock_proof *proof = NULL;

    search.found = malloc(graph->n_waits * sizeof(*search.found));
    if (!search.found)
        return NULL;
    if (!graph->is_thinned)
        thin(&search);
    if (!graph->waits[wait].goes_on) {
        reach_all(&search);
        if (is_victim(&search))
            proof = proof_of(&search);
    }
    free(search.found);
    return proof;
}

/* ---- the proof ----------------------------------------------------------------------------- */

/* The hold of this step on that lock, if its owner waits as before. */
static size_t find_step(const struct relock_graph *graph, size_t lock,
                        const struct relock_proof_step *step)
{
    const struct relock_graph_hold *hold;

    for (size_t i = graph->locks[lock].holds; i != NONE; i = graph->holds[i].next) {
        hold = &graph->holds[i];
        if (strcmp(hold->field, step->field) != 0 || strcmp(hold->id, step->id) != 0)
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

/* The wait that the hold of this step is in the way of, in the graph of the last look. */
static size_t wait_behind(const struct relock_proof *proof, size_t step, size_t victim)
{
    size_t behind = proof->steps[step].behind;

    return behind == NONE ? victim : proof->steps[behind].wait;
}

/* Whether the holds of the steps, which are all that is kept, stop each of their owners. */
static bool stops_all(const struct relock_proof *proof, const struct relock_graph *graph,
                      size_t victim)
{
    for (size_t i = 0; i < proof->n; i++)
        if (!is_stopped(graph, &graph->waits[proof->steps[i].wait]))
            return false;
    return is_stopped(graph, &graph->waits[victim]);
}

enum relock_proof_state relock_proof_check(struct relock_proof *proof, struct relock_graph *graph,
                                           size_t wait)
{
    enum relock_proof_state state = RELOCK_PROOF_DONE;

    keep_nothing(graph);
    for (size_t i = 0; i < proof->n; i++) {
        struct relock_proof_step *step = &proof->steps[i];
        size_t hold = find_step(graph, graph->waits[wait_behind(proof, i, wait)].lock, step);
        const struct relock_graph_wait *at;

        if (hold == NONE)
            return RELOCK_PROOF_GONE;
        step->wait = graph->holds[hold].wait;
        at = &graph->waits[step->wait];
        step->lock = at->lock;
        if (step->wait != wait && is_younger(at, &graph->waits[wait]))
            return RELOCK_PROOF_GONE;
        if (proof->n_looks == 1 && graph->holds[hold].beat > 0)
            step->beat = graph->holds[hold].beat + BEATS;
        if (graph->holds[hold].beat < step->beat)
            state = RELOCK_PROOF_OPEN;
        keep(graph, &graph->holds[hold]);
    }
    if (!stops_all(proof, graph, wait))
        return RELOCK_PROOF_GONE;
    proof->n_looks++;
    return proof->n_looks == 2 ? RELOCK_PROOF_OPEN : state;
}

static int write_owner(const struct relock_graph_wait *wait, char *out, size_t size)
{
    if (wait->owner > 0)
        return snprintf(out, size, "owner %llu", (unsigned long long)wait->owner);
    return snprintf(out, size, "client %s", *wait->name ? wait->name : wait->id);
}

/* From the step whose hold belongs to the victim, back to the victim's wait. */
void relock_proof_explain(const struct relock_proof *proof, const struct relock_graph *graph,
                          size_t wait, char *out, size_t size)
{
    char name[RELOCK_LOG_NAME_MAX];
    size_t len, step = 0;

    while (step + 1 < proof->n && proof->steps[step].wait != wait)
        step++;
    len = (size_t)snprintf(out, size, "this owner holds ");
    for (size_t named = 0; len < size; named++) {
        const struct relock_graph_wait *at = &graph->waits[wait_behind(proof, step, wait)];
        bool is_last = proof->steps[step].behind == NONE || named == NAMED_MAX;

        len += (size_t)snprintf(
            out + len, size - len, "%.40s%s",
            named == NAMED_MAX ? "another lock of this cycle"
                               : relock_log_name(graph->locks[at->lock].name, name),
            is_last ? "; release this owner's locks and start again" : ", for which ");
        if (is_last || len >= size)
            break;
        len += (size_t)write_owner(at, out + len, size - len);
        if (len < size)
            len += (size_t)snprintf(out + len, size - len, " waits, who holds ");
        step = proof->steps[step].behind;
    }
}
