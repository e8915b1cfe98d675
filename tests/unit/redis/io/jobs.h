/*
 * Jobs - calls that the I/O thread sends through a pipeline to a script server
 *
 * The fixture of tests of pipelines, on the terms of talk.h.
 *
 * Threads: the main one. While jobs_run() runs, the I/O thread has the pipeline and the jobs.
 */
#ifndef RELOCK_TEST_JOBS_H
#define RELOCK_TEST_JOBS_H

#include "redis/io/private.h"
#include "unit/common/talk.h"

#define N_JOBS 2

/* A call that the I/O thread sends once, when it is connected. */
struct job {
    const struct relock_call *call;
    bool is_sent;
    unsigned n_answers;
    int result;
    int64_t integer;
    char error[RELOCK_WHY_MAX];
};

extern struct relock_pipeline *pipeline;
extern struct job jobs[N_JOBS];
extern size_t n_jobs;

extern const struct relock_call renew, extend;

int jobs_begin(void **state);
int jobs_end(void **state);

void jobs_add(const struct relock_call *call);

/* Sends the jobs and waits until each has an answer and the script has been played. */
void jobs_run(void);

/* Replaces the pipeline by one that calls `up` when it is connected. The pipeline of jobs_begin()
 * calls jobs_send(), which sends each job once. */
void jobs_make_pipeline(relock_pipeline_up_fn *up);

void jobs_send(void *unused);

/* Records the answer to the job `job`. */
void jobs_answer(void *job, int result, const struct redisReply *reply);

#define JOBS_TEST(function) cmocka_unit_test_setup_teardown(function, jobs_begin, jobs_end)

#endif
