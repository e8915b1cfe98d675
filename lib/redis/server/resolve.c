/*
 * Lookups wait at their resolver until a thread takes them up. Resolvers with waiting lookups stand
 * in the queue of their workers:
 *
 *     the workers of the names    one set for the whole process: a standing thread, which is there
 *                                 before the first resolver of a name is. While it waits for the
 *                                 system, another name gets a helper, which ends when the queue is
 *                                 empty. Without a helper the name waits for the standing thread.
 *     the workers of a source     a standing thread, which nothing else uses. The source looks up
 *                                 names itself, so it must not wait where these are answered.
 *
 * If the system hangs when the last resolver of a name is freed, its thread is left behind and ends
 * when the system returns.
 */
#include "redis/server/resolve.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

struct relock_lookup {
    struct relock_resolver *resolver;
    int fd;                     /* eventfd */
    struct relock_found answer; /* guarded by the mutex of the workers */
    struct relock_lookup *next, *prev;
};

struct workers {
    /* constant */
    unsigned generation; /* which copy of the process has the threads, see base/fork.h */
    pthread_t standing;  /* used by the one that ends it */

    unsigned n_resolvers; /* that use the workers of the names; guarded by the process mutex */

    struct relock_mutex mutex;
    struct relock_cond work; /* signalled when the standing thread has something to do */
    struct {
        struct relock_resolver *queue; /* those with lookups that no thread has begun */
        unsigned n_queued;
        unsigned n_users; /* threads, and the owner; the last one frees */
        bool is_busy;     /* the standing thread looks up */
        bool is_ending;   /* no work will be added any more */
    } guarded;            /* by mutex */
};

/* Guarded by the process mutex; NULL while no resolver is for a name. */
static struct workers *names;

struct relock_resolver {
    /* constant */
    char *host; /* NULL: the source finds the addresses */
    char port[8];
    const struct relock_source_ops *source;
    void *arg;               /* of the source */
    struct workers *workers; /* NULL: the host is an address in digits */

    atomic_bool distrusts;
    struct {
        struct relock_lookup *waiting; /* without an answer */
        bool is_queued;
        bool is_running;  /* a thread looks up; it frees the resolver if that is given up */
        bool is_given_up; /* by its user */
        struct relock_resolver *next, *prev; /* in the queue */
    } guarded;                               /* by the mutex of the workers */
};

static void destroy(struct relock_resolver *resolver)
{
    if (resolver->source)
        resolver->source->free(resolver->arg);
    free(resolver->host);
    free(resolver);
}

/* Returns the first address that is, or is not, of this family. */
static const struct addrinfo *find(const struct addrinfo *at, int family, bool is_of_it)
{
    while (at && (at->ai_family == family) != is_of_it)
        at = at->ai_next;
    return at;
}

/* Copies the families in turn, each in the order of the system, beginning with the preferred one
 * (RFC 8305, section 4). So if one family leads nowhere, the next address is of the other. */
static void copy(const struct addrinfo *from, struct relock_addresses *to)
{
    const int family = from->ai_family;
    const struct addrinfo *turn = from, *other = find(from, family, false);

    for (to->n = 0; turn && to->n < RELOCK_ADDRESSES_MAX; to->n++) {
        const struct addrinfo *taken = turn;
        const struct addrinfo *left = find(taken->ai_next, family, taken->ai_family == family);

        memcpy(&to->at[to->n].address, taken->ai_addr, taken->ai_addrlen);
        to->at[to->n].len = taken->ai_addrlen;
        turn = other ? other : left;
        other = other ? left : NULL;
    }
}

static bool is_out_of_descriptors(int err)
{
    return err == EMFILE || err == ENFILE;
}

static void look_up_host(const struct relock_resolver *resolver, int flags,
                         struct relock_found *answer)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = flags | AI_NUMERICSERV,
    };
    struct addrinfo *addresses;
    int err;

    /* A resolver that cannot read its files for lack of memory reports that there is no such name.
     * After a failure, errno is the last error that it met. */
    errno = 0;
    err = getaddrinfo(resolver->host, resolver->port, &hints, &addresses);
    if (err == 0) {
        answer->result = RELOCK_OK;
        copy(addresses, &answer->addresses);
        freeaddrinfo(addresses);
        return;
    }
    if (errno == ENOMEM)
        err = EAI_MEMORY;
    answer->result = err == EAI_MEMORY ? RELOCK_E_NOMEM : RELOCK_E_CONN;
    (void)snprintf(answer->why, sizeof(answer->why), "%s",
                   is_out_of_descriptors(errno) ? relock_status_errno(errno) : gai_strerror(err));
}

static void look_up(struct relock_resolver *resolver, struct relock_found *answer)
{
    if (resolver->source)
        resolver->source->look_up(resolver->arg, atomic_exchange(&resolver->distrusts, false),
                                  answer);
    else
        look_up_host(resolver, AI_ADDRCONFIG, answer);
}

/* ---- the threads --------------------------------------------------------------------------- */

static void enqueue(struct relock_resolver *resolver) RELOCK_REQUIRES(resolver->workers->mutex)
{
    struct workers *workers = resolver->workers;

    DL_APPEND2(workers->guarded.queue, resolver, guarded.prev, guarded.next);
    workers->guarded.n_queued++;
    resolver->guarded.is_queued = true;
}

static void dequeue(struct workers *workers, struct relock_resolver *resolver)
    RELOCK_REQUIRES(workers->mutex)
{
    DL_DELETE2(workers->guarded.queue, resolver, guarded.prev, guarded.next);
    workers->guarded.n_queued--;
    resolver->guarded.is_queued = false;
}

/* With the mutex of the workers locked. */
static void deliver(struct relock_resolver *resolver, const struct relock_found *answer)
{
    struct relock_lookup *at, *next;

    DL_FOREACH_SAFE(resolver->guarded.waiting, at, next)
    {
        DL_DELETE(resolver->guarded.waiting, at);
        at->answer = *answer;
        (void)eventfd_write(at->fd, 1);
    }
}

/* Answers the lookups of the first resolver in the queue. Unlocks the mutex meanwhile. */
static void serve_first(struct workers *workers) RELOCK_REQUIRES(workers->mutex)
{
    struct relock_resolver *resolver = workers->guarded.queue;
    struct relock_found answer;
    bool is_given_up;

    dequeue(workers, resolver);
    resolver->guarded.is_running = true;
    relock_mutex_unlock(&workers->mutex);
    look_up(resolver, &answer);
    relock_mutex_lock(&workers->mutex);
    deliver(resolver, &answer);
    resolver->guarded.is_running = false;
    is_given_up = resolver->guarded.is_given_up;
    if (!is_given_up)
        return;
    relock_mutex_unlock(&workers->mutex);
    destroy(resolver);
    relock_mutex_lock(&workers->mutex);
}

static void leave(struct workers *workers) RELOCK_RELEASES(workers->mutex)
{
    bool is_last = --workers->guarded.n_users == 0;

    relock_mutex_unlock(&workers->mutex);
    if (!is_last)
        return;
    relock_cond_deinit(&workers->work);
    relock_mutex_deinit(&workers->mutex);
    free(workers);
}

static void *help(void *arg)
{
    struct workers *workers = arg;

    relock_mutex_lock(&workers->mutex);
    while (workers->guarded.queue)
        serve_first(workers);
    leave(workers);
    return NULL;
}

static void *stand(void *arg)
{
    struct workers *workers = arg;

    relock_mutex_lock(&workers->mutex);
    while (workers->guarded.queue || !workers->guarded.is_ending) {
        if (!workers->guarded.queue) {
            (void)relock_cond_wait_until(&workers->work, &workers->mutex, RELOCK_NEVER);
            continue;
        }
        workers->guarded.is_busy = true;
        serve_first(workers);
        workers->guarded.is_busy = false;
    }
    leave(workers);
    return NULL;
}

/* Returns NULL when out of memory or threads. */
static struct workers *start_workers(void)
{
    struct workers *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    new->generation = relock_fork_generation();
    new->n_resolvers = 1;
    relock_mutex_init(&new->mutex);
    relock_cond_init(&new->work);
    new->guarded.n_users = 2;
    if (relock_thread_start(&new->standing, "relock:resolve", stand, new) == RELOCK_OK)
        return new;
    relock_cond_deinit(&new->work);
    relock_mutex_deinit(&new->mutex);
    free(new);
    return NULL;
}

/* `waits`: also for a thread that looks up. */
static void end_workers(struct workers *workers, bool waits)
{
    pthread_t standing = workers->standing;

    relock_mutex_lock(&workers->mutex);
    workers->guarded.is_ending = true;
    waits |= !workers->guarded.is_busy;
    relock_cond_signal(&workers->work);
    relock_mutex_unlock(&workers->mutex);
    if (waits)
        (void)pthread_join(standing, NULL);
    else
        (void)pthread_detach(standing);
    relock_mutex_lock(&workers->mutex);
    leave(workers);
}

/* Returns NULL when out of memory or threads. A forked child has none of its parent's threads. */
static struct workers *ref_names(void)
{
    struct workers *found;

    relock_mutex_lock(&relock_process_mutex);
    if (names && names->generation == relock_fork_generation())
        names->n_resolvers++;
    else
        names = start_workers();
    found = names;
    relock_mutex_unlock(&relock_process_mutex);
    return found;
}

static void unref_names(void)
{
    struct workers *to_end = NULL;

    relock_mutex_lock(&relock_process_mutex);
    if (--names->n_resolvers == 0) {
        to_end = names;
        names = NULL;
    }
    relock_mutex_unlock(&relock_process_mutex);
    if (to_end)
        end_workers(to_end, false);
}

/* Has a thread answer the lookups of the resolver. */
static void post(struct relock_resolver *resolver) RELOCK_REQUIRES(resolver->workers->mutex)
{
    struct workers *workers = resolver->workers;
    pthread_t helper;

    enqueue(resolver);
    relock_cond_signal(&workers->work);
    if (workers->guarded.n_queued == 1 && !workers->guarded.is_busy)
        return;
    if (relock_thread_start(&helper, "relock:resolve", help, workers) < 0)
        return; /* it waits for the standing thread */
    (void)pthread_detach(helper);
    workers->guarded.n_users++;
}

/* ---- life ---------------------------------------------------------------------------------- */

static struct relock_resolver *alloc(void)
{
    struct relock_resolver *new = calloc(1, sizeof(*new));

    if (new)
        atomic_init(&new->distrusts, false);
    return new;
}

struct relock_resolver *relock_resolver_new_for(const struct relock_source_ops *ops, void *arg)
{
    struct relock_resolver *new = alloc();

    if (!new)
        return NULL;
    new->workers = start_workers();
    if (new->workers && !ref_names()) {
        end_workers(new->workers, true);
        new->workers = NULL;
    }
    if (!new->workers) {
        free(new);
        return NULL;
    }
    new->source = ops;
    new->arg = arg;
    return new;
}

/* Gives the resolver of a name its thread. Returns false when out of memory or threads. */
static bool make_ready(struct relock_resolver *resolver)
{
    struct relock_found answer;

    if (!resolver->host)
        return false;
    look_up_host(resolver, AI_NUMERICHOST, &answer);
    if (answer.result == RELOCK_E_CONN)
        resolver->workers = ref_names();
    return answer.result == RELOCK_OK || resolver->workers;
}

struct relock_resolver *relock_resolver_new(const char *host, uint16_t port)
{
    struct relock_resolver *new = alloc();

    if (!new)
        return NULL;
    (void)snprintf(new->port, sizeof(new->port), "%u", port);
    new->host = strdup(host);
    if (make_ready(new))
        return new;
    destroy(new);
    return NULL;
}

/* Returns whether a thread still looks up for the resolver of a name: from now on it is that
 * thread's, which frees it. */
static bool let_go(struct relock_resolver *resolver)
{
    struct workers *workers = resolver->workers;
    bool is_left;

    relock_mutex_lock(&workers->mutex);
    if (resolver->guarded.is_queued)
        dequeue(workers, resolver);
    is_left = resolver->guarded.is_running && !resolver->source;
    resolver->guarded.is_given_up = is_left;
    relock_mutex_unlock(&workers->mutex);
    return is_left;
}

void relock_resolver_free(struct relock_resolver *resolver)
{
    bool has_names;

    if (!resolver)
        return;
    has_names = resolver->workers;
    if (resolver->source)
        resolver->source->stop(resolver->arg);
    if (!has_names || !let_go(resolver)) {
        if (resolver->source && has_names) /* unlike the system's resolver, it has been stopped */
            end_workers(resolver->workers, true);
        destroy(resolver);
    }
    if (has_names)
        unref_names();
}

void relock_resolver_distrust(struct relock_resolver *resolver)
{
    if (resolver)
        atomic_store(&resolver->distrusts, true);
}

/* ---- lookups ------------------------------------------------------------------------------- */

static void wait_for_thread(struct relock_resolver *resolver, struct relock_lookup *lookup)
{
    relock_mutex_lock(&resolver->workers->mutex);
    lookup->answer.result = RELOCK_AGAIN;
    DL_APPEND(resolver->guarded.waiting, lookup);
    if (!resolver->guarded.is_running && !resolver->guarded.is_queued)
        post(resolver);
    relock_mutex_unlock(&resolver->workers->mutex);
}

static int start(struct relock_lookup *lookup, const void *scope, const char **why)
{
    lookup->fd = relock_descriptor_eventfd(scope);
    if (lookup->fd < 0) {
        *why = relock_descriptor_why(errno);
        return is_out_of_descriptors(errno) ? RELOCK_E_CONN : relock_status_result(errno);
    }
    if (lookup->resolver->workers) {
        wait_for_thread(lookup->resolver, lookup);
    } else {
        look_up_host(lookup->resolver, AI_NUMERICHOST, &lookup->answer);
        (void)eventfd_write(lookup->fd, 1);
    }
    return RELOCK_OK;
}

int relock_lookup_new(struct relock_resolver *resolver, const void *scope,
                      struct relock_lookup **lookup, const char **why)
{
    struct relock_lookup *new = calloc(1, sizeof(*new));
    int r;

    *why = "out of memory";
    if (!new)
        return RELOCK_E_NOMEM;
    new->resolver = resolver;
    r = start(new, scope, why);
    if (r == RELOCK_OK)
        *lookup = new;
    else
        relock_lookup_free(new);
    return r;
}

int relock_lookup_fd(const struct relock_lookup *lookup)
{
    return lookup->fd;
}

static int take(const struct relock_found *answer, struct relock_addresses *addresses,
                const char **why)
{
    if (answer->result == RELOCK_OK)
        *addresses = answer->addresses;
    else
        *why = answer->why;
    return answer->result;
}

int relock_lookup_take(struct relock_lookup *lookup, struct relock_addresses *addresses,
                       const char **why)
{
    struct workers *workers = lookup->resolver->workers;
    int r;

    if (!workers)
        return take(&lookup->answer, addresses, why);
    relock_mutex_lock(&workers->mutex);
    r = take(&lookup->answer, addresses, why);
    relock_mutex_unlock(&workers->mutex);
    return r;
}

static void forget(struct relock_lookup *lookup, struct workers *workers)
{
    relock_mutex_lock(&workers->mutex);
    if (lookup->answer.result == RELOCK_AGAIN)
        DL_DELETE(lookup->resolver->guarded.waiting, lookup);
    relock_mutex_unlock(&workers->mutex);
}

struct relock_lookup *relock_lookup_free(struct relock_lookup *lookup)
{
    if (!lookup)
        return NULL;
    if (lookup->resolver->workers)
        forget(lookup, lookup->resolver->workers);
    (void)relock_descriptor_close(lookup->fd);
    free(lookup);
    return NULL;
}
