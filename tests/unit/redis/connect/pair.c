#include "pair.h"

#include "base/status.h"
#include "support/leaks.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int peer = -1;

static struct leaks before;

void pair_connect(void)
{
    int fds[2];

    if (peer >= 0)
        close(peer);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(relock_wire_open(&wire, (struct relock_socket){.fd = fds[0]}), RELOCK_OK);
    peer = fds[1];
}

int pair_begin(void **state)
{
    (void)state;
    before = leaks_now();
    relock_wire_init(&wire, "h:6379");
    pair_connect();
    return 0;
}

int pair_end(void **state)
{
    (void)state;
    relock_wire_deinit(&wire);
    close(peer);
    peer = -1;
    return leaks_none_since(&before) ? 0 : -1;
}

void say(const char *bytes)
{
    assert_int_equal(send(peer, bytes, strlen(bytes), MSG_NOSIGNAL), strlen(bytes));
}

size_t hear(char *bytes, size_t len)
{
    ssize_t n = recv(peer, bytes, len, MSG_DONTWAIT);

    return n > 0 ? (size_t)n : 0;
}
