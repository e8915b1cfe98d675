#include "redis/resolve.h"

#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct relock_resolve {
    struct relock_mutex mutex;
    char *host;
    char port[8];
    int fd; /* eventfd; belongs to whoever began */
    struct {
        struct addrinfo *addresses;
        int err; /* of getaddrinfo */
        bool done;
        bool abandoned; /* who comes second, the asker or the thread, frees */
    } guarded;          /* by mutex */
};

static void destroy(struct relock_resolve *resolve)
{
    if (resolve->guarded.addresses)
        freeaddrinfo(resolve->guarded.addresses);
    relock_mutex_deinit(&resolve->mutex);
    free(resolve->host);
    free(resolve);
}

static int look_up(struct relock_resolve *resolve, int flags, struct addrinfo **addresses)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = flags | AI_NUMERICSERV,
    };

    int err;

    /* A resolver that cannot read its files for want of memory says that there is no such name. */
    errno = 0;
    err = getaddrinfo(resolve->host, resolve->port, &hints, addresses);
    return err != 0 && errno == ENOMEM ? EAI_MEMORY : err;
}

static void *run(void *arg)
{
    struct relock_resolve *resolve = arg;
    struct addrinfo *addresses = NULL;
    int err = look_up(resolve, AI_ADDRCONFIG, &addresses);
    bool abandoned;

    relock_mutex_lock(&resolve->mutex);
    resolve->guarded.addresses = err == 0 ? addresses : NULL;
    resolve->guarded.err = err;
    resolve->guarded.done = true;
    abandoned = resolve->guarded.abandoned;
    if (!abandoned)
        (void)eventfd_write(resolve->fd, 1);
    relock_mutex_unlock(&resolve->mutex);
    if (abandoned)
        destroy(resolve);
    return NULL;
}

static int start(struct relock_resolve *resolve)
{
    pthread_t thread;
    int r;

    if (look_up(resolve, AI_NUMERICHOST, &resolve->guarded.addresses) == 0) {
        resolve->guarded.done = true;
        (void)eventfd_write(resolve->fd, 1);
        return RELOCK_OK;
    }
    r = relock_thread_start(&thread, "relock:resolve", run, resolve);
    if (r == RELOCK_OK)
        (void)pthread_detach(thread);
    return r;
}

int relock_resolve_new(const char *host, uint16_t port, struct relock_resolve **resolve)
{
    struct relock_resolve *new = calloc(1, sizeof(*new));
    int r = RELOCK_E_NOMEM;

    if (!new)
        return RELOCK_E_NOMEM;
    relock_mutex_init(&new->mutex);
    (void)snprintf(new->port, sizeof(new->port), "%u", port);
    new->host = strdup(host);
    new->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (new->host &&new->fd >= 0)
        r = start(new);
    if (r < 0) {
        if (new->fd >= 0)
            close(new->fd);
        destroy(new);
        return r;
    }
    *resolve = new;
    return RELOCK_OK;
}

int relock_resolve_fd(const struct relock_resolve *resolve)
{
    return resolve->fd;
}

int relock_resolve_take(struct relock_resolve *resolve, struct addrinfo **addresses,
                        const char **why)
{
    int r = RELOCK_AGAIN;

    relock_mutex_lock(&resolve->mutex);
    if (resolve->guarded.addresses) {
        *addresses = resolve->guarded.addresses;
        resolve->guarded.addresses = NULL;
        r = RELOCK_OK;
    } else if (resolve->guarded.done) {
        *why = gai_strerror(resolve->guarded.err);
        r = resolve->guarded.err == EAI_MEMORY ? RELOCK_E_NOMEM : RELOCK_E_CONN;
    }
    relock_mutex_unlock(&resolve->mutex);
    return r;
}

struct relock_resolve *relock_resolve_free(struct relock_resolve *resolve)
{
    bool done;

    if (!resolve)
        return NULL;
    relock_mutex_lock(&resolve->mutex);
    done = resolve->guarded.done;
    resolve->guarded.abandoned = true;
    close(resolve->fd);
    relock_mutex_unlock(&resolve->mutex);
    if (done)
        destroy(resolve);
    return NULL;
}
