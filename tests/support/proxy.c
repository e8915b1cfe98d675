#include "support/proxy.h"

#include "support/hub.h"
#include "support/seen.h"
#include "support/server.h"

#include <stdio.h>
#include <stdlib.h>

struct proxy_rule {
    struct proxy_rule *next;
    struct proxy *proxy;
    enum proxy_deed deed;
    char words[128];
    bool once, over;
    size_t n_met, n_answered, n_ended;
    size_t place; /* of the last that met it */
    enum proxy_fate last;
};

/* All but the hub itself is guarded by its mutex. */
struct proxy {
    struct hub hub;
    struct proxy_rule *rules, **end; /* in the order in which they are looked at */
    struct seen seen;
};

/* ---- called by the relays ------------------------------------------------------------------ */

static enum proxy_deed on_command(void *arg, unsigned number, const char *frame, size_t size,
                                  void **tag)
{
    struct proxy *proxy = arg;
    struct proxy_rule *rule = proxy->rules;
    char words[FRAME_WORDS_MAX];

    frame_words(frame, size, words);
    seen_translate(&proxy->seen, words);
    seen_add(&proxy->seen, number, words);
    pthread_cond_broadcast(&proxy->hub.changed);

    while (rule && (rule->over || !seen_is_like(words, rule->words)))
        rule = rule->next;
    if (!rule)
        return PROXY_PASS;
    rule->n_met++;
    rule->place = proxy->seen.n;
    rule->over = rule->once;
    *tag = rule;
    return rule->deed;
}

static void on_reply(void *arg, unsigned number, void *tag, const char *frame, size_t size)
{
    struct proxy *proxy = arg;
    struct proxy_rule *rule = tag;
    char words[FRAME_WORDS_MAX];

    if (frame[0] == '-') {
        frame_error(frame, size, words);
        seen_add(&proxy->seen, number, words);
    }
    if (rule) {
        rule->n_answered++;
        rule->last = PROXY_ANSWERED;
    }
    pthread_cond_broadcast(&proxy->hub.changed);
}

static void on_ended(void *arg, void *tag)
{
    struct proxy *proxy = arg;
    struct proxy_rule *rule = tag;

    rule->n_ended++;
    rule->last = PROXY_ENDED;
    pthread_cond_broadcast(&proxy->hub.changed);
}

static const struct relay_ops relay_ops = {
    .command = on_command,
    .reply = on_reply,
    .ended = on_ended,
};

/* ---- from outside -------------------------------------------------------------------------- */

struct proxy *proxy_start(const struct server *server, const char *path)
{
    bool is_tls = getenv("RELOCK_TEST_TLS") && server->tls_port > 0;
    struct proxy *proxy = calloc(1, sizeof(*proxy));

    if (!proxy)
        abort();
    proxy->end = &proxy->rules;
    hub_start(&proxy->hub, server->socket, path, is_tls ? server->certs : NULL, &relay_ops, proxy);
    return proxy;
}

static void free_rules(struct proxy *proxy)
{
    while (proxy->rules) {
        struct proxy_rule *rule = proxy->rules;

        proxy->rules = rule->next;
        free(rule);
    }
    proxy->end = &proxy->rules;
}

struct proxy *proxy_stop(struct proxy *proxy)
{
    if (!proxy)
        return NULL;

    hub_stop(&proxy->hub);
    free_rules(proxy);
    seen_deinit(&proxy->seen);
    free(proxy);
    return NULL;
}

const char *proxy_url(const struct proxy *proxy)
{
    return proxy->hub.url;
}

void proxy_name_script(struct proxy *proxy, const char *name, const char *sha1)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    seen_name_script(&proxy->seen, name, sha1);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

static void set_delay(struct proxy *proxy, uint64_t delay_ms)
{
    proxy->hub.guarded.delay_ms = delay_ms;
    for (struct relay *at = proxy->hub.guarded.relays; at; at = at->next)
        at->delay_ms = delay_ms;
}

/* No command meets the rules any more, and replies to those that did are no longer held. */
static void end_rules(struct proxy *proxy)
{
    for (struct proxy_rule *rule = proxy->rules; rule; rule = rule->next)
        rule->over = true;
    for (struct relay *at = proxy->hub.guarded.relays; at; at = at->next) {
        at->cut = at->cut || relay_is_troubled(at);
        relay_forget_tags(at);
    }
}

/* The thread goes on meanwhile, so the rules are freed when they have ended. */
void proxy_reset(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    proxy->hub.guarded.refuse = false;
    proxy->hub.guarded.by_byte = false;
    proxy->hub.guarded.n_to_break = 0;
    set_delay(proxy, 0);
    end_rules(proxy);
    hub_look(&proxy->hub);
    free_rules(proxy);
    seen_clear(&proxy->seen);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

/* ---- single commands ----------------------------------------------------------------------- */

static struct proxy_rule *add_rule(struct proxy *proxy, enum proxy_deed deed, const char *words,
                                   bool once)
{
    struct proxy_rule *rule = calloc(1, sizeof(*rule));

    if (!rule)
        abort();
    rule->proxy = proxy;
    rule->deed = deed;
    rule->once = once;
    snprintf(rule->words, sizeof(rule->words), "%s", words);
    pthread_mutex_lock(&proxy->hub.mutex);
    *proxy->end = rule;
    proxy->end = &rule->next;
    pthread_mutex_unlock(&proxy->hub.mutex);
    return rule;
}

struct proxy_rule *proxy_next(struct proxy *proxy, enum proxy_deed deed, const char *words)
{
    return add_rule(proxy, deed, words, true);
}

struct proxy_rule *proxy_each(struct proxy *proxy, enum proxy_deed deed, const char *words)
{
    return add_rule(proxy, deed, words, false);
}

/* The awaited event. */
struct expected {
    const struct proxy *proxy;
    const struct proxy_rule *rule;
    const char *words;
    size_t n;
};

static bool has_met(const void *arg)
{
    const struct expected *expected = arg;

    return expected->rule->n_met >= expected->n;
}

bool proxy_met(struct proxy_rule *rule, size_t n)
{
    bool met = hub_wait(&rule->proxy->hub, has_met, &(struct expected){.rule = rule, .n = n});

    if (!met) {
        fprintf(stderr, "proxy: no \"%s\" came; what did:\n", rule->words);
        proxy_print(rule->proxy);
    }
    return met;
}

void proxy_let_go(struct proxy_rule *rule)
{
    struct hub *hub = &rule->proxy->hub;

    pthread_mutex_lock(&hub->mutex);
    rule->over = true;
    for (struct relay *at = hub->guarded.relays; at; at = at->next)
        relay_let_go(at, rule);
    hub_look(hub);
    pthread_mutex_unlock(&hub->mutex);
}

static bool is_decided(const void *arg)
{
    const struct expected *expected = arg;
    const struct proxy_rule *rule = expected->rule;

    return rule->n_met > 0 && rule->n_answered + rule->n_ended >= rule->n_met;
}

enum proxy_fate proxy_fate(struct proxy_rule *rule)
{
    struct hub *hub = &rule->proxy->hub;
    enum proxy_fate last;

    if (!hub_wait(hub, is_decided, &(struct expected){.rule = rule}))
        return PROXY_PENDING;
    pthread_mutex_lock(&hub->mutex); /* one that is met each time may be met again */
    last = rule->last;
    pthread_mutex_unlock(&hub->mutex);
    return last;
}

/* ---- all of it ----------------------------------------------------------------------------- */

void proxy_cut(struct proxy *proxy, const char *words)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    for (struct relay *at = proxy->hub.guarded.relays; at; at = at->next)
        at->cut = at->cut || !*words || seen_on(&proxy->seen, at->number, words);
    hub_look(&proxy->hub);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

void proxy_stall(struct proxy *proxy, const char *words)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    for (struct relay *at = proxy->hub.guarded.relays; at; at = at->next)
        at->stalled = at->stalled || !*words || seen_on(&proxy->seen, at->number, words);
    hub_look(&proxy->hub);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

void proxy_flow(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    for (struct relay *at = proxy->hub.guarded.relays; at; at = at->next)
        at->stalled = false;
    hub_look(&proxy->hub);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

void proxy_refuse(struct proxy *proxy, bool refuse)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    proxy->hub.guarded.refuse = refuse;
    hub_look(&proxy->hub);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

void proxy_delay(struct proxy *proxy, uint64_t delay_ms)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    set_delay(proxy, delay_ms);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

void proxy_lead_to(struct proxy *proxy, const struct server *server)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    hub_lead_to(&proxy->hub, server->socket);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

void proxy_break(struct proxy *proxy, unsigned n, size_t after)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    proxy->hub.guarded.n_to_break = n;
    proxy->hub.guarded.break_after = after;
    pthread_mutex_unlock(&proxy->hub.mutex);
}

void proxy_by_byte(struct proxy *proxy, bool by_byte)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    proxy->hub.guarded.by_byte = by_byte;
    hub_look(&proxy->hub);
    pthread_mutex_unlock(&proxy->hub.mutex);
}

/* ---- recorded commands --------------------------------------------------------------------- */

size_t proxy_count(struct proxy *proxy, const char *words)
{
    size_t n;

    pthread_mutex_lock(&proxy->hub.mutex);
    n = seen_count(&proxy->seen, words);
    pthread_mutex_unlock(&proxy->hub.mutex);
    return n;
}

static bool counts(const void *arg)
{
    const struct expected *expected = arg;

    return seen_count(&expected->proxy->seen, expected->words) >= expected->n;
}

bool proxy_counts(struct proxy *proxy, const char *words, size_t n)
{
    struct expected expected = {.proxy = proxy, .words = words, .n = n};

    return hub_wait(&proxy->hub, counts, &expected);
}

size_t proxy_place(struct proxy_rule *rule)
{
    size_t place;

    pthread_mutex_lock(&rule->proxy->hub.mutex);
    place = rule->place;
    pthread_mutex_unlock(&rule->proxy->hub.mutex);
    return place;
}

static bool is_there(const void *arg)
{
    const struct expected *expected = arg;

    return seen_next(&expected->proxy->seen, expected->n, expected->words) > 0;
}

size_t proxy_next_place(struct proxy *proxy, size_t place, const char *words)
{
    struct expected expected = {.proxy = proxy, .words = words, .n = place};

    if (!hub_wait(&proxy->hub, is_there, &expected))
        return 0;
    pthread_mutex_lock(&proxy->hub.mutex);
    place = seen_next(&proxy->seen, place, words);
    pthread_mutex_unlock(&proxy->hub.mutex);
    return place;
}

size_t proxy_n_connections(struct proxy *proxy)
{
    size_t n = 0;

    pthread_mutex_lock(&proxy->hub.mutex);
    for (struct relay *at = proxy->hub.guarded.relays; at; at = at->next)
        n++;
    pthread_mutex_unlock(&proxy->hub.mutex);
    return n;
}

void proxy_print(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->hub.mutex);
    seen_print(&proxy->seen);
    pthread_mutex_unlock(&proxy->hub.mutex);
}
