/* Many threads share a lane whose connection breaks again and again. */
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/private.h"
#include "redis/server/reply.h"
#include "support/actor.h"
#include "support/late.h"
#include "support/leaks.h"
#include "support/wait.h"
#include "support/words.h"
#include "unit/common/fake_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define N_THREADS 6
#define ROUNDS 1000
#define N_COMMANDS (N_THREADS * ROUNDS)

/* The server breaks a connection after so many commands, one after the other. */
static const unsigned lives[] = {3, 40, 17, 90, 1, 64};

/* So long that it goes out beside no driver. */
#define LONG 3000

#define DEADLINE_IN_ROUND(round) ((round) % 7 == 3 ? 3 : slow_ms(SOON_MS))

/* ---- the server ---------------------------------------------------------------------------- */

static struct fake_server echo;
static atomic_uint n_run[N_COMMANDS]; /* how often it has run each command */
static unsigned n_connections;        /* the thread's */

static void answer(int fd, const struct words *words)
{
    static const char info[] = "# Server\r\nrun_id:first\r\ntcp_port:0\r\n";
    static const char client[] = "id=7 addr=127.0.0.1:7 fd=8 name= db=0\n";
    const char *text = words->word[words->n > 1 ? 1 : 0].data;
    char bulk[128];

    switch (*words->word[0].data) {
    case 'H':
        fake_server_say(fd, "*2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n");
        return;
    case 'I':
        text = info;
        break;
    case 'C':
        text = client;
        break;
    default:
        n_run[strtoul(text, NULL, 10)]++;
        snprintf(bulk, sizeof(bulk), "$%zu\r\n%.*s\r\n", words->word[1].len,
                 (int)words->word[1].len, text);
        fake_server_say(fd, bulk);
        return;
    }
    snprintf(bulk, sizeof(bulk), "$%zu\r\n%s\r\n", strlen(text), text);
    fake_server_say(fd, bulk);
}

static void serve(struct fake_server *server, int fd)
{
    static char bytes[65536];
    unsigned n_left = lives[n_connections++ % (sizeof(lives) / sizeof(lives[0]))];
    size_t len = 0;
    ssize_t n;

    (void)server;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    while (n_left > 0 && (n = recv(fd, bytes + len, sizeof(bytes) - len, 0)) > 0) {
        struct words words;
        size_t used;

        len += (size_t)n;
        while (n_left > 0 && (used = words_read(&words, bytes, len)) > 0) {
            answer(fd, &words);
            n_left -= *words.word[0].data == 'E';
            len -= used;
            memmove(bytes, bytes + used, len);
        }
    }
}

/* ---- the lane ------------------------------------------------------------------------------- */

static const struct relock_log no_log = {.level = 0};
static struct relock_server server;
static struct relock_lane lane;
static struct leaks before;

static int begin(void **state)
{
    char url[64];

    (void)state;
    before = leaks_now();
    if (!fake_server_listen(&echo) || !fake_server_run(&echo, serve))
        return -1;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", echo.port);
    if (relock_server_init(&server,
                           &(struct relock_options){.url = url,
                                                    .connect_timeout_ms = slow_ms(SOON_MS),
                                                    .command_timeout_ms = slow_ms(SOON_MS)},
                           "id", &no_log) != RELOCK_OK)
        return -1;
    relock_lane_init(&lane, &server);
    return 0;
}

static int end(void **state)
{
    (void)state;
    actor_end_all();
    relock_lane_deinit(&lane);
    relock_server_deinit(&server);
    fake_server_stop(&echo);
    return leaks_none_since(&before) ? 0 : -1;
}

/* ---- the threads ---------------------------------------------------------------------------- */

/* How a command ended: once, and in one of these ways. */
enum ending { OPEN, ANSWERED, SENT, UNSENT, WRONG };

struct command {
    struct relock_posted posted;
    unsigned nth;
    char text[LONG + 64];
};

static atomic_int endings[N_COMMANDS];
static atomic_uint n_ended;

static void prepare(struct command *command, unsigned nth, bool is_long)
{
    struct relock_exchange *exchange = &command->posted.exchange;
    int n;

    command->posted = (struct relock_posted){0};
    command->nth = nth;
    if (is_long)
        n = snprintf(command->text, sizeof(command->text),
                     "*3\r\n$4\r\nECHO\r\n$6\r\n%06u\r\n$%d\r\n%0*d\r\n", nth, LONG, LONG, 0);
    else
        n = snprintf(command->text, sizeof(command->text), "*2\r\n$4\r\nECHO\r\n$6\r\n%06u\r\n",
                     nth);
    exchange->commands = (struct relock_text){command->text, (size_t)n};
    exchange->n_replies = 1;
    exchange->forms = RELOCK_REPLY_STRING;
}

static enum ending ending_of(const struct command *command, int result)
{
    const struct relock_exchange *exchange = &command->posted.exchange;
    char expected[16];

    snprintf(expected, sizeof(expected), "%06u", command->nth);
    if (result == RELOCK_OK)
        return relock_reply_is(exchange->reply, expected) ? ANSWERED : WRONG;
    if (result != RELOCK_E_CONN || exchange->reply)
        return WRONG;
    return exchange->sent ? SENT : UNSENT;
}

static void end_command(struct command *command, int result)
{
    struct relock_exchange *exchange = &command->posted.exchange;
    int ending = ending_of(command, result);

    if (atomic_exchange(&endings[command->nth], ending) != OPEN)
        endings[command->nth] = WRONG;
    relock_reply_free(exchange->reply);
    relock_conn_id_unref(exchange->conn_id);
    relock_orphan_drop(exchange->orphan);
    n_ended++;
}

static void on_posted(struct relock_posted *posted)
{
    struct command *command = (struct command *)posted;

    end_command(command, posted->exchange.result);
    free(command);
}

static bool post(unsigned nth)
{
    struct command *command = malloc(sizeof(*command));

    prepare(command, nth, false);
    command->posted.fn = on_posted;
    if (relock_lane_post(&lane, &command->posted, deadline_in(SOON_MS)) == RELOCK_OK)
        return true;
    free(command);
    return false;
}

/* Some are long, some are posted, and some have no time. */
static int ask_often(void *arg)
{
    unsigned first = ROUNDS * (unsigned)(uintptr_t)arg;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct command command;

        if (round % 5 == 1 && post(first + round))
            continue;
        if (round % 67 == 66)
            relock_lane_retire(&lane);
        prepare(&command, first + round, round % 11 == 5);
        end_command(&command, relock_lane_ask(&lane, &command.posted.exchange,
                                              relock_clock_in(DEADLINE_IN_ROUND(round))));
    }
    return RELOCK_OK;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void read_what_was_posted(void)
{
    uint64_t limit_ms = deadline_in(SOON_MS);

    while (lane.n_posted > 0 && now_ms() < limit_ms)
        (void)relock_lane_read(&lane, relock_clock_in(10));
    assert_int_equal(lane.n_posted, 0);
}

static void each_command_ends_once_and_as_it_says(void **state)
{
    struct actor *actors[N_THREADS];
    unsigned n[WRONG + 1] = {0};

    (void)state;
    for (uintptr_t i = 0; i < N_THREADS; i++)
        actors[i] = actor_start();
    for (uintptr_t i = 0; i < N_THREADS; i++)
        actor_begin(actors[i], ask_often, (void *)i);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(actor_result_within(actors[i], slow_ms(6 * SOON_MS)), RELOCK_OK);
    read_what_was_posted();
    assert_int_equal(n_ended, N_COMMANDS);
    for (unsigned i = 0; i < N_COMMANDS; i++) {
        n[endings[i]]++;
        if (endings[i] == ANSWERED)
            assert_int_equal(n_run[i], 1);
        else if (endings[i] == UNSENT)
            assert_int_equal(n_run[i], 0);
        else
            assert_true(n_run[i] <= 1);
    }
    assert_int_equal(n[OPEN], 0);
    assert_int_equal(n[WRONG], 0);
    assert_true(n[ANSWERED] > N_COMMANDS / 2);
    assert_true(n[SENT] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_command_ends_once_and_as_it_says, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
