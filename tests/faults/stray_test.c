/* Bytes of the program get into the connections of the library: it writes to a wrong descriptor. */
#include "faults.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_FDS 256
#define N_ROUNDS 10
#define DELAY_MS 5
#define LOG_LINE "Does the program write to a descriptor of the library"

static bool leads_to(int fd, const char *url)
{
    struct sockaddr_un peer = {0};
    socklen_t len = sizeof(peer) - 1;

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sun_family == AF_UNIX &&
           *peer.sun_path != '\0' && strstr(url, peer.sun_path);
}

/* Writes a command, which the proxy wants whole, into each connection to the proxy. `waits`: until
 * Redis has answered it. The program races the library for the descriptors, so ThreadSanitizer must
 * not see these system calls. */
static void write_astray(struct faults *t, const char *text, bool waits)
{
    const struct timespec limit = {.tv_sec = SOON_MS / 1000};
    unsigned n = 0;

    for (int fd = 0; fd < MAX_FDS; fd++) {
        if (!leads_to(fd, proxy_url(t->proxy)))
            continue;
        n += syscall(SYS_write, fd, text, strlen(text)) == (long)strlen(text);
        if (waits)
            (void)syscall(SYS_ppoll, &(struct pollfd){.fd = fd, .events = POLLIN}, 1, &limit, NULL,
                          0);
    }
    assert_true(n > 0);
}

static void no_call_gets_the_reply_of_another(struct faults *t, const char *text, bool waits)
{
    struct relock_client *client = faults_calm_client(t, LONG_MS);
    struct relock_lock *own = fixture_lock(t->f, client, "own");
    struct relock_lock *foreign = fixture_lock(t->f, client, "orders");

    if (faults_over_tcp(t))
        skip(); /* its bytes are encrypted, so OpenSSL notices others */
    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    assert_result(relock_lock(own), RELOCK_OK);
    assert_result(relock_unlock(own), RELOCK_OK);
    proxy_delay(t->proxy, DELAY_MS);
    for (int i = 0; i < N_ROUNDS; i++) {
        write_astray(t, text, waits);
        assert_result(relock_trylock(own), RELOCK_OK);
        assert_result(relock_trylock(foreign), RELOCK_BUSY);
        assert_result(relock_unlock(own), RELOCK_OK);
    }
    proxy_delay(t->proxy, 0);
    assert_true(log_count(t->f->log, LOG_LINE) > 0);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    faults_assert_free(t);
}

static void an_error_that_no_command_has_is_no_reply(void **state)
{
    no_call_gets_the_reply_of_another(*state, "*1\r\n$8\r\nmistaken\r\n", false);
}

static void a_reply_of_another_type_is_no_reply(void **state)
{
    no_call_gets_the_reply_of_another(*state, "*1\r\n$4\r\nPING\r\n", false);
}

/* The reply is nil, as that of a lock that was granted. */
static void a_reply_that_came_before_the_command_is_no_reply(void **state)
{
    no_call_gets_the_reply_of_another(*state, "*2\r\n$3\r\nGET\r\n$7\r\nnothing\r\n", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(an_error_that_no_command_has_is_no_reply),
        FAULT_TEST(a_reply_of_another_type_is_no_reply),
        FAULT_TEST(a_reply_that_came_before_the_command_is_no_reply),
    };

    return FAULT_TESTS_RUN(tests);
}
