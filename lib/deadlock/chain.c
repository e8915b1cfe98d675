#include "deadlock/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/acquire.h"
#include "lock/wake/outbox.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- proofs -------------------------------------------------------------------------------- */

/* Between the second look that finds a cycle and those that follow until one completes the proof:
 * twice as long each time, because a client may have died, or get no messages. The second one
 * follows the first at once. */
#define SOON_MS 4
#define SOON_MAX_MS 256

/* Between two looks that find nothing. The first ones come early, because the hash of a plain
 * lock, or one at another server, may come a little after this one. */
#define EARLY_MS 15

/* Whether looks follow this wait: Redis has its hash, and the wait has not ended. */
static bool proofs_concern(const struct relock_waiter *waiter)
{
    return waiter->wait.at_us > 0 && waiter->wait.is_published &&
           waiter->end == RELOCK_WAITER_WAITS;
}

STEP void refuse(struct relock_client *client, struct relock_graph *graph,
                 struct relock_waiter *waiter, size_t wait)
{
    struct relock_acquire *acquire = RELOCK_CONTAINER(struct relock_acquire, waiter, waiter);
    char why[RELOCK_WHY_MAX];

    relock_proof_explain(waiter->wait.proof, graph, wait, why, sizeof(why));
    relock_acquire_keep_why(acquire, why);
    graph->waits[wait].is_over = true;
    client->guarded.stats.deadlocks++;
    relock_published_alert(client);
    relock_resource_end_wait(waiter, RELOCK_WAITER_REFUSED, &client->mutex);
}

/* Returns whether the wait has a proof that another look is to continue. `is_new`: it has just
 * begun. */
STEP bool decide(struct relock_client *client, struct relock_graph *graph,
                 struct relock_waiter *waiter, bool *is_new)
{
    enum relock_proof_state state = RELOCK_PROOF_GONE;
    size_t wait;

    if (!proofs_concern(waiter)) /* most waits of the client, perhaps */
        return false;
    wait = relock_graph_find(graph, client->id, waiter->wait.serial);
    if (wait == RELOCK_GRAPH_NONE)
        return false;
    if (waiter->wait.proof)
        state = relock_proof_check(waiter->wait.proof, graph, wait);
    if (state == RELOCK_PROOF_DONE) {
        refuse(client, graph, waiter, wait);
        return false;
    }
    if (state == RELOCK_PROOF_GONE) {
        free(waiter->wait.proof);
        waiter->wait.proof = relock_graph_search(graph, wait);
        *is_new |= waiter->wait.proof != NULL;
    }
    return waiter->wait.proof != NULL;
}

/* How long after this look the next one follows. */
static uint64_t pause_after(struct relock_published *published, bool has_proof, bool is_new)
{
    if (is_new)
        return published->proof_pause_ms = 0;
    if (has_proof && !published->asks) /* beats came: they postpone the next one that asks */
        return relock_clock_later(published->proof_pause_ms, SOON_MS);
    if (has_proof)
        return published->proof_pause_ms = relock_clock_sooner(
                   relock_clock_later(2 * published->proof_pause_ms, SOON_MS), SOON_MAX_MS);
    if (published->look_pause_ms == 0)
        return published->look_pause_ms = EARLY_MS;
    return published->look_pause_ms =
               relock_clock_sooner(4 * published->look_pause_ms, RELOCK_PROOFS_LATER_MS);
}

/* A look has found this graph: refuses waits, and sets the time of the next look. */
static void proofs_conclude(struct relock_client *client, struct relock_graph *graph)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_published *published = relock_published_of(client);
    bool is_new = false, has_proof = false;
    struct relock_waiter *at;

    for (at = published->asleep; at; at = at->wait.next)
        has_proof |= decide(client, graph, at, &is_new);
    published->has_proof = has_proof;
    published->look_at_ms = relock_clock_sooner(
        published->look_at_ms,
        relock_clock_in(published->looks_again ? 0 : pause_after(published, has_proof, is_new)));
    relock_published_arm(client);
}

/* ---- the graph of a look ------------------------------------------------------------------- */

#define HOLDS_MOST "256" /* of one lock that a look follows: there may be many readers */

/* A command of a look: who holds this lock, or what the owner of this hold waits for. */
struct ask {
    struct relock_outbox_entry entry;
    size_t lock, hold; /* one of them; the other is RELOCK_GRAPH_NONE */
    char key[RELOCK_CHAIN_KEY_MAX];
    size_t key_len;
};

static struct ask *ask_of(const struct relock_outbox_entry *entry)
{
    return RELOCK_CONTAINER(struct ask, entry, entry);
}

size_t relock_chain_key(char out[RELOCK_CHAIN_KEY_MAX], const char *id, size_t len)
{
    return (size_t)snprintf(out, RELOCK_CHAIN_KEY_MAX, "relock_waits:{%.*s}", (int)len, id);
}

static const char form_all[] = "hash", form_writer[] = "write", form_token[] = "token",
                  form_permits[] = "permits";

const char *relock_chain_form(const struct relock_kind *kind)
{
    if (kind->has_permits)
        return form_permits;
    if (kind->has_token_only)
        return form_token;
    return kind->is_shared ? form_writer : form_all;
}

uint64_t relock_chain_need(const struct relock_waiter *waiter)
{
    if (!relock_resource_wanted(waiter)->kind->has_permits)
        return 0;
    return relock_acquire_n_permits(RELOCK_CONTAINER(struct relock_acquire, waiter, waiter));
}

unsigned relock_chain_hash(const struct relock_kind *kind)
{
    if (kind->has_permits)
        return RELOCK_PUBLISHED_PERMITS;
    return kind->has_token_only ? RELOCK_PUBLISHED_TOKENS : RELOCK_PUBLISHED_ALL;
}

size_t relock_chain_id(char out[RELOCK_FIELD_MAX], const struct relock_client *client,
                       unsigned which)
{
    if (which == RELOCK_PUBLISHED_ALL)
        return (size_t)snprintf(out, RELOCK_FIELD_MAX, "%s", client->id);
    if (which == RELOCK_PUBLISHED_PERMITS) {
        (void)relock_keys_permits_hold(out, client->id, 0);
        return RELOCK_PERMIT_CLIENT_DIGITS;
    }
    (void)relock_tokens_write(&client->tokens, 0, out);
    return (size_t)2 * RELOCK_TOKENS_PREFIX;
}

size_t relock_chain_field(char out[RELOCK_FIELD_MAX], const struct relock_client *client,
                          const struct relock_hold *hold)
{
    const struct relock_kind *kind = hold->resource->kind;

    if (kind->has_permits)
        return relock_keys_permits_hold(out, client->id, hold->number);
    if (kind->has_token_only)
        return relock_tokens_write(&client->tokens, hold->number, out);
    return relock_decimal(out, hold->number);
}

static unsigned hash_of_form(const char *form)
{
    if (form == form_permits)
        return RELOCK_PUBLISHED_PERMITS;
    return form == form_token ? RELOCK_PUBLISHED_TOKENS : RELOCK_PUBLISHED_ALL;
}

bool relock_chain_counts(const struct relock_published_hold *held, uint64_t now_ms)
{
    const struct relock_hold *hold = held->hold;

    return hold->owner == held->waiter->owner && held->waiter->end == RELOCK_WAITER_WAITS &&
           hold->count > 0 && hold->keeping != RELOCK_HOLD_FIXED &&
           relock_hold_is_certain(hold, now_ms);
}

/* ---- asking -------------------------------------------------------------------------------- */

static bool write_ask(const struct relock_outbox_entry *entry, struct relock_request *request);
static void on_answer(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                      const struct redisReply *reply);

static void drop_ask(struct relock_client *client, struct relock_outbox_entry *entry)
{
    (void)client;
    free(ask_of(entry));
}

static const struct relock_outbox_ops ask_ops = {
    .write = write_ask,
    .answer = on_answer,
    .drop = drop_ask,
};

/* Without memory the chain ends here; the next look follows it. */
STEP struct ask *post(struct relock_client *client, size_t lock, size_t hold)
{
    struct ask *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    new->entry.ops = &ask_ops;
    new->lock = lock;
    new->hold = hold;
    relock_published_of(client)->n_asked++;
    relock_outbox_post(client, &client->guarded.commands, &new->entry);
    return new;
}

RELOCK_UNCHECKED static bool write_ask(const struct relock_outbox_entry *entry,
                                       struct relock_request *request)
{
    const struct ask *ask = ask_of(entry);
    const struct relock_published *published = relock_published_of(entry->client);
    const struct relock_graph *graph = &published->graph;
    struct relock_call *call = &request->call;

    if (ask->hold != RELOCK_GRAPH_NONE) {
        *call = (struct relock_call){.script = &relock_script_waits_find, .n_args = 2};
        call->key = (struct relock_text){ask->key, ask->key_len};
        call->args[1] = relock_text_of(graph->holds[ask->hold].field);
    } else {
        const struct relock_graph_lock *lock = &graph->locks[ask->lock];

        *call = (struct relock_call){.script = &relock_script_waits_behind, .n_args = 4};
        call->key = (struct relock_text){lock->name, lock->len};
        call->args[1] = relock_text_of(lock->form);
        call->args[2] = relock_text_of(HOLDS_MOST);
        call->args[3] =
            (struct relock_text){request->field, relock_chain_id(request->field, entry->client,
                                                                 hash_of_form(lock->form))};
    }
    call->args[0] = relock_text_of(published->asks ? entry->client->id : "");
    return true;
}

/* Returns the index of the lock for which somebody waits; asks who holds it, if that is new. */
STEP size_t follow_lock(struct relock_client *client, const char *name, size_t len,
                        const char *form, unsigned step)
{
    struct relock_graph *graph = &relock_published_of(client)->graph;
    size_t n_before = graph->n_locks;
    size_t lock = relock_graph_add_lock(graph, name, len, form, step);

    if (graph->n_locks > n_before)
        (void)post(client, lock, RELOCK_GRAPH_NONE);
    return lock;
}

/* ---- the waits of this client -------------------------------------------------------------- */

STEP size_t follow_own(struct relock_client *client, const struct relock_waiter *waiter,
                       unsigned step)
{
    const struct relock_resource *resource = relock_resource_wanted(waiter);
    struct relock_graph *graph = &relock_published_of(client)->graph;
    size_t lock = follow_lock(client, resource->name, resource->name_len,
                              relock_chain_form(resource->kind), step);
    size_t wait = RELOCK_GRAPH_NONE;

    if (lock != RELOCK_GRAPH_NONE)
        wait =
            relock_graph_add_wait(graph, client->id, waiter->wait.serial, waiter->wait.at_us, lock);
    if (wait != RELOCK_GRAPH_NONE) {
        graph->waits[wait].owner = waiter->owner;
        graph->waits[wait].need = relock_chain_need(waiter);
    }
    return wait;
}

/* The owner of this hold is one of this client: if it waits, follows that. */
STEP void follow_own_hold(struct relock_client *client, size_t hold, unsigned step)
{
    struct relock_published *published = relock_published_of(client);
    struct relock_graph *graph = &published->graph;
    uint64_t now_ms = relock_clock_now_ms();

    for (size_t i = 0; i < published->n_holds; i++) {
        const struct relock_published_hold *held = &published->holds[i];
        size_t wait;

        if (strcmp(held->field, graph->holds[hold].field) != 0 || !proofs_concern(held->waiter) ||
            !relock_chain_counts(held, now_ms))
            continue;
        wait = follow_own(client, held->waiter, step);
        graph->holds[hold].wait = wait;
        return;
    }
}

/* ---- answers ------------------------------------------------------------------------------- */

/* "<what the ids of its permits begin with>:<n>" */
static size_t add_permits(struct relock_graph *graph, size_t lock, const char *text, size_t len)
{
    size_t hold = RELOCK_GRAPH_NONE;

    if (len > RELOCK_PERMIT_HOLD_DIGITS + 1)
        hold = relock_graph_add_hold(graph, lock, text, RELOCK_PERMIT_CLIENT_DIGITS, text,
                                     RELOCK_PERMIT_HOLD_DIGITS);
    if (hold != RELOCK_GRAPH_NONE)
        graph->holds[hold].n = strtoull(text + RELOCK_PERMIT_HOLD_DIGITS + 1, NULL, 10);
    return hold;
}

/* Splits what the lock shows of a hold: "<id>:<number>", "<id>:<number>:write", a token, or as
 * above. */
static size_t add_hold(struct relock_graph *graph, size_t lock, const char *text, size_t len)
{
    static const char suffix[] = ":" RELOCK_SIDE_WRITE;
    size_t suffix_len = sizeof(suffix) - 1;

    if (graph->locks[lock].form == form_permits)
        return add_permits(graph, lock, text, len);
    if (graph->locks[lock].form == form_token)
        return len == 2 * (RELOCK_TOKENS_PREFIX + sizeof(uint64_t))
                   ? relock_graph_add_hold(graph, lock, text, (size_t)2 * RELOCK_TOKENS_PREFIX,
                                           text, len)
                   : RELOCK_GRAPH_NONE;
    if (len > suffix_len && memcmp(text + len - suffix_len, suffix, suffix_len) == 0)
        len -= suffix_len;
    if (len <= RELOCK_UUID_LEN + 1 || text[RELOCK_UUID_LEN] != ':')
        return RELOCK_GRAPH_NONE;
    return relock_graph_add_hold(graph, lock, text, RELOCK_UUID_LEN, text + RELOCK_UUID_LEN + 1,
                                 len - RELOCK_UUID_LEN - 1);
}

static bool is_own(const struct relock_client *client, const struct relock_graph_hold *hold)
{
    const char *form = relock_published_of(client)->graph.locks[hold->lock].form;
    char id[RELOCK_FIELD_MAX];
    size_t len = relock_chain_id(id, client, hash_of_form(form));

    return strlen(hold->id) == len && memcmp(hold->id, id, len) == 0;
}

/* A wait in the hash of another client: "<at> <ms> <serial> <form> <lock>". The form of a wait for
 * permits ends with ":" and how many. */
struct peer_wait {
    uint64_t at_us, serial, need;
    const char *form, *name;
    size_t name_len;
};

static bool parse(const char *text, size_t len, struct peer_wait *peer)
{
    static const char *const forms[] = {form_all, form_writer, form_token, form_permits};
    unsigned long long at, serial;
    char form[32], *need;
    int name = 0;

    if (sscanf(text, "%llu %*u %llu %31s %n", &at, &serial, form, &name) != 3 || name == 0 ||
        (size_t)name >= len || at == 0)
        return false;
    *peer = (struct peer_wait){.at_us = at, .serial = serial, .name = text + name};
    peer->name_len = len - (size_t)name;
    need = strchr(form, ':');
    if (need) {
        *need = '\0';
        peer->need = strtoull(need + 1, NULL, 10);
    }
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (strcmp(forms[i], form) == 0)
            peer->form = forms[i];
    return peer->form && (peer->form == form_permits) == (peer->need > 0) &&
           peer->name_len <= RELOCK_NAME_MAX;
}

/* The owner of the hold waits, as three elements of the reply say. */
STEP void take_wait(struct relock_client *client, size_t hold, const struct redisReply *reply,
                    size_t from)
{
    struct relock_graph *graph = &relock_published_of(client)->graph;
    unsigned step = graph->locks[graph->holds[hold].lock].step;
    const char *text, *beat, *who;
    char id[RELOCK_UUID_LEN + 1];
    size_t len, beat_len, who_len, lock, wait = RELOCK_GRAPH_NONE;
    struct peer_wait peer;

    if (!relock_reply_text(relock_reply_at(reply, from), &text, &len) ||
        !relock_reply_text(relock_reply_at(reply, from + 1), &beat, &beat_len) ||
        !relock_reply_text(relock_reply_at(reply, from + 2), &who, &who_len) ||
        who_len <= RELOCK_UUID_LEN || !parse(text, len, &peer))
        return;
    (void)snprintf(id, sizeof(id), "%.*s", RELOCK_UUID_LEN, who);
    lock = follow_lock(client, peer.name, peer.name_len, peer.form, step + 1);
    if (lock != RELOCK_GRAPH_NONE)
        wait = relock_graph_add_wait(graph, id, peer.serial, peer.at_us, lock);
    if (wait == RELOCK_GRAPH_NONE)
        return;
    graph->holds[hold].wait = wait;
    graph->holds[hold].beat = strtoull(beat, NULL, 10);
    graph->waits[wait].need = peer.need;
    (void)snprintf(graph->waits[wait].name, sizeof(graph->waits[wait].name), "%s",
                   who + RELOCK_UUID_LEN + 1);
}

/* The lock is held by another client, and perhaps the reply has the wait of the owner. If the node
 * of the lock could not read it, another one is asked. */
STEP void take_foreign(struct relock_client *client, size_t hold, const struct redisReply *reply)
{
    const struct relock_graph_hold *of = &relock_published_of(client)->graph.holds[hold];
    struct ask *ask;

    if (!relock_reply_is(relock_reply_at(reply, 1), "")) {
        take_wait(client, hold, reply, 1);
        return;
    }
    ask = post(client, of->lock, hold);
    if (ask)
        ask->key_len = relock_chain_key(ask->key, of->id, strlen(of->id));
}

/* The lock is held by these. */
STEP void take_holds(struct relock_client *client, size_t lock, const struct redisReply *reply)
{
    struct relock_graph *graph = &relock_published_of(client)->graph;
    unsigned step = graph->locks[lock].step;
    const struct redisReply *at;
    const char *text;
    size_t len;
    int64_t n_all;

    if (graph->locks[lock].form == form_permits &&
        relock_reply_integer(relock_reply_at(reply, 0), &n_all) && n_all > 0)
        graph->locks[lock].n_all = (uint64_t)n_all;
    for (size_t i = 0; (at = relock_reply_at(reply, i)); i++) {
        size_t hold = relock_reply_text(relock_reply_at(at, 0), &text, &len)
                          ? add_hold(graph, lock, text, len)
                          : RELOCK_GRAPH_NONE;

        if (hold == RELOCK_GRAPH_NONE || step >= RELOCK_GRAPH_STEPS)
            continue;
        if (is_own(client, &graph->holds[hold]))
            follow_own_hold(client, hold, step + 1);
        else
            take_foreign(client, hold, at);
    }
}

STEP void on_answer(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                    const struct redisReply *reply)
{
    struct relock_published *published = relock_published_of(client);
    struct ask *ask = ask_of(entry);

    if (result == RELOCK_OK && ask->hold != RELOCK_GRAPH_NONE)
        take_wait(client, ask->hold, reply, 0);
    else if (result == RELOCK_OK)
        take_holds(client, ask->lock, reply);
    free(ask);
    if (--published->n_asked == 0) {
        proofs_conclude(client, &published->graph);
        relock_cond_broadcast(&client->changed); /* relock_client_free may wait for it */
    }
}

/* ---- looks --------------------------------------------------------------------------------- */

/* Asks for all locks of the cycle at once, instead of one after the other. A look that did not
 * reach them has left other locks in their places: that costs a command. */
STEP void follow_proof(struct relock_client *client, const struct relock_proof *proof,
                       const struct relock_graph *before)
{
    for (size_t i = 0; i < proof->n; i++) {
        const struct relock_graph_lock *lock;

        if (proof->steps[i].lock >= before->n_locks) /* that look had no memory */
            return;
        lock = &before->locks[proof->steps[i].lock];
        (void)follow_lock(client, lock->name, lock->len, lock->form, lock->step);
    }
}

void relock_chain_follow(struct relock_client *client)
{
    struct relock_published *published = relock_published_of(client);
    struct relock_graph before = published->graph;
    const struct relock_waiter *at;

    published->look_at_ms = RELOCK_NEVER;
    published->looks_again = published->n_asked > 0;
    if (published->looks_again)
        return;
    published->asks = published->has_proof && !published->has_beats;
    published->has_beats = false;
    published->graph = (struct relock_graph){.n_searches = before.n_searches};
    for (at = published->asleep; at; at = at->wait.next) {
        if (!proofs_concern(at))
            continue;
        (void)follow_own(client, at, 0);
        published->look_at_ms = RELOCK_NEVER;
        if (published->n_asked == 0) /* out of memory */
            published->look_at_ms = relock_clock_in(RELOCK_PROOFS_LATER_MS);
    }
    for (at = published->asleep; at; at = at->wait.next)
        if (at->wait.proof)
            follow_proof(client, at->wait.proof, &before);
    published->has_proof = published->has_proof && published->n_asked > 0;
    relock_graph_clear(&before);
}
