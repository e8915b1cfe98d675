/*
 * The connection of a lane has one owner at any time: the driver, which is the thread of one of the
 * questions on it. `link` and `under_way` are its alone, and pass with the driving.
 *
 *     queue        questions that nobody has looked at yet; guarded by the mutex
 *     under_way    written, or about to be; in the order in which their replies come
 *
 * Who finds nobody driving drives. The driver takes the queue, sends it in one piece and reads
 * replies, until its own question has ended. Then it sees in one critical section whether a
 * question is left, and makes the first of these the next driver: so there is one as long as there
 * is a question. A driver is woken like one that has its answer, by its gate, and only a driver
 * opens gates.
 *
 * What is under way changes through the driver alone, so it knows by when the next reply must come:
 * it waits until the earliest deadline of them all. From outside only one thing is done to a lane:
 * a question that is still in the queue at its deadline leaves it, and was never sent.
 */
#include "redis/lane.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/origin.h"
#include "redis/reply.h"

#include <stdio.h>
#include <unistd.h>

void relock_lane_init(struct relock_lane *lane, const struct relock_server *server)
{
    *lane = (struct relock_lane){0};
    relock_mutex_init(&lane->mutex);
    relock_link_init(&lane->driver.link, server);
    atomic_init(&lane->retired, false);
}

void relock_lane_deinit(struct relock_lane *lane)
{
    relock_link_deinit(&lane->driver.link);
    relock_mutex_deinit(&lane->mutex);
}

void relock_lane_abandon(struct relock_lane *lane)
{
    if (lane->driver.link.wire.fd >= 0)
        close(lane->driver.link.wire.fd);
}

uint64_t relock_lane_reconnects(struct relock_lane *lane)
{
    return atomic_load(&lane->driver.link.reconnects);
}

void relock_lane_retire(struct relock_lane *lane)
{
    atomic_store(&lane->retired, true);
}

const char *relock_lane_label(const struct relock_lane *lane)
{
    return lane->driver.link.server->label;
}

/* ---- driving ------------------------------------------------------------------------------- */

static uint64_t earliest(const struct relock_question *questions)
{
    const struct relock_question *at;
    uint64_t earliest_ms = RELOCK_NEVER;

    DL_FOREACH(questions, at)
    if (at->deadline_ms < earliest_ms)
        earliest_ms = at->deadline_ms;
    return earliest_ms;
}

/* These have ended. When the driver's own is among them, it hands the driving on. */
static void end_all(struct relock_lane *lane, struct relock_question *own,
                    struct relock_question *ended)
{
    struct relock_question *driver = NULL, *at, *next;

    if (own->ended) {
        relock_mutex_lock(&lane->mutex);
        driver = lane->driver.under_way ? lane->driver.under_way : lane->guarded.queue;
        lane->guarded.driven = driver != NULL;
        if (driver)
            driver->drives = true;
        relock_mutex_unlock(&lane->mutex);
    }

    DL_FOREACH_SAFE(ended, at, next)
    if (at != own)
        relock_gate_open(&at->gate);
    if (driver)
        relock_gate_open(&driver->gate);
}

/* The connection is of no use any more, and neither is it to those who have just come. */
static struct relock_question *take_all(struct relock_lane *lane)
{
    struct relock_question *all = lane->driver.under_way, *at;

    lane->driver.under_way = NULL;
    relock_mutex_lock(&lane->mutex);
    DL_FOREACH(lane->guarded.queue, at)
    at->queued = false;
    DL_CONCAT(all, lane->guarded.queue);
    lane->guarded.queue = NULL;
    relock_mutex_unlock(&lane->mutex);
    return all;
}

static void fail_all(struct relock_lane *lane, int result, struct relock_question **ended)
{
    struct relock_question *all = take_all(lane), *at;

    DL_FOREACH(all, at)
    {
        at->reply = relock_reply_free(at->reply);
        at->before = relock_reply_free(at->before);
        if (at->sent && lane->driver.link.origin)
            at->origin = relock_origin_ref(lane->driver.link.origin);
        at->result = result;
        at->ended = true;
        (void)snprintf(at->why, sizeof(at->why), "%s", lane->driver.link.wire.why);
    }
    relock_link_close(&lane->driver.link);
    DL_CONCAT(*ended, all);
}

/*
 * Whether the driver only looks for the replies to come: on a retired connection, and when it was
 * held up until a deadline has passed. What it does not send now, the next driver sends.
 */
static bool only_reads(struct relock_lane *lane, uint64_t now_ms)
{
    return lane->driver.under_way &&
           (atomic_load(&lane->retired) || now_ms >= earliest(lane->driver.under_way));
}

/* Takes the queue, but for those who are about to leave it because their time is over. */
static struct relock_question *take_queue(struct relock_lane *lane,
                                          const struct relock_question *own, uint64_t now_ms)
{
    struct relock_question *taken = NULL, *at, *next;

    relock_mutex_lock(&lane->mutex);
    DL_FOREACH_SAFE(lane->guarded.queue, at, next)
    {
        if (at != own && now_ms >= at->deadline_ms)
            continue;
        DL_DELETE(lane->guarded.queue, at);
        DL_APPEND(taken, at);
        at->queued = false;
    }
    relock_mutex_unlock(&lane->mutex);
    return taken;
}

static int send_queue(struct relock_lane *lane, const struct relock_question *own)
{
    struct relock_link *link = &lane->driver.link;
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_question *taken, *at;
    uint64_t deadline_ms;
    int r;

    if (only_reads(lane, now_ms))
        return RELOCK_OK;
    taken = take_queue(lane, own, now_ms);
    if (!taken)
        return RELOCK_OK;
    DL_FOREACH(taken, at)
    {
        at->starts = link->wire.out.len;
        if (at->kills)
            relock_origin_kill(at->kills, link->origin, &link->wire.out);
        else
            relock_buffer_append(&link->wire.out, at->commands.data, at->commands.len);
    }
    DL_CONCAT(lane->driver.under_way, taken);
    deadline_ms = earliest(lane->driver.under_way);
    r = relock_link_send(link, deadline_ms);
    DL_FOREACH(taken, at)
    at->sent = at->starts < link->n_sent;
    return r;
}

/* The reply is for the first that is under way. Returns that when it was its last one. */
static struct relock_question *take_reply(struct relock_lane *lane, struct redisReply *reply)
{
    struct relock_question *question = lane->driver.under_way;

    relock_reply_free(question->before);
    question->before = question->reply;
    question->reply = reply;
    if (--question->n_left > 0)
        return NULL;
    DL_DELETE(lane->driver.under_way, question);
    question->result = RELOCK_OK;
    question->ended = true;
    return question;
}

/* Waits for a reply and takes all that have come with it. */
static int read_replies(struct relock_lane *lane, struct relock_question **ended)
{
    struct redisReply *reply;
    int r = relock_link_receive(&lane->driver.link, earliest(lane->driver.under_way), &reply);

    while (r == RELOCK_OK) {
        struct relock_question *question = take_reply(lane, reply);

        if (question)
            DL_APPEND(*ended, question);
        if (!lane->driver.under_way)
            break;
        r = relock_link_next(&lane->driver.link, &reply);
    }
    return r == RELOCK_AGAIN ? RELOCK_OK : r;
}

static int open_link(struct relock_lane *lane, uint64_t deadline_ms)
{
    if (lane->driver.under_way)
        return RELOCK_OK;
    if (atomic_exchange(&lane->retired, false))
        relock_link_close(&lane->driver.link);
    return relock_link_connect(&lane->driver.link, deadline_ms);
}

static void drive(struct relock_lane *lane, struct relock_question *own)
{
    while (!own->ended) {
        struct relock_question *ended = NULL;
        int r = open_link(lane, own->deadline_ms);

        if (r == RELOCK_OK)
            r = send_queue(lane, own);
        if (r == RELOCK_OK)
            r = read_replies(lane, &ended);
        if (r < 0)
            fail_all(lane, r, &ended);
        if (ended)
            end_all(lane, own, ended);
    }
}

/* ---- asking -------------------------------------------------------------------------------- */

static void end_unsent(struct relock_lane *lane, struct relock_question *question)
    RELOCK_REQUIRES(lane->mutex)
{
    DL_DELETE(lane->guarded.queue, question);
    question->queued = false;
    question->result = RELOCK_E_CONN;
    question->ended = true;
    (void)snprintf(question->why, sizeof(question->why), "%s: no answer in time",
                   relock_lane_label(lane));
}

/* Its time is over. Returns whether it was still in the queue. */
static bool leave_queue(struct relock_lane *lane, struct relock_question *question)
{
    bool leaves;

    relock_mutex_lock(&lane->mutex);
    leaves = question->queued && !question->drives;
    if (leaves)
        end_unsent(lane, question);
    relock_mutex_unlock(&lane->mutex);
    return leaves;
}

/* What is under way ends by the driver: only the gate says that it does not look any more. */
static void wait_for_gate(struct relock_lane *lane, struct relock_question *question)
{
    if (!relock_gate_wait(&question->gate, question->deadline_ms) && !leave_queue(lane, question))
        (void)relock_gate_wait(&question->gate, RELOCK_NEVER);
}

/* Too late to be sent: nobody else's question has to fail for that. */
static void pass_by(struct relock_lane *lane, struct relock_question *question)
{
    if (relock_clock_now_ms() < question->deadline_ms || !question->queued)
        return;
    relock_mutex_lock(&lane->mutex);
    end_unsent(lane, question);
    relock_mutex_unlock(&lane->mutex);
    end_all(lane, question, NULL);
}

static bool enter(struct relock_lane *lane, struct relock_question *question)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = !lane->guarded.driven;
    lane->guarded.driven = true;
    if (!drives)
        relock_gate_init(&question->gate);
    DL_APPEND(lane->guarded.queue, question);
    relock_mutex_unlock(&lane->mutex);
    return drives;
}

int relock_lane_ask(struct relock_lane *lane, struct relock_question *question,
                    uint64_t deadline_ms)
{
    question->reply = NULL;
    question->before = NULL;
    question->sent = false;
    question->origin = NULL;
    question->deadline_ms = deadline_ms;
    question->n_left = question->n_replies;
    question->ended = false;
    question->drives = false;
    question->queued = true;

    if (enter(lane, question)) {
        drive(lane, question);
        return question->result;
    }
    wait_for_gate(lane, question);
    if (!question->ended)
        pass_by(lane, question);
    if (!question->ended)
        drive(lane, question);
    return question->result;
}
