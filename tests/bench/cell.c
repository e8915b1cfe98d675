#include "cell.h"

#include "measure.h"
#include "support/child.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_MAX 256
#define BEYOND_MS 240000 /* to start and to end the processes */

struct cell_run {
    const char *program;
    const char *url;
    char text[TEXT_MAX];
    int to_parent;
};

static bool is_red(unsigned n_servers)
{
    return n_servers >= CELL_SERVERS_MIN && n_servers <= CELL_SERVERS_MAX;
}

bool cell_parse(struct cell *cell, const char *text)
{
    char more;
    int n;

    cell->n_servers = 0;
    n = sscanf(text, "%u,%u,%lf,%lf,%lf,%u,%u%c", &cell->n_processes, &cell->n_threads,
               &cell->hold_ms, &cell->min_s, &cell->max_s, &cell->n_rounds, &cell->n_servers,
               &more);
    return (n == 6 || (n == 7 && is_red(cell->n_servers))) && cell->n_rounds >= 1 &&
           cell->n_rounds <= CELL_ROUNDS_MAX && cell->n_processes >= 1 &&
           cell->n_processes <= CELL_PROCESSES_MAX && cell->n_threads >= 1 &&
           cell->n_threads <= CELL_THREADS_MAX && cell->hold_ms >= 0 &&
           cell->hold_ms <= CELL_HOLD_MAX_MS && cell->min_s > 0 && cell->max_s >= cell->min_s;
}

void cell_print(const double figures[CELL_FIGURES])
{
    for (unsigned i = 0; i < CELL_FIGURES; i++)
        printf("%.9g%c", figures[i], i + 1 < CELL_FIGURES ? ' ' : '\n');
}

static void read_figures(const char *text, double figures[CELL_FIGURES])
{
    for (unsigned i = 0; i < CELL_FIGURES; i++) {
        char *end;

        figures[i] = strtod(text, &end);
        if (end == text)
            die("a cell printed %u figures only: its program has other rows", i);
        text = end;
    }
}

static int run_program(struct child *parent, void *arg)
{
    struct cell_run *run = arg;

    (void)parent;
    if (dup2(run->to_parent, STDOUT_FILENO) >= 0)
        execl(run->program, run->program, run->url, "--cell", run->text, (char *)NULL);
    die("%s does not run", run->program);
}

void cell_ask(const struct cell *cell, const char *program, const char *url,
              double figures[CELL_FIGURES])
{
    struct cell_run run = {.program = program, .url = url};
    struct child *child;
    ssize_t n;
    int fds[2];
    int len = snprintf(run.text, sizeof(run.text), "%u,%u,%.9g,%.9g,%.9g,%u", cell->n_processes,
                       cell->n_threads, cell->hold_ms, cell->min_s, cell->max_s, cell->n_rounds);

    if (cell->n_servers > 0)
        snprintf(run.text + len, sizeof(run.text) - (size_t)len, ",%u", cell->n_servers);
    if (pipe2(fds, O_CLOEXEC) != 0)
        die("no pipe");
    run.to_parent = fds[1];
    child = child_start(run_program, &run);
    close(fds[1]);
    if (child_wait(child, (uint64_t)(1000 * cell->max_s) + BEYOND_MS) != EXIT_SUCCESS)
        die("%s %s --cell %s failed", program, url, run.text);
    n = read(fds[0], run.text, sizeof(run.text) - 1);
    close(fds[0]);
    run.text[n > 0 ? n : 0] = '\0';
    read_figures(run.text, figures);
}
