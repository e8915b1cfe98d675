#include "hostile.h"

#include "fuzz.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A flood exceeds the library's limit for one reply, and lasts longer than its deadline. Floods
 * are slow, so only the corpus plays them; a fuzzer plays the other scenes. */
#ifdef RELOCK_FUZZ
#define FLOOD_BYTES (1 << 14)
#else
#define FLOOD_BYTES (3 << 20)
#endif
#define FLOOD_PIECE_MS 5

static const uint8_t *rest; /* the rest of the play, from the 1 of the next scene on */
static const uint8_t *end;
static size_t most; /* bytes per recv() */
static uint64_t now_ms;

static int peer = -1; /* the server's end */
static size_t n_said; /* bytes of this connection, and how many of them were received */
static size_t n_heard;
static bool was_heard; /* in any play */
static unsigned n_plays;
static uint8_t flood[16384];
static size_t n_flood; /* bytes of it that remain */

static struct ev_timer *timer; /* the timer is set and has not fired */
static uint64_t timer_ms;

void hostile_begin(const uint8_t *play, size_t size, size_t piece)
{
    end = play + size;
    rest = memchr(play, 1, size);
    if (!rest)
        rest = end;
    most = piece;
    now_ms = 1000000;
    timer = NULL;
}

static void hang_up(void)
{
    if (peer >= 0)
        close(peer);
    peer = -1;
    n_flood = 0;
    n_said = 0;
    n_heard = 0;
}

/* Reads the library's commands. Returns false if it has closed its end. */
static bool is_connected(void)
{
    char bytes[4096];
    ssize_t n;

    do
        n = recvfrom(peer, bytes, sizeof(bytes), MSG_DONTWAIT, NULL, NULL);
    while (n > 0);
    return n < 0 && errno == EAGAIN;
}

void hostile_end(void)
{
    n_plays++;
    FUZZ_CHECK(peer < 0 || !is_connected());
    FUZZ_CHECK(!timer);
    hang_up();
}

/* Else no play has tested anything: the library has refused every connection, say. */
#ifndef RELOCK_FUZZ
static __attribute__((destructor)) void check_that_plays_were_heard(void)
{
    FUZZ_CHECK(n_plays == 0 || was_heard);
}
#endif

static void say(const uint8_t *bytes, size_t len)
{
    ssize_t n = len > 0 ? send(peer, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    if (n > 0)
        n_said += (size_t)n;
}

static void go_on_with_flood(void)
{
    size_t len = n_flood < sizeof(flood) ? n_flood : sizeof(flood);

    say(flood, len);
    n_flood -= len;
}

static void begin_flood(const uint8_t *bytes, size_t len)
{
    if (len == 0 || len > sizeof(flood))
        return;
    for (size_t i = 0; i < sizeof(flood); i++)
        flood[i] = bytes[i % len];
    most = sizeof(flood);
    n_flood = FLOOD_BYTES;
    go_on_with_flood();
}

/* The letter of the next scene, '\0' when the play is over. */
static char next_letter(void)
{
    return end - rest >= 2 ? (char)rest[1] : '\0';
}

struct scene {
    char letter;
    const uint8_t *bytes;
    size_t len;
};

static struct scene take_scene(void)
{
    struct scene scene = {.letter = next_letter(), .bytes = rest + 2};
    const uint8_t *next = memchr(scene.bytes, 1, (size_t)(end - scene.bytes));

    rest = next ? next : end;
    scene.len = (size_t)(rest - scene.bytes);
    return scene;
}

/* Ignored if there is no connection. */
static void play(const struct scene *scene)
{
    if (peer < 0)
        return;
    if (scene->letter == 'f')
        begin_flood(scene->bytes, scene->len);
    else
        say(scene->bytes, scene->len);
    if (scene->letter == 'e')
        (void)shutdown(peer, SHUT_WR);
    else if (scene->letter == 'x' || scene->letter == 'd')
        (void)shutdown(peer, SHUT_RDWR);
}

static bool is_of_connecting(char letter)
{
    return letter == 'a' || letter == 'd' || letter == 'r';
}

static bool goes_on(char letter)
{
    return letter != '\0' && strchr("mexf", letter);
}

/* Lets the server send more to a library that waits for it. Returns whether it tried. */
static bool go_on(void)
{
    struct scene scene;

    if (n_flood > 0) {
        go_on_with_flood();
        return true;
    }
    if (!goes_on(next_letter()))
        return false;
    scene = take_scene();
    play(&scene);
    return true;
}

void hostile_idle(uint64_t ms)
{
    now_ms += ms;
    (void)go_on();
}

/* ---- on a loop ----------------------------------------------------------------------------- */

static void turn(struct ev_loop *ev)
{
    do
        ev_run(ev, EVRUN_NOWAIT);
    while (n_heard < n_said && is_connected());
    ev_run(ev, EVRUN_NOWAIT);
}

static void fire(struct ev_loop *ev)
{
    struct ev_timer *fired = timer;

    if (!fired)
        return;
    timer = NULL;
    if (now_ms < timer_ms)
        now_ms = timer_ms;
    fired->cb(ev, fired, EV_TIMER);
}

static void perform_scene(struct ev_loop *ev, void (*act)(char letter))
{
    const uint8_t *before = rest;
    char letter = next_letter();
    struct scene scene;

    if (is_of_connecting(letter)) {
        fire(ev);
        if (rest == before)
            turn(ev); /* over TCP the address is found first */
        if (rest != before)
            return; /* the server tried, so the scene was played */
    }
    scene = take_scene();
    if (letter == 't')
        fire(ev);
    else if (!goes_on(letter))
        act(letter);
    play(&scene);
}

void hostile_perform(struct ev_loop *ev, void (*act)(char letter))
{
    turn(ev);
    while (next_letter() != '\0') {
        perform_scene(ev, act);
        turn(ev);
    }
}

/* ---- the library's system calls ------------------------------------------------------------ */

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
void __wrap_ev_timer_start(struct ev_loop *ev, struct ev_timer *watcher);
void __wrap_ev_timer_stop(struct ev_loop *ev, struct ev_timer *watcher);

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    int fds[2];
    struct scene scene;

    (void)address;
    (void)len;
    FUZZ_CHECK(peer < 0 || !is_connected());
    hang_up();
    /* Scenes of the previous connection do not continue on this one. */
    while (goes_on(next_letter()))
        (void)take_scene();
    scene = (struct scene){.letter = next_letter()};
    if (is_of_connecting(scene.letter))
        scene = take_scene();
    if (scene.letter != 'a' && scene.letter != 'd') {
        errno = ECONNREFUSED;
        return -1;
    }
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    FUZZ_CHECK(dup3(fds[0], fd, O_CLOEXEC) == fd);
    close(fds[0]);
    peer = fds[1];
    play(&scene);
    return 0;
}

/* No bytes have arrived: time passes while the socket waits. */
static ssize_t wait_in_vain(int fd)
{
    struct timeval tv = {0};
    socklen_t len = sizeof(tv);

    if (!(fcntl(fd, F_GETFL) & O_NONBLOCK)) {
        FUZZ_CHECK(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len) == 0);
        FUZZ_CHECK(tv.tv_sec > 0 || tv.tv_usec > 0);
        now_ms += (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000;
    }
    errno = EAGAIN;
    return -1;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    ssize_t n;

    if (n_flood > 0)
        now_ms += FLOOD_PIECE_MS;
    do
        n = recvfrom(fd, bytes, size < most ? size : most, flags | MSG_DONTWAIT, NULL, NULL);
    while (n < 0 && errno == EAGAIN && !(flags & MSG_DONTWAIT) && is_connected() && go_on());
    if (n > 0 && !(flags & MSG_PEEK)) {
        n_heard += (size_t)n;
        was_heard = true;
    }
    /* During a flood there are always bytes to read. */
    if (n_flood > 0 && n_heard == n_said)
        (void)go_on();
    return n < 0 && errno == EAGAIN && !(flags & MSG_DONTWAIT) ? wait_in_vain(fd) : n;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    int n_ready = n > 0 ? __real_poll(fds, n, 0) : 0;

    if (n_ready == 0 && timeout > 0)
        now_ms += (uint64_t)timeout;
    return n_ready;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
    /* A thread that finds a mutex locked spins until some time has passed. */
    static _Atomic unsigned n_asked;

    (void)clock;
    ts->tv_sec = (time_t)(now_ms / 1000);
    ts->tv_nsec = (long)(now_ms % 1000) * 1000000 + (long)(n_asked++ % 1000000);
    return 0;
}

void __wrap_ev_timer_start(struct ev_loop *ev, struct ev_timer *watcher)
{
    (void)ev;
    timer = watcher;
    timer_ms = now_ms + (uint64_t)(watcher->at * 1000);
}

void __wrap_ev_timer_stop(struct ev_loop *ev, struct ev_timer *watcher)
{
    (void)ev;
    if (timer == watcher)
        timer = NULL;
}
