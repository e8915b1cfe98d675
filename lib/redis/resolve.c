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
    int fd; /* eventfd; closed by relock_resolve_free */
    struct {
        struct addrinfo *addresses;
        int err;        /* the result of getaddrinfo */
        int system_err; /* if its cause was that: EMFILE, ENFILE; else 0 */
        bool done;      /* by the thread; of done and abandoned, the second one frees */
        bool abandoned; /* by the user */
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

static bool is_out_of_descriptors(int err)
{
    return err == EMFILE || err == ENFILE;
}

/* After a failure, errno is the last error that the resolver met. */
static int look_up(struct relock_resolve *resolve, int flags, struct addrinfo **addresses)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = flags | AI_NUMERICSERV,
    };
    int err;

    /* A resolver that cannot read its files for lack of memory reports that there is no such name.
     */
    errno = 0;
    err = getaddrinfo(resolve->host, resolve->port, &hints, addresses);
    return err != 0 && errno == ENOMEM ? EAI_MEMORY : err;
}

static void *run(void *arg)
{
    struct relock_resolve *resolve = arg;
    struct addrinfo *addresses = NULL;
    int err = look_up(resolve, AI_ADDRCONFIG, &addresses);
    int system_err = err != 0 && is_out_of_descriptors(errno) ? errno : 0;
    bool abandoned;

    relock_mutex_lock(&resolve->mutex);
    resolve->guarded.addresses = err == 0 ? addresses : NULL;
    resolve->guarded.err = err;
    resolve->guarded.system_err = system_err;
    resolve->guarded.done = true;
    abandoned = resolve->guarded.abandoned;
    if (!abandoned)
        (void)eventfd_write(resolve->fd, 1);
    relock_mutex_unlock(&resolve->mutex);
    if (abandoned)
        destroy(resolve);
    return NULL;
}

static int start(struct relock_resolve *resolve, const char **why)
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
    else
        *why = "no thread could be started to resolve the host";
    return r;
}

static int begin(struct relock_resolve *resolve, const char *host, uint16_t port, const char **why)
{
    (void)snprintf(resolve->port, sizeof(resolve->port), "%u", port);
    resolve->host = strdup(host);
    if (!resolve->host)
        return RELOCK_E_NOMEM;
    resolve->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolve->fd < 0) {
        int err = errno;

        *why = relock_status_errno(err);
        return is_out_of_descriptors(err) ? RELOCK_E_CONN : RELOCK_E_NOMEM;
    }
    return start(resolve, why);
}

int relock_resolve_new(const char *host, uint16_t port, struct relock_resolve **resolve,
                       const char **why)
{
    struct relock_resolve *new = calloc(1, sizeof(*new));
    int r;

    *why = "out of memory";
    if (!new)
        return RELOCK_E_NOMEM;
    new->fd = -1;
    relock_mutex_init(&new->mutex);
    r = begin(new, host, port, why);
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
        *why = resolve->guarded.system_err ? relock_status_errno(resolve->guarded.system_err)
                                           : gai_strerror(resolve->guarded.err);
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
