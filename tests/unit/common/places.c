#include "unit/common/places.h"

#include "support/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    int listener;
    int queued; /* the connection that fills the queue; -1: none */
    char text[64];
} places[PLACES_MAX];
static int n_places;

struct sockaddr_storage places_address(int place, socklen_t *len)
{
    struct sockaddr_storage address = {0};

    *len = sizeof(address);
    assert_int_equal(getsockname(places[place].listener, (struct sockaddr *)&address, len), 0);
    return address;
}

static int bind_one(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(n_places < PLACES_MAX);
    assert_true(fd >= 0);
    places[n_places].listener = fd;
    places[n_places].queued = -1;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    snprintf(places[n_places].text, sizeof(places[n_places].text), "127.0.0.1 %u",
             ntohs(address.sin_port));
    return n_places++;
}

int places_refuse(void)
{
    return bind_one();
}

int places_listen(void)
{
    int place = bind_one();

    assert_int_equal(listen(places[place].listener, SOMAXCONN), 0);
    return place;
}

static bool has_visitor(int place, uint64_t within_ms)
{
    struct pollfd pollfd = {.fd = places[place].listener, .events = POLLIN};

    return poll(&pollfd, 1, (int)slow_ms(within_ms)) == 1;
}

/* A queue of length 0 has room for one. */
int places_hang(void)
{
    int place = bind_one();
    socklen_t len;
    struct sockaddr_storage address = places_address(place, &len);

    assert_int_equal(listen(places[place].listener, 0), 0);
    places[place].queued = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(places[place].queued, (struct sockaddr *)&address, len), 0);
    assert_true(has_visitor(place, SOON_MS));
    return place;
}

void places_let_in(int place)
{
    int taken = accept(places[place].listener, NULL, NULL);

    assert_true(taken >= 0);
    close(taken);
}

const char *places_text(int place)
{
    return places[place].text;
}

bool places_is_at(int place, int socket)
{
    struct sockaddr_storage peer = {0};
    socklen_t len, peer_len = sizeof(peer);
    struct sockaddr_storage address = places_address(place, &len);

    return getpeername(socket, (struct sockaddr *)&peer, &peer_len) == 0 && peer_len == len &&
           memcmp(&peer, &address, len) == 0;
}

bool places_had_visitor(int place)
{
    return has_visitor(place, 0);
}

void places_end(void)
{
    while (n_places > 0) {
        n_places--;
        close(places[n_places].listener);
        if (places[n_places].queued >= 0)
            close(places[n_places].queued);
    }
}
