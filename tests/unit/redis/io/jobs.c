#include "jobs.h"

#include "base/clock.h"
#include "base/thread.h"
#include "redis/io/private.h"
#include "redis/server/loop.h"
#include "redis/server/reply.h"

#include <string.h>

const struct relock_call renew = {
    .script = &relock_script_renew,
    .key = {"orders", 6},
    .args = {{"60000", 5}, {"id:7", 4}},
    .n_args = 2,
};

const struct relock_call extend = {
    .script = &relock_script_extend,
    .key = {"orders", 6},
    .args = {{"id:7", 4}, {"1", 1}, {"5000", 4}},
    .n_args = 3,
};

static struct relock_loop *loop;
static struct relock_gate all_answered;
static size_t n_answered;

struct relock_pipeline *pipeline;
struct job jobs[N_JOBS];
size_t n_jobs;

void jobs_answer(void *arg, int result, const struct redisReply *reply)
{
    struct job *job = arg;

    job->n_answers++;
    job->result = result;
    if (result == RELOCK_OK)
        (void)relock_reply_integer(reply, &job->integer);
    else if (reply)
        strncpy(job->error, relock_reply_error(reply), sizeof(job->error) - 1);
    if (++n_answered == n_jobs)
        relock_gate_open(&all_answered);
}

void jobs_send(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < n_jobs; i++) {
        if (jobs[i].is_sent)
            continue;
        jobs[i].is_sent = true;
        jobs[i].result = relock_pipeline_call(pipeline, jobs[i].call, jobs_answer, &jobs[i]);
    }
}

static uint64_t never(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

void jobs_make_pipeline(relock_pipeline_up_fn *up)
{
    pipeline = relock_pipeline_free(pipeline);
    assert_int_equal(relock_pipeline_new(loop, &server, slow_ms(SOON_MS), up, NULL, &pipeline),
                     RELOCK_OK);
}

int jobs_begin(void **state)
{
    int r = talk_begin(state);

    memset(jobs, 0, sizeof(jobs));
    n_jobs = 0;
    n_answered = 0;
    relock_gate_init(&all_answered);
    assert_int_equal(relock_loop_new(never, NULL, &loop), RELOCK_OK);
    jobs_make_pipeline(jobs_send);
    return r;
}

int jobs_end(void **state)
{
    relock_loop_stop(loop);
    pipeline = relock_pipeline_free(pipeline);
    loop = relock_loop_free(loop);
    return talk_end(state);
}

void jobs_add(const struct relock_call *call)
{
    jobs[n_jobs++].call = call;
}

void jobs_run(void)
{
    relock_pipeline_open(pipeline);
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    if (n_jobs > 0)
        assert_true(relock_gate_wait(&all_answered, soon()));
    assert_true(script_played(script));
    relock_loop_stop(loop);
}
