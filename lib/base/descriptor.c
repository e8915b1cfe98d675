#include "base/descriptor.h"

#include "base/fork.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Guarded by the process mutex. */
static struct {
    const void **scopes; /* by number; NULL: the descriptor is none of ours */
    int n;               /* numbers in `scopes`; 0: it is not allocated */
    int n_open;          /* descriptors with a scope */
} listed;

#define N_MORE 64 /* numbers at a time */

/* ---- the list ------------------------------------------------------------------------------- */

/* Returns whether the number has a place in the list. */
static bool make_place(int fd) RELOCK_REQUIRES(relock_process_mutex)
{
    int n = fd + N_MORE;
    const void **scopes;

    if (fd < listed.n)
        return true;
    scopes = realloc(listed.scopes, (size_t)n * sizeof(*scopes));
    if (!scopes)
        return false;
    memset(&scopes[listed.n], 0, (size_t)(n - listed.n) * sizeof(*scopes));
    listed.scopes = scopes;
    listed.n = n;
    return true;
}

static void set_scope(int fd, const void *scope) RELOCK_REQUIRES(relock_process_mutex)
{
    listed.n_open += (scope != NULL) - (listed.scopes[fd] != NULL);
    listed.scopes[fd] = scope;
    if (listed.n_open > 0)
        return;
    free(listed.scopes);
    listed.scopes = NULL;
    listed.n = 0;
}

/* Unlocks the mutex. Returns `fd`. If there is no memory for the list, a child keeps its copy. */
static int enter(const void *scope, int fd) RELOCK_RELEASES(relock_process_mutex)
{
    if (fd >= 0 && make_place(fd))
        set_scope(fd, scope);
    relock_mutex_unlock(&relock_process_mutex);
    return fd;
}

static void drop(int fd) RELOCK_REQUIRES(relock_process_mutex)
{
    if (fd < listed.n)
        set_scope(fd, NULL);
    close(fd);
}

int relock_descriptor_close(int fd)
{
    if (fd < 0)
        return -1;
    relock_mutex_lock(&relock_process_mutex);
    drop(fd);
    relock_mutex_unlock(&relock_process_mutex);
    return -1;
}

void relock_descriptor_close_all(const void *scope)
{
    relock_mutex_lock(&relock_process_mutex);
    for (int fd = 0; fd < listed.n; fd++)
        if (listed.scopes[fd] == scope)
            drop(fd);
    relock_mutex_unlock(&relock_process_mutex);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* No system call opens a descriptor above 2, so a new one may be low for a moment. It is connected
 * to nothing yet: what another thread writes there meanwhile reaches nobody. */
static int lift(int fd)
{
    int lifted, err;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    err = errno;
    close(fd);
    errno = err;
    return lifted;
}

int relock_descriptor_socket(const void *scope, int family)
{
    relock_mutex_lock(&relock_process_mutex);
    return enter(scope, lift(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
}

int relock_descriptor_eventfd(const void *scope)
{
    relock_mutex_lock(&relock_process_mutex);
    return enter(scope, lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
}

int relock_descriptor_epoll(const void *scope)
{
    relock_mutex_lock(&relock_process_mutex);
    return enter(scope, lift(epoll_create1(EPOLL_CLOEXEC)));
}

const char *relock_descriptor_why(int err)
{
    return relock_status_result(err) == RELOCK_E_UNSUPPORTED ? RELOCK_DESCRIPTOR_DENIED
                                                             : relock_status_errno(err);
}
