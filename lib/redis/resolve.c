#include "redis/resolve.h"

#include "base/clock.h"
#include "base/descriptor.h"
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
#include <unistd.h>

struct relock_lookup {
    struct relock_resolver *resolver;
    int fd;                     /* eventfd */
    struct relock_found answer; /* guarded by the mutex of the resolver */
    struct relock_lookup *next, *prev;
};

struct relock_resolver {
    /* constant */
    char *host; /* NULL: the source finds the addresses */
    char port[8];
    const struct relock_source_ops *source;
    void *arg; /* of the source */

    atomic_bool distrusts;
    struct relock_mutex mutex;
    struct relock_cond ended; /* the thread of a source */
    struct {
        struct relock_lookup *waiting; /* without an answer */
        bool is_running;   /* the thread; once it has ended, relock_resolver_free frees */
        bool is_abandoned; /* by its user: the thread frees */
    } guarded;             /* by mutex */
};

static void destroy(struct relock_resolver *resolver)
{
    if (resolver->source)
        resolver->source->free(resolver->arg);
    relock_cond_deinit(&resolver->ended);
    relock_mutex_deinit(&resolver->mutex);
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

static void *run(void *arg)
{
    struct relock_resolver *resolver = arg;
    struct relock_found answer;
    struct relock_lookup *at, *next;
    bool is_abandoned;

    look_up(resolver, &answer);
    relock_mutex_lock(&resolver->mutex);
    DL_FOREACH_SAFE(resolver->guarded.waiting, at, next)
    {
        DL_DELETE(resolver->guarded.waiting, at);
        at->answer = answer;
        (void)eventfd_write(at->fd, 1);
    }
    resolver->guarded.is_running = false;
    is_abandoned = resolver->guarded.is_abandoned;
    relock_cond_signal(&resolver->ended);
    relock_mutex_unlock(&resolver->mutex);
    if (is_abandoned)
        destroy(resolver);
    return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct relock_resolver *relock_resolver_new_for(const struct relock_source_ops *ops, void *arg)
{
    struct relock_resolver *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    relock_mutex_init(&new->mutex);
    relock_cond_init(&new->ended);
    atomic_init(&new->distrusts, false);
    new->source = ops;
    new->arg = arg;
    return new;
}

struct relock_resolver *relock_resolver_new(const char *host, uint16_t port)
{
    struct relock_resolver *new = relock_resolver_new_for(NULL, NULL);

    if (!new)
        return NULL;
    (void)snprintf(new->port, sizeof(new->port), "%u", port);
    new->host = strdup(host);
    if (new->host)
        return new;
    destroy(new);
    return NULL;
}

/* Waits for its thread: unlike the system's resolver, a source can be stopped. */
static void end_source(struct relock_resolver *resolver)
{
    resolver->source->stop(resolver->arg);
    relock_mutex_lock(&resolver->mutex);
    while (resolver->guarded.is_running)
        (void)relock_cond_wait_until(&resolver->ended, &resolver->mutex, RELOCK_NEVER);
    relock_mutex_unlock(&resolver->mutex);
}

void relock_resolver_free(struct relock_resolver *resolver)
{
    bool is_running;

    if (!resolver)
        return;
    if (resolver->source)
        end_source(resolver);
    relock_mutex_lock(&resolver->mutex);
    is_running = resolver->guarded.is_running;
    resolver->guarded.is_abandoned = true;
    relock_mutex_unlock(&resolver->mutex);
    if (!is_running)
        destroy(resolver);
}

void relock_resolver_abandon(struct relock_resolver *resolver)
{
    if (resolver && resolver->source)
        resolver->source->abandon(resolver->arg);
}

void relock_resolver_distrust(struct relock_resolver *resolver)
{
    if (resolver)
        atomic_store(&resolver->distrusts, true);
}

/* ---- lookups ------------------------------------------------------------------------------- */

/* Has the thread answer the lookup; starts it if it does not run. */
static int wait_for_thread(struct relock_resolver *resolver, struct relock_lookup *lookup)
{
    pthread_t thread;
    int r = RELOCK_OK;

    relock_mutex_lock(&resolver->mutex);
    if (!resolver->guarded.is_running)
        r = relock_thread_start(&thread, "relock:resolve", run, resolver);
    if (r == RELOCK_OK) {
        if (!resolver->guarded.is_running)
            (void)pthread_detach(thread);
        resolver->guarded.is_running = true;
        lookup->answer.result = RELOCK_AGAIN;
        DL_APPEND(resolver->guarded.waiting, lookup);
    }
    relock_mutex_unlock(&resolver->mutex);
    return r;
}

static int start(struct relock_lookup *lookup, const char **why)
{
    lookup->fd = relock_descriptor_eventfd();
    if (lookup->fd < 0) {
        *why = relock_descriptor_why(errno);
        return is_out_of_descriptors(errno) ? RELOCK_E_CONN : relock_status_result(errno);
    }
    lookup->answer.result = RELOCK_E_CONN;
    if (lookup->resolver->host)
        look_up_host(lookup->resolver, AI_NUMERICHOST, &lookup->answer);
    if (lookup->answer.result == RELOCK_OK) {
        (void)eventfd_write(lookup->fd, 1);
        return RELOCK_OK;
    }
    *why = "no thread could be started to find the server";
    return wait_for_thread(lookup->resolver, lookup);
}

int relock_lookup_new(struct relock_resolver *resolver, struct relock_lookup **lookup,
                      const char **why)
{
    struct relock_lookup *new = calloc(1, sizeof(*new));
    int r;

    *why = "out of memory";
    if (!new)
        return RELOCK_E_NOMEM;
    new->resolver = resolver;
    r = start(new, why);
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

int relock_lookup_take(struct relock_lookup *lookup, struct relock_addresses *addresses,
                       const char **why)
{
    const struct relock_found *answer = &lookup->answer;
    int r;

    relock_mutex_lock(&lookup->resolver->mutex);
    r = answer->result;
    if (r == RELOCK_OK)
        *addresses = answer->addresses;
    else
        *why = answer->why;
    relock_mutex_unlock(&lookup->resolver->mutex);
    return r;
}

struct relock_lookup *relock_lookup_free(struct relock_lookup *lookup)
{
    if (!lookup)
        return NULL;
    relock_mutex_lock(&lookup->resolver->mutex);
    if (lookup->answer.result == RELOCK_AGAIN)
        DL_DELETE(lookup->resolver->guarded.waiting, lookup);
    relock_mutex_unlock(&lookup->resolver->mutex);
    if (lookup->fd >= 0)
        close(lookup->fd);
    free(lookup);
    return NULL;
}
