/*
 * How commands are posted to the I/O thread, sent and answered. The linker puts these in place of
 * the connection of that thread.
 */
#include "lock/wake/outbox.h"

#include "redis/io/io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wthread-safety" /* one thread needs no mutex */
#endif

#define N_ENTRIES 3

/* A client without connections and I/O thread: no thread is woken. */
static struct relock_client client;
static struct relock_outbox outbox;

static struct {
    int result; /* result of the next send */
    relock_pipeline_fn *fn;
    struct relock_outbox_entry *sent[N_ENTRIES];
    int n_sent;
} line;

struct posted {
    struct relock_outbox_entry entry;
    bool is_unwanted;
    bool posts_again;
    int n_answers, n_drops;
    int result;
    bool was_sent;
};

static struct posted posted[N_ENTRIES];

int __wrap_relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                                relock_pipeline_fn *fn, void *arg);
struct relock_conn_id *__wrap_relock_pipeline_conn_id(const struct relock_pipeline *pipeline);
struct relock_pipeline *__wrap_relock_node_io_pipeline(struct relock_topology *topology,
                                                       struct relock_text key);

struct relock_pipeline *__wrap_relock_node_io_pipeline(struct relock_topology *topology,
                                                       struct relock_text key)
{
    (void)topology;
    (void)key;
    return NULL;
}

int __wrap_relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                                relock_pipeline_fn *fn, void *arg)
{
    (void)pipeline;
    (void)call;
    if (line.result < 0)
        return line.result;
    line.fn = fn;
    line.sent[line.n_sent++] = arg;
    return RELOCK_OK;
}

struct relock_conn_id *__wrap_relock_pipeline_conn_id(const struct relock_pipeline *pipeline)
{
    (void)pipeline;
    return NULL;
}

static bool write_entry(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    (void)request;
    return !((const struct posted *)entry)->is_unwanted;
}

static void answer(struct relock_client *of, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply)
{
    struct posted *at = (struct posted *)entry;

    (void)reply;
    assert_ptr_equal(of, &client);
    at->n_answers++;
    at->result = result;
    at->was_sent = entry->is_sent;
    if (at->posts_again) {
        at->posts_again = false;
        relock_outbox_post(&client, &outbox, entry);
    }
}

static void drop(struct relock_client *of, struct relock_outbox_entry *entry)
{
    assert_ptr_equal(of, &client);
    ((struct posted *)entry)->n_drops++;
}

static const struct relock_outbox_ops ops = {
    .write = write_entry,
    .answer = answer,
    .drop = drop,
};

static int begin(void **state)
{
    (void)state;
    memset(&client, 0, sizeof(client));
    memset(&outbox, 0, sizeof(outbox));
    memset(&line, 0, sizeof(line));
    memset(posted, 0, sizeof(posted));
    relock_mutex_init(&client.mutex);
    relock_cond_init(&client.changed);
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_cond_deinit(&client.changed);
    relock_mutex_deinit(&client.mutex);
    return 0;
}

static void post(int nth, uint64_t at_ms)
{
    posted[nth].entry.ops = &ops;
    relock_outbox_post(&client, &outbox, &posted[nth].entry);
    posted[nth].entry.posted_ms = at_ms;
}

static void send_all(void)
{
    relock_mutex_lock(&client.mutex);
    relock_client_run_tasks(&client);
    relock_mutex_unlock(&client.mutex);
}

static void entries_are_sent_in_the_order_in_which_they_were_posted(void **state)
{
    (void)state;
    for (int i = 0; i < N_ENTRIES; i++)
        post(i, 0);
    assert_int_equal(line.n_sent, 0);

    send_all();
    for (int i = 0; i < N_ENTRIES; i++)
        assert_ptr_equal(line.sent[i], &posted[i].entry);
    assert_false(relock_outbox_is_empty(&outbox));

    for (int i = 0; i < N_ENTRIES; i++) {
        line.fn(line.sent[i], RELOCK_OK, NULL);
        assert_int_equal(posted[i].n_answers, 1);
        assert_true(posted[i].was_sent);
    }
    assert_true(relock_outbox_is_empty(&outbox));
}

static void an_entry_that_is_no_longer_wanted_is_not_sent(void **state)
{
    (void)state;
    posted[0].is_unwanted = true;
    post(0, 0);
    send_all();
    assert_int_equal(line.n_sent, 0);
    assert_int_equal(posted[0].n_answers, 1);
    assert_int_equal(posted[0].result, RELOCK_E_CLOSED);
    assert_false(posted[0].was_sent);
    assert_true(relock_outbox_is_empty(&outbox));
}

static void an_entry_that_cannot_be_sent_is_answered_at_once(void **state)
{
    (void)state;
    line.result = RELOCK_E_CONN;
    post(0, 0);
    send_all();
    assert_int_equal(posted[0].n_answers, 1);
    assert_int_equal(posted[0].result, RELOCK_E_CONN);
    assert_false(posted[0].was_sent);
    assert_true(relock_outbox_is_empty(&outbox));
}

static void an_entry_posted_during_an_answer_is_sent_in_the_same_turn(void **state)
{
    (void)state;
    posted[0].is_unwanted = true;
    posted[0].posts_again = true;
    post(0, 0);
    send_all();
    assert_int_equal(posted[0].n_answers, 2);
    assert_null(outbox.posted);
}

static void a_server_hangs_while_its_oldest_answer_is_late(void **state)
{
    (void)state;
    post(0, 1000);
    assert_false(relock_outbox_hangs(&outbox, 9000, 50)); /* the entry is still unsent */
    send_all();
    post(1, 1040);
    send_all();
    assert_false(relock_outbox_hangs(&outbox, 1050, 50));
    assert_true(relock_outbox_hangs(&outbox, 1051, 50));

    line.fn(line.sent[0], RELOCK_OK, NULL);
    assert_false(relock_outbox_hangs(&outbox, 1051, 50));
    assert_true(relock_outbox_hangs(&outbox, 1091, 50));
}

static void unanswered_entries_are_dropped_at_the_end(void **state)
{
    (void)state;
    post(0, 0);
    send_all();
    post(1, 0);
    relock_outbox_drop_all(&client, &outbox);
    assert_true(relock_outbox_is_empty(&outbox));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(posted[i].n_drops, 1);
        assert_int_equal(posted[i].n_answers, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(entries_are_sent_in_the_order_in_which_they_were_posted),
        TEST(an_entry_that_is_no_longer_wanted_is_not_sent),
        TEST(an_entry_that_cannot_be_sent_is_answered_at_once),
        TEST(an_entry_posted_during_an_answer_is_sent_in_the_same_turn),
        TEST(a_server_hangs_while_its_oldest_answer_is_late),
        TEST(unanswered_entries_are_dropped_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
