#include "calls.h"

#include "redis/deployment/run.h"
#include "redis/server/reply.h"

struct relock_call call;

void calls_acquire(void)
{
    call = (struct relock_call){
        .script = &relock_script_lock,
        .key = {"orders", 6},
        .args = {{"60000", 5}, {"id:7", 4}, {"1", 1}},
        .n_args = 3,
    };
}

int calls_begin(void **state)
{
    calls_acquire();
    return talk_begin(state);
}

int calls_end(void **state)
{
    relock_call_end(&call);
    return talk_end(state);
}

void server_answers(const char *bytes)
{
    talk_expect(&call);
    script_answer(script, bytes);
}

int run_call(void)
{
    return relock_call_run(&call, topology, soon());
}

void call_returns(int64_t integer)
{
    int64_t actual;

    assert_int_equal(run_call(), RELOCK_OK);
    assert_non_null(call.reply);
    assert_true(relock_reply_integer(call.reply, &actual));
    assert_int_equal(actual, integer);
}
