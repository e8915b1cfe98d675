/*
 * The connection of a lane has one owner at any time: the driver, which is the thread of one of the
 * questions on it. `link` and `under_way` are its alone, and pass with the driving.
 *
 *     queue        questions that nobody has looked at yet; guarded by the mutex
 *     under_way    written, or about to be, and orphans; in the order in which their replies come
 *
 * Who finds nobody driving drives. The driver takes the queue, sends it in one piece and reads
 * replies, until its own question has ended. Then it sees in one critical section whether a
 * question is left, and makes the first of these the next driver: so there is one as long as there
 * is a question. A driver is woken like one that has its answer, by its gate, and only a driver
 * opens gates.
 *
 * What is under way changes through the driver alone. It waits until the earliest deadline of them
 * all, and lets a question leave for whose caller the time is over: an orphan takes its place. From
 * outside only one thing is done to a lane: a question that is still in the queue at its deadline
 * leaves it, and was never sent.
 *
 * An orphan has no thread to drive for it. So when the last question leaves, and nobody has come,
 * the connection is closed, which ends the orphans too: none is ever left without a driver.
 */
#include "redis/driver.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/origin.h"
#include "redis/orphan.h"
#include "redis/reply.h"

#include <stdio.h>

static uint64_t earlier(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* When a question that is under way has to be looked at, should nothing come. */
static uint64_t due(const struct relock_question *question)
{
    return question->is_orphan ? question->limit_ms
                               : earlier(question->leave_ms, question->limit_ms);
}

static uint64_t earliest(const struct relock_question *questions)
{
    const struct relock_question *at;
    uint64_t earliest_ms = RELOCK_NEVER;

    DL_FOREACH(questions, at)
    earliest_ms = earlier(earliest_ms, due(at));
    return earliest_ms;
}

/* question is the first member, and it came from relock_orphan_new. */
static struct relock_orphan *orphan_of(struct relock_question *question)
{
    return (struct relock_orphan *)(void *)question;
}

/* Nobody waits for these any more, and the connection goes. */
static void close_on_orphans(struct relock_lane *lane)
{
    struct relock_question *at, *next;

    relock_link_close(&lane->driver.link);
    DL_FOREACH_SAFE(lane->driver.under_way, at, next)
    {
        DL_DELETE(lane->driver.under_way, at);
        relock_orphan_end(orphan_of(at), false);
    }
}

/* With a caller that waits for it; NULL when there is none. */
static struct relock_question *first_under_way(const struct relock_lane *lane)
{
    struct relock_question *at;

    DL_FOREACH(lane->driver.under_way, at)
    if (!at->is_orphan)
        return at;
    return NULL;
}

/* Returns the question whose thread drives from now on; NULL when there is none. */
static struct relock_question *hand_on(struct relock_lane *lane)
{
    struct relock_question *driver;

    relock_mutex_lock(&lane->mutex);
    driver = first_under_way(lane);
    if (!driver && !lane->guarded.queue && lane->driver.under_way) {
        relock_mutex_unlock(&lane->mutex);
        close_on_orphans(lane);
        relock_mutex_lock(&lane->mutex);
    }
    if (!driver)
        driver = lane->guarded.queue;
    lane->guarded.driven = driver != NULL;
    if (driver)
        driver->drives = true;
    relock_mutex_unlock(&lane->mutex);
    return driver;
}

/* These have ended. When the driver's own is among them, it hands the driving on. */
static void end_all(struct relock_lane *lane, struct relock_question *own,
                    struct relock_question *ended)
{
    struct relock_question *driver = NULL, *at, *next;

    if (own->ended)
        driver = hand_on(lane);

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

/* It ends without its replies. */
static void fail(struct relock_lane *lane, struct relock_question *question, int result)
{
    question->reply = relock_reply_free(question->reply);
    question->before = relock_reply_free(question->before);
    if (question->sent && lane->driver.link.origin)
        question->origin = relock_origin_ref(lane->driver.link.origin);
    question->result = result;
    question->ended = true;
    (void)snprintf(question->why, sizeof(question->why), "%s", lane->driver.link.wire.why);
}

static void fail_all(struct relock_lane *lane, int result, struct relock_question **ended)
{
    struct relock_question *all = take_all(lane), *at, *next;

    DL_FOREACH_SAFE(all, at, next)
    {
        if (at->is_orphan) {
            DL_DELETE(all, at);
            relock_orphan_end(orphan_of(at), false);
        } else {
            fail(lane, at, result);
        }
    }
    relock_link_close(&lane->driver.link);
    DL_CONCAT(*ended, all);
}

/* Its caller goes on without the replies. Returns false when there is no memory. */
static bool leave(struct relock_lane *lane, struct relock_question *question)
{
    struct relock_orphan *orphan = relock_orphan_new(question, lane->driver.link.origin);

    if (!orphan)
        return false;
    DL_PREPEND_ELEM(lane->driver.under_way, question, &orphan->question);
    DL_DELETE(lane->driver.under_way, question);
    fail(lane, question, RELOCK_E_CONN);
    question->orphan = orphan;
    return true;
}

/*
 * Nothing came in time: those leave for whom the time is over. Returns RELOCK_E_CONN when the
 * connection has failed by that.
 */
static int let_leave(struct relock_lane *lane, struct relock_question **ended)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_question *at, *next;

    DL_FOREACH_SAFE(lane->driver.under_way, at, next)
    {
        if (now_ms >= at->limit_ms)
            return RELOCK_E_CONN;
        if (at->is_orphan || now_ms < at->leave_ms)
            continue;
        if (!leave(lane, at))
            return RELOCK_E_CONN;
        DL_APPEND(*ended, at);
    }
    return RELOCK_OK;
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
    uint64_t least_ms = relock_clock_after(now_ms, RELOCK_LANE_ANSWER_MS);
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
        at->leave_ms = least_ms > at->deadline_ms ? least_ms : at->deadline_ms;
        at->limit_ms = relock_clock_after(now_ms, link->server->command_timeout_ms);
    }
    DL_CONCAT(lane->driver.under_way, taken);
    /* However late it is by now: what is sent in part has to be sent whole. */
    deadline_ms = earliest(lane->driver.under_way);
    r = relock_link_send(link, deadline_ms > least_ms ? deadline_ms : least_ms);
    DL_FOREACH(taken, at)
    at->sent = at->starts < link->n_sent;
    return r;
}

/* The reply is for the first that is under way. Returns that when it was its last one, and
 * somebody waits for it. */
static struct relock_question *take_reply(struct relock_lane *lane, struct redisReply *reply)
{
    struct relock_question *question = lane->driver.under_way;

    relock_reply_free(question->before);
    question->before = question->reply;
    question->reply = reply;
    if (--question->n_left > 0)
        return NULL;
    DL_DELETE(lane->driver.under_way, question);
    if (question->is_orphan) {
        relock_orphan_end(orphan_of(question), true);
        return NULL;
    }
    question->result = RELOCK_OK;
    question->ended = true;
    return question;
}

/* Waits for a reply and takes all that have come with it. Returns RELOCK_AGAIN when none came
 * before somebody's time was over. */
static int read_replies(struct relock_lane *lane, const struct relock_question *own,
                        struct relock_question **ended)
{
    uint64_t until_ms = earliest(lane->driver.under_way);
    struct redisReply *reply;
    int r;

    if (own->queued)
        until_ms = earlier(until_ms, own->deadline_ms);
    r = relock_link_receive(&lane->driver.link, until_ms, &reply);
    if (r == RELOCK_AGAIN)
        return let_leave(lane, ended);
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
    if (atomic_load(&lane->retired) && !first_under_way(lane))
        close_on_orphans(lane);
    if (lane->driver.under_way)
        return RELOCK_OK;
    if (atomic_exchange(&lane->retired, false))
        relock_link_close(&lane->driver.link);
    return relock_link_connect(&lane->driver.link, deadline_ms);
}

void relock_driver_end_unsent(struct relock_lane *lane, struct relock_question *question)
{
    DL_DELETE(lane->guarded.queue, question);
    question->queued = false;
    question->result = RELOCK_E_CONN;
    question->ended = true;
    (void)snprintf(question->why, sizeof(question->why), "%s: no answer in time",
                   relock_lane_label(lane));
}

/* The driver's own is too late to be sent: nobody else's question has to fail for that. */
static void pass_by(struct relock_lane *lane, struct relock_question *own)
{
    if (!own->queued || relock_clock_now_ms() < own->deadline_ms)
        return;
    relock_mutex_lock(&lane->mutex);
    relock_driver_end_unsent(lane, own);
    relock_mutex_unlock(&lane->mutex);
    end_all(lane, own, NULL);
}

static void drive_on(struct relock_lane *lane, struct relock_question *own)
{
    struct relock_question *ended = NULL;
    int r = open_link(lane, own->deadline_ms);

    if (r == RELOCK_OK)
        r = send_queue(lane, own);
    if (r == RELOCK_OK)
        r = read_replies(lane, own, &ended);
    if (r < 0 || r == RELOCK_REPLICA)
        fail_all(lane, r, &ended);
    if (ended)
        end_all(lane, own, ended);
}

void relock_driver_drive(struct relock_lane *lane, struct relock_question *own)
{
    while (!own->ended) {
        pass_by(lane, own);
        if (!own->ended)
            drive_on(lane, own);
    }
}
