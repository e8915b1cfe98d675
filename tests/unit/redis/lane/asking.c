#include "asking.h"

#include "base/hash.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/lane.h"
#include "redis/lane/private.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <string.h>

static struct relock_lane the_lane;

struct relock_lane *const lane = &the_lane;
struct asking asking[N_ASKING];

int asking_setup(void **state)
{
    int r = talk_begin(state);

    relock_lane_init(lane, &server);
    for (int i = 0; i < N_ASKING; i++)
        asking[i].actor = actor_start();
    return r;
}

int asking_teardown(void **state)
{
    (void)script_played(script); /* before the connection closes */
    actor_end_all();
    relock_lane_deinit(lane);
    return talk_end(state);
}

void asking_as(const struct relock_options *options)
{
    relock_lane_deinit(lane);
    talk_as(options);
    relock_lane_init(lane, &server);
}

/* ECHO of the letter, and of so many bytes more. */
static size_t write_echo(char *to, size_t size, char letter, int padding)
{
    int n;

    if (padding == 0)
        n = snprintf(to, size, "*2\r\n$4\r\nECHO\r\n$1\r\n%c\r\n", letter);
    else
        n = snprintf(to, size, "*3\r\n$4\r\nECHO\r\n$1\r\n%c\r\n$%d\r\n%0*d\r\n", letter, padding,
                     padding, 0);
    assert_true(n > 0 && (size_t)n < size);
    return (size_t)n;
}

void asking_prepare_padded(struct asking *at, char letter, unsigned n, int padding,
                           uint64_t deadline_ms)
{
    size_t len = 0;

    at->text[0] = letter;
    for (unsigned i = 0; i < n; i++)
        len += write_echo(at->commands + len, sizeof(at->commands) - len, letter,
                          i == 0 ? padding : 0);
    at->exchange = (struct relock_exchange){
        .commands = {at->commands, len},
        .n_replies = n,
        .forms = RELOCK_REPLY_STRING,
        .forms_before = RELOCK_REPLY_STRING | RELOCK_REPLY_INTEGER,
    };
    at->deadline_ms = deadline_ms;
}

void asking_prepare(struct asking *at, char letter, unsigned n, uint64_t deadline_ms)
{
    asking_prepare_padded(at, letter, n, 0, deadline_ms);
}

int asking_ask(void *arg)
{
    struct asking *at = arg;

    return relock_lane_ask(lane, &at->exchange, at->deadline_ms);
}

bool asking_n_queued(void *arg)
{
    struct relock_exchange *at;
    int n = 0;

    relock_mutex_lock(&lane->mutex);
    DL_FOREACH(lane->guarded.queue, at)
    n++;
    relock_mutex_unlock(&lane->mutex);
    return n == *(int *)arg;
}

void asking_start(int i)
{
    actor_begin(asking[i].actor, asking_ask, &asking[i]);
}

void asking_expect(char letter, bool is_padded)
{
    char words[16];

    snprintf(words, sizeof(words), "ECHO %c%s", letter, is_padded ? " *" : "");
    script_expect(script, words);
}

void asking_begin(int i, char letter, unsigned n, uint64_t deadline_ms)
{
    asking_prepare_padded(&asking[i], letter, n, i == 0 ? ASKING_LONG : 0, deadline_ms);
    asking_start(i);
    if (i > 0) {
        assert_true(wait_until(asking_n_queued, &i, SOON_MS));
        return;
    }
    for (unsigned j = 0; j < n; j++)
        asking_expect(letter, j == 0);
    assert_true(script_played(script));
}

static bool others_may_send(void *arg)
{
    bool may;

    (void)arg;
    relock_mutex_lock(&lane->mutex);
    may = lane->guarded.sender == RELOCK_SENDER_NONE && lane->guarded.beside_until_ms > 0;
    relock_mutex_unlock(&lane->mutex);
    return may;
}

void asking_send(int i, char letter, uint64_t deadline_ms)
{
    asking_prepare(&asking[i], letter, 1, deadline_ms);
    asking_start(i);
    asking_expect(letter, false);
    assert_true(script_played(script));
    assert_true(wait_until(others_may_send, NULL, SOON_MS));
}

static bool sleeps(void *gate)
{
    return atomic_load(&((struct relock_gate *)gate)->state) != 0;
}

/* A thread that was about to sleep says so again, possibly late. */
void asking_hold_up(int i)
{
    struct relock_gate *gate = &asking[i].exchange.gate;

    do {
        assert_true(wait_until(sleeps, gate, SOON_MS));
        atomic_store(&gate->state, 0);
        let_pass(SENT_WITHIN_MS / 5);
    } while (sleeps(gate));
}

void asking_has_answer(int i)
{
    assert_int_equal(actor_result(asking[i].actor), RELOCK_OK);
    assert_true(relock_reply_is(asking[i].exchange.reply, asking[i].text));
    relock_reply_free(asking[i].exchange.reply);
    relock_reply_free(asking[i].exchange.before);
}

void asking_has_failed(int i, bool sent, const char *why)
{
    assert_int_equal(actor_result(asking[i].actor), RELOCK_E_CONN);
    assert_int_equal(asking[i].exchange.sent, sent);
    assert_non_null(strstr(asking[i].exchange.why, why));
    if (!sent)
        return;
    asking[i].exchange.conn_id = relock_conn_id_unref(asking[i].exchange.conn_id);
    relock_orphan_drop(asking[i].exchange.orphan);
}
