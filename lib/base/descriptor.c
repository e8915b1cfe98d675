#include "base/descriptor.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

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

int relock_descriptor_socket(int family)
{
    return lift(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int relock_descriptor_eventfd(void)
{
    return lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int relock_descriptor_epoll(void)
{
    return lift(epoll_create1(EPOLL_CLOEXEC));
}

const char *relock_descriptor_why(int err)
{
    return relock_status_result(err) == RELOCK_E_UNSUPPORTED ? RELOCK_DESCRIPTOR_DENIED
                                                             : relock_status_errno(err);
}
