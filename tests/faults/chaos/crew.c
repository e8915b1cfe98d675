#include "crew.h"

#include <stdio.h>

void crew_start(struct stage *stage, int slot)
{
    struct stage_place *place = &stage->places[slot];
    struct worker_options options = {
        .urls = place->proxy ? proxy_url(place->proxy) : stage->urls,
        .dir = stage->dir,
        .slot = slot,
        .life = place->worker.life + 1,
        .n_threads = stage->n_threads,
        .seed = stage->seed ^ (uint64_t)stage->n_lives << 32,
        .set = stage->set,
        .names_seed = stage->seed,
        .until_ns = stage->until_ns,
        .lease_ms = stage->lease_ms,
        .min_replicas = stage->min_replicas,
        .keep_ms = stage->keep_ms,
        .has_numbers = stage->has_numbers,
        .ignores_leases = stage->ignores_leases,
    };

    stage->n_lives++;
    worker_start(&place->worker, &options);
}

/* Prints the end of its log, which has the reason. */
static void print_end(const char *path)
{
    FILE *file = fopen(path, "re");
    char text[16384];
    size_t n;

    if (!file)
        return;
    if (fseek(file, -(long)sizeof(text), SEEK_END) != 0)
        rewind(file);
    n = fread(text, 1, sizeof(text), file);
    fwrite(text, 1, n, stderr);
    fclose(file);
}

void crew_blame(struct stage *stage, const struct worker *worker, int status)
{
    fprintf(stderr, "worker %d.%d ended with status %#x; the end of %s:\n", worker->slot,
            worker->life, (unsigned)status, worker->log);
    print_end(worker->log);
    stage->failed = true;
}

void crew_kill(struct stage *stage, struct worker *worker)
{
    struct history_record killed = {
        .kind = HISTORY_KILLED, .slot = worker->slot, .life = worker->life};

    worker_kill(worker);
    killed.from_ns = killed.to_ns = history_now_ns();
    history_write(&stage->history, &killed);
}
