/*
 *     state         next          when
 *
 *     CLOSED        DIALING       connect()
 *     DIALING       LOGGING_IN    connected
 *     LOGGING_IN    READY         the last reply came
 *
 * and from each to CLOSED: when connecting fails, and when the user closes it. A deadline leaves
 * the state as it is.
 */
#include "redis/lane/sync_conn.h"
#include "redis/lane/private.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/lanes.h"
#include "redis/server/peer.h"
#include "redis/server/reply.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

/* ---- spinning before a sleep ----------------------------------------------------------------- */

/* One wait in so many uses the way that has been slower, to measure it again. */
#define N_BETWEEN_TRIALS 256

/* After so many waits without competition, there is probably none in the next. */
#define N_ROOMY 16

/* A single long wait says little about the others. */
#define SAMPLE_MAX_NS (4 * (uint64_t)RELOCK_SPIN_NS)

/* If threads of the process are preempted more often, others need the processors. */
#define PREEMPTED_EVERY_NS 25000000

static atomic_int n_processors; /* 0 before the first use */
static atomic_int n_waiting;

/* A forked child has none of its parent's waiting threads. */
static void in_child(void)
{
    atomic_store(&n_waiting, 0);
}

__attribute__((constructor)) static void register_handler(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

static int count_processors(void)
{
    int n = atomic_load_explicit(&n_processors, memory_order_relaxed);
    cpu_set_t set;

    if (n > 0)
        return n;
    n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    atomic_store_explicit(&n_processors, n, memory_order_relaxed);
    return n;
}

static bool leaves_one(void)
{
    return atomic_load_explicit(&n_waiting, memory_order_relaxed) < count_processors();
}

/* Looks whether other threads compete for the processors. A wait that is short because the thread
 * did not sleep says nothing about that: the scheduler makes it pay later. */
static void look_around(struct relock_spin *spin)
{
    struct rusage usage;
    long n;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return;
    n = usage.ru_nivcsw - spin->n_preempted;
    spin->is_crowded =
        n > 1 && (spin->began_ns - spin->looked_ns) / (uint64_t)n < PREEMPTED_EVERY_NS;
    spin->n_preempted = usage.ru_nivcsw;
    spin->looked_ns = spin->began_ns;
}

/* Retries cost processor time, so they have to be clearly faster. */
static bool pays(const struct relock_spin *spin)
{
    return !spin->is_crowded && spin->spinning_ns < spin->sleeping_ns / 4 * 3;
}

static bool chooses_to_spin(struct relock_spin *spin)
{
    bool is_trial = spin->n++ % N_BETWEEN_TRIALS == 0;

    if (is_trial)
        look_around(spin);
    if (spin->spinning_ns == 0 || spin->sleeping_ns == 0)
        return spin->spinning_ns == 0;
    return pays(spin) != is_trial;
}

bool relock_spin_begin(struct relock_spin *spin)
{
    (void)atomic_fetch_add_explicit(&n_waiting, 1, memory_order_relaxed);
    spin->spins = false;
    spin->began_ns = 0;
    spin->n_roomy = leaves_one() ? spin->n_roomy + 1 : 0;
    if (spin->n_roomy < N_ROOMY)
        return false;
    spin->began_ns = relock_clock_now_ns();
    spin->spins = chooses_to_spin(spin);
    return spin->spins;
}

bool relock_spin_continues(struct relock_spin *spin)
{
    if (!leaves_one())
        spin->n_roomy = 0;
    return spin->n_roomy > 0 && relock_clock_now_ns() - spin->began_ns < RELOCK_SPIN_NS;
}

static void learn(uint64_t *average_ns, uint64_t sample_ns)
{
    if (sample_ns > SAMPLE_MAX_NS)
        sample_ns = SAMPLE_MAX_NS;
    *average_ns = *average_ns == 0 ? sample_ns : (*average_ns * 7 + sample_ns) / 8;
}

void relock_spin_end(struct relock_spin *spin)
{
    (void)atomic_fetch_sub_explicit(&n_waiting, 1, memory_order_relaxed);
    if (spin->began_ns != 0)
        learn(spin->spins ? &spin->spinning_ns : &spin->sleeping_ns,
              relock_clock_now_ns() - spin->began_ns);
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* A connection that was unused for so long is checked before it is used. A check each time would
 * cost a thread that locks and unlocks without a pause some percent of its time. */
#define STALE_MS 2

/* The socket's timeout may exceed a deadline by this much, which saves a system call per command.
 */
#define TIMEOUT_SLACK_MS 50

/* So often a thread that connects looks if a sentinel has reported a failover. */
#define SWITCH_POLL_MS 50

void relock_sync_conn_init(struct relock_sync_conn *conn, const struct relock_server *server)
{
    *conn = (struct relock_sync_conn){.server = server, .guarded.fd = -1};
    relock_mutex_init(&conn->mutex);
    relock_dial_init(&conn->dial, server);
    relock_wire_init(&conn->wire, server->label);
}

void relock_sync_conn_deinit(struct relock_sync_conn *conn)
{
    relock_sync_conn_close(conn);
    relock_wire_deinit(&conn->wire);
    relock_mutex_deinit(&conn->mutex);
}

/* A thread that cuts must not meet another file with the number of this socket. */
static void show_socket(struct relock_sync_conn *conn, int fd)
{
    relock_mutex_lock(&conn->mutex);
    conn->guarded.fd = fd;
    relock_mutex_unlock(&conn->mutex);
}

void relock_sync_conn_close(struct relock_sync_conn *conn)
{
    relock_dial_end(&conn->dial);
    relock_login_end(&conn->login);
    show_socket(conn, -1);
    relock_wire_close(&conn->wire);
    conn->state = RELOCK_SYNC_CONN_CLOSED;
}

void relock_sync_conn_cut(struct relock_sync_conn *conn, const struct relock_peer *peer)
{
    relock_mutex_lock(&conn->mutex);
    if (relock_peer_is_of(peer, conn->guarded.fd))
        (void)shutdown(conn->guarded.fd, SHUT_RDWR);
    relock_mutex_unlock(&conn->mutex);
}

static int fail(struct relock_sync_conn *conn, int result, const char *what)
{
    (void)snprintf(conn->wire.why, sizeof(conn->wire.why), "%s: %s", conn->server->label, what);
    return result;
}

/* The dial or the login has failed; its cause names the server already. */
static int fail_as(struct relock_sync_conn *conn, int result, const char *why)
{
    (void)snprintf(conn->wire.why, sizeof(conn->wire.why), "%s", why);
    return result;
}

/* The addresses become outdated when a sentinel reports a failover, which wakes no thread. */
static uint64_t wait_limit_ms(const struct relock_sync_conn *conn, uint64_t now_ms,
                              uint64_t deadline_ms)
{
    uint64_t limit_ms = relock_clock_sooner(conn->dial.deadline_ms, deadline_ms);

    return conn->server->sentinels ? relock_clock_sooner(now_ms + SWITCH_POLL_MS, limit_ms)
                                   : limit_ms;
}

/* Returns RELOCK_AGAIN at the deadline. */
static int dial(struct relock_sync_conn *conn, uint64_t deadline_ms, struct relock_socket *socket)
{
    struct relock_dial *dial = &conn->dial;

    for (;;) {
        uint64_t now_ms = relock_clock_now_ms();
        struct pollfd pollfd;
        int r;

        r = relock_dial_step(dial, now_ms, socket);
        if (r != RELOCK_AGAIN)
            return r < 0 ? fail_as(conn, r, dial->why) : r;
        if (now_ms >= deadline_ms)
            return *dial->why ? fail_as(conn, RELOCK_AGAIN, dial->why)
                              : fail(conn, RELOCK_AGAIN, "no connection in time");
        pollfd = (struct pollfd){.fd = dial->fd,
                                 .events = relock_dial_wants_to_write(dial) ? POLLOUT : POLLIN};
        (void)poll(&pollfd, 1,
                   relock_clock_poll_ms(now_ms, wait_limit_ms(conn, now_ms, deadline_ms)));
    }
}

static void set_timeout(struct relock_sync_conn *conn, uint64_t timeout_ms)
{
    struct timeval tv = {
        .tv_sec = (time_t)(timeout_ms / 1000),
        .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000,
    };

    (void)setsockopt(conn->wire.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    (void)setsockopt(conn->wire.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    conn->timeout_ms = timeout_ms;
}

/* Sets the socket's timeout to about the deadline. Returns false if the deadline has passed. */
static bool bound_by(struct relock_sync_conn *conn, uint64_t now_ms, uint64_t deadline_ms)
{
    uint64_t left = relock_clock_left(now_ms, deadline_ms);

    if (left == 0)
        return false;
    conn->used_ms = now_ms;
    if (conn->timeout_ms > left + TIMEOUT_SLACK_MS || conn->timeout_ms < left / 2)
        set_timeout(conn, left);
    return true;
}

/* Takes over the socket. Returns RELOCK_OK, or the failure, with its cause in `why`. */
static int take_over(struct relock_sync_conn *conn, struct relock_socket socket)
{
    int r;

    (void)fcntl(socket.fd, F_SETFL, fcntl(socket.fd, F_GETFL) & ~O_NONBLOCK);
    r = relock_wire_open(&conn->wire, socket);
    if (r < 0)
        return fail(conn, r, "out of memory for a connection");
    show_socket(conn, socket.fd);
    set_timeout(conn, conn->server->command_timeout_ms);
    return RELOCK_OK;
}

/* Takes over the socket and sends the login. */
static int begin_login(struct relock_sync_conn *conn, struct relock_socket socket,
                       uint64_t deadline_ms)
{
    int r = take_over(conn, socket);

    if (r < 0)
        return r;
    if (relock_dial_is_outdated(&conn->dial)) /* a cut before this did not meet the socket */
        return fail(conn, RELOCK_E_CONN, "a sentinel says that another server is the master now");
    conn->state = RELOCK_SYNC_CONN_LOGGING_IN;
    relock_login_begin(&conn->login, conn->server, &conn->wire.out);
    conn->wire.awaited = relock_login_command(&conn->login);
    return relock_sync_conn_send(conn, deadline_ms);
}

/* Returns RELOCK_AGAIN at the deadline. */
static int log_in(struct relock_sync_conn *conn, uint64_t deadline_ms)
{
    int r;

    do {
        struct redisReply *reply;

        conn->wire.awaited = relock_login_command(&conn->login);
        r = relock_sync_conn_receive(conn, deadline_ms, &reply);
        if (r == RELOCK_AGAIN)
            (void)snprintf(conn->wire.why, sizeof(conn->wire.why), "%s: no answer to %s in time",
                           conn->server->label, conn->wire.awaited);
        if (r != RELOCK_OK)
            return r;
        r = relock_login_take(&conn->login, reply, &conn->wire.out);
        relock_reply_free(reply);
        if (r == RELOCK_AGAIN && conn->login.step == RELOCK_LOGIN_ROLE) {
            r = relock_sync_conn_send(conn, conn->connect_by_ms);
            if (r != RELOCK_OK)
                return r;
            r = RELOCK_AGAIN;
        }
    } while (r == RELOCK_AGAIN);
    conn->wire.awaited = NULL;
    return r == RELOCK_OK ? r : fail_as(conn, r, conn->login.why);
}

int relock_sync_conn_distrust(struct relock_sync_conn *conn, const char *what)
{
    relock_log_write(conn->server->log, RELOCK_LOG_WARNING,
                     "%s: %s; the library connects again and repeats what is unanswered. Does the "
                     "program write to a descriptor of the library, or a proxy mix up replies?",
                     conn->server->label, what);
    return relock_wire_fail(&conn->wire, what);
}

/* Whether the server has closed an idle connection, or has sent a reply that no command asked for.
 * Checked before the next command is sent, which would get that reply. */
static bool has_ended(struct relock_sync_conn *conn)
{
    bool has_closed = relock_wire_has_ended(&conn->wire);
    bool is_quiet = relock_wire_is_quiet(&conn->wire);

    if (!is_quiet)
        (void)relock_sync_conn_distrust(conn, RELOCK_REPLY_UNASKED);
    return has_closed || !is_quiet;
}

/* Whether the connection works, as far as is known, or the attempt to make it has time left. */
static bool is_usable(struct relock_sync_conn *conn)
{
    uint64_t now_ms = relock_clock_now_ms();

    if (conn->state == RELOCK_SYNC_CONN_READY)
        return relock_wire_is_quiet(&conn->wire) &&
               (now_ms - conn->used_ms < STALE_MS || !has_ended(conn));
    return now_ms < conn->connect_by_ms;
}

bool relock_sync_conn_is_warm(const struct relock_sync_conn *conn, uint64_t now_ms)
{
    return conn->state == RELOCK_SYNC_CONN_READY && relock_wire_is_quiet(&conn->wire) &&
           now_ms - conn->used_ms < STALE_MS;
}

/* Continues in the current state. Returns RELOCK_AGAIN at the deadline. */
static int connect_until(struct relock_sync_conn *conn, uint64_t deadline_ms)
{
    struct relock_socket socket;
    int r = RELOCK_OK;

    if (conn->state == RELOCK_SYNC_CONN_DIALING) {
        r = dial(conn, deadline_ms, &socket);
        if (r == RELOCK_OK)
            r = begin_login(conn, socket, conn->connect_by_ms);
        /* A server that refuses a connection closes it behind the reason. */
        if (r == RELOCK_E_CONN && conn->state == RELOCK_SYNC_CONN_LOGGING_IN)
            r = RELOCK_OK;
    }
    return r == RELOCK_OK ? log_in(conn, deadline_ms) : r;
}

static void begin_to_connect(struct relock_sync_conn *conn)
{
    conn->connect_by_ms = relock_clock_in(conn->server->connect_timeout_ms);
    conn->state = RELOCK_SYNC_CONN_DIALING;
}

/* At the end of the time for an attempt: a server that was tried may hang. An answer of a sentinel
 * that came too late, or between two calls, was not tried. */
static void distrust_if_tried(const struct relock_sync_conn *conn)
{
    if (conn->state == RELOCK_SYNC_CONN_LOGGING_IN || relock_dial_has_addresses(&conn->dial))
        relock_resolver_distrust(conn->server->resolver);
}

int relock_sync_conn_connect(struct relock_sync_conn *conn, uint64_t deadline_ms)
{
    int r;

    if (!is_usable(conn)) {
        distrust_if_tried(conn);
        relock_sync_conn_close(conn);
    }
    if (conn->state == RELOCK_SYNC_CONN_READY)
        return RELOCK_OK;
    if (conn->state == RELOCK_SYNC_CONN_CLOSED)
        begin_to_connect(conn);
    r = connect_until(conn, relock_clock_sooner(deadline_ms, conn->connect_by_ms));
    if (r == RELOCK_AGAIN && deadline_ms < conn->connect_by_ms)
        return r;
    if (r == RELOCK_AGAIN) {
        distrust_if_tried(conn);
        r = RELOCK_E_CONN;
    }
    if (r != RELOCK_OK) {
        relock_sync_conn_close(conn);
        return r;
    }
    conn->state = RELOCK_SYNC_CONN_READY;
    if (conn->n_ready++ > 0)
        atomic_fetch_add(&conn->server->counts->reconnects, 1);
    return RELOCK_OK;
}

int relock_sync_conn_keep(struct relock_sync_conn *conn)
{
    if (conn->state == RELOCK_SYNC_CONN_READY && is_usable(conn))
        return RELOCK_OK;
    return fail(conn, RELOCK_E_CONN, "the connection has ended");
}

/* ---- handing over -------------------------------------------------------------------------- */

bool relock_sync_conn_lend(struct relock_sync_conn *conn, struct relock_loan *loan)
{
    if (conn->state != RELOCK_SYNC_CONN_READY || relock_wire_has_ended(&conn->wire) ||
        !relock_wire_is_quiet(&conn->wire))
        return false;
    show_socket(conn, -1);
    *loan = (struct relock_loan){
        .socket = relock_wire_release(&conn->wire),
        .conn_id = conn->login.conn_id,
        .n_switches = atomic_load(&conn->server->counts->switches),
    };
    conn->login.conn_id = NULL;
    relock_sync_conn_close(conn);
    return true;
}

void relock_sync_conn_adopt(struct relock_sync_conn *conn, const struct relock_loan *loan)
{
    relock_sync_conn_close(conn);
    conn->login.conn_id = loan->conn_id;
    if (take_over(conn, loan->socket) < 0 ||
        atomic_load(&conn->server->counts->switches) != loan->n_switches) {
        relock_sync_conn_close(conn); /* a cut may not have met the socket */
        return;
    }
    conn->wire.has_received = true;
    conn->used_ms = 0; /* it may have waited for long: it is checked first */
    conn->state = RELOCK_SYNC_CONN_READY;
    conn->n_ready++;
}

/* ---- sending and receiving ----------------------------------------------------------------- */

int relock_sync_conn_send_now(struct relock_sync_conn *conn, uint64_t now_ms, uint64_t deadline_ms)
{
    size_t len = conn->wire.out.len;
    int r;

    for (;;) {
        conn->n_sent = conn->wire.sent;
        if (!bound_by(conn, now_ms, deadline_ms))
            return fail(conn, RELOCK_E_CONN, "no answer in time");
        r = relock_wire_flush(&conn->wire);
        if (r != RELOCK_AGAIN)
            break;
        now_ms = relock_clock_now_ms();
    }
    conn->n_sent = r == RELOCK_OK ? len : conn->wire.sent;
    return r;
}

int relock_sync_conn_send(struct relock_sync_conn *conn, uint64_t deadline_ms)
{
    return relock_sync_conn_send_now(conn, relock_clock_now_ms(), deadline_ms);
}

static bool has_come(const struct relock_sync_conn *conn)
{
    struct pollfd pollfd = {.fd = conn->wire.fd, .events = POLLIN};

    return poll(&pollfd, 1, 0) > 0;
}

/* Nothing that has come is left to take. */
static int receive(struct relock_sync_conn *conn, uint64_t now_ms, uint64_t deadline_ms,
                   struct redisReply **reply)
{
    int r;

    for (;;) {
        /* If this thread was held up, the reply has come although the deadline has passed. */
        if (!bound_by(conn, now_ms, deadline_ms) && !has_come(conn))
            return fail(conn, RELOCK_AGAIN, "no answer in time");
        r = relock_wire_fill(&conn->wire);
        if (r < 0)
            return r;
        r = relock_wire_take(&conn->wire, reply);
        if (r != RELOCK_AGAIN)
            return r;
        now_ms = relock_clock_now_ms();
    }
}

int relock_sync_conn_receive(struct relock_sync_conn *conn, uint64_t deadline_ms,
                             struct redisReply **reply)
{
    int r = relock_wire_take(&conn->wire, reply);

    return r == RELOCK_AGAIN ? receive(conn, relock_clock_now_ms(), deadline_ms, reply) : r;
}

/* Retries the socket while that is worth it. Returns RELOCK_AGAIN when no reply has come. */
static int spin(struct relock_sync_conn *conn, struct redisReply **reply)
{
    int r;

    do {
        r = relock_wire_fill_at_once(&conn->wire);
        if (r == RELOCK_OK)
            r = relock_wire_take(&conn->wire, reply);
    } while (r == RELOCK_AGAIN && relock_spin_continues(&conn->spin));
    return r;
}

int relock_sync_conn_receive_soon(struct relock_sync_conn *conn, uint64_t now_ms,
                                  uint64_t deadline_ms, struct redisReply **reply)
{
    int r = relock_wire_take(&conn->wire, reply);

    if (r != RELOCK_AGAIN)
        return r;
    if (conn->server->never_spins)
        return receive(conn, now_ms, deadline_ms, reply);
    if (relock_spin_begin(&conn->spin))
        r = spin(conn, reply);
    if (r == RELOCK_AGAIN)
        r = receive(conn, now_ms, deadline_ms, reply);
    relock_spin_end(&conn->spin);
    return r;
}

/* ---- questions of a background thread -------------------------------------------------------- */

/* The longest wait that does not notice that the thread is to stop. */
#define SLICE_MS 50

bool relock_question_is_over(const struct relock_question *question)
{
    return atomic_load(question->stops) || relock_clock_now_ms() >= question->deadline_ms;
}

uint64_t relock_question_slice_ms(const struct relock_question *question)
{
    return relock_clock_sooner(relock_clock_in(SLICE_MS), question->deadline_ms);
}

int relock_question_reach(struct relock_question *question)
{
    int r;

    do {
        r = relock_sync_conn_connect(question->conn, relock_question_slice_ms(question));
    } while (r == RELOCK_AGAIN && !relock_question_is_over(question));
    return r > 0 ? RELOCK_E_CONN : r;
}

int relock_question_send(struct relock_question *question)
{
    struct relock_sync_conn *conn = question->conn;

    if (!conn->wire.out.failed)
        return relock_sync_conn_send(conn, question->deadline_ms);
    (void)snprintf(conn->wire.why, sizeof(conn->wire.why), "%.100s: out of memory for a command",
                   conn->server->label);
    return RELOCK_E_NOMEM;
}

int relock_question_receive(struct relock_question *question, struct redisReply **reply)
{
    int r;

    do {
        r = relock_sync_conn_receive(question->conn, relock_question_slice_ms(question), reply);
    } while (r == RELOCK_AGAIN && !relock_question_is_over(question));
    return r > 0 ? RELOCK_E_CONN : r;
}
