/*
 * Many processes want one lock: cells of so many processes, threads of each, and holds of so many
 * milliseconds (cell.h). Cells with the same threads and holds take turns, and so do this library
 * and the one of `--against`. Each cell runs in a program of its own. With `--servers` the lock is
 * a red lock.
 *
 * The longest gap between two acquisitions of a process is counted twice: in acquisitions of
 * others, and in their turns. With one thread per process this is the same. With several, a process
 * hands the lock off among its threads for `handoff_ms`, so one turn has many acquisitions. The
 * longest wait is the longest part of a gap in which a call of the process waited, in turns. Only
 * it has a target: turns.h says why.
 */
#include "cell.h"
#include "rows.h"

#define SELF "/proc/self/exe"

/* In units of plan->seconds. */
#define MIN_FACTOR 4
#define MAX_FACTOR 60

#define SEEN_MIN 4 /* rounds; fewer say nothing about shares and waits */
#define SCALE_FROM 8

enum { OURS, OTHER, N_SIDES };

#define N_LINES (CELL_PER_SECOND + 1) /* of one side */

static const struct {
    const char *id, *what, *unit;
} texts[N_SIDES][N_LINES] = {
    [OURS] =
        {
            {"least", "acquisitions of the least-served process", "equal shares"},
            {"longest", "longest gap of a process, in acquisitions", "rounds"},
            {"longest_turns", "longest gap of a process, in turns", "rounds"},
            {"scripts", "EVALSHA for each acquisition", "commands"},
            {"publishes", "PUBLISH for each acquisition", "commands"},
            {"rate", "all processes together", "acquisitions/s"},
        },
    [OTHER] =
        {
            {"other_least", "other: acquisitions of the least-served process", "equal shares"},
            {"other_longest", "other: longest gap of a process, in acquisitions", "rounds"},
            {"other_longest_turns", "other: longest gap of a process, in turns", "rounds"},
            {"other_scripts", "other: EVALSHA for each acquisition", "commands"},
            {"other_publishes", "other: PUBLISH for each acquisition", "commands"},
            {"other_rate", "other: all processes together", "acquisitions/s"},
        },
};

static const char *const ratios[N_LINES] = {
    "least-served process: this / other",
    "longest gap, in acquisitions: this / other",
    "longest gap, in turns: this / other",
    "EVALSHA: this / other",
    "PUBLISH: this / other",
    "acquisitions/s: this / other",
};

/* A cell, and what it has shown so far. */
struct measured {
    struct cell cell;
    struct result *result;
    double rounds[N_SIDES]; /* in the run that saw the fewest */
};

/* Cells with the same threads and holds. */
struct group {
    const struct plan *plan;
    struct measured cells[NUMBERS_MAX];
    unsigned n_cells, n_threads;
    double hold_ms;
};

/* ---- the cells ----------------------------------------------------------------------------- */

static const struct grid small_grid = {
    .processes = {{2, 8, 200}, 3},
    .threads = {{1}, 1},
    .holds_ms = {{0.2, 20}, 2},
};

static const struct grid quick_grid = {
    .processes = {{2, 8, 10}, 3},
    .threads = {{2}, 1},
    .holds_ms = {{0.2}, 1},
};

static const struct grid whole_grid = {
    .processes = {{2, 3, 5, 8, 32, 100, 200}, 7},
    .threads = {{1, 2, 8}, 3},
    .holds_ms = {{0, 0.2, 5, 20, 200}, 5},
};

static struct grid choose_grid(const struct plan *plan)
{
    struct grid grid = plan->shrink > 1 ? quick_grid : small_grid;

    if (plan->grid.whole)
        grid = whole_grid;
    if (plan->grid.processes.n > 0)
        grid.processes = plan->grid.processes;
    if (plan->grid.threads.n > 0)
        grid.threads = plan->grid.threads;
    if (plan->grid.holds_ms.n > 0)
        grid.holds_ms = plan->grid.holds_ms;
    return grid;
}

static unsigned n_sides(const struct plan *plan)
{
    return plan->grid.against ? N_SIDES : OTHER;
}

/* Behind those of both sides: the other program may be too old to print it. */
static unsigned line_of_wait(const struct plan *plan)
{
    return n_sides(plan) * N_LINES;
}

static void add_lines(struct result *result, const struct plan *plan)
{
    for (unsigned side = OURS; side < n_sides(plan); side++)
        for (unsigned i = 0; i < N_LINES; i++)
            result_add_line(result, texts[side][i].id, texts[side][i].what, texts[side][i].unit);
    result_add_line(result, "longest_wait", "longest wait of a process, in turns", "rounds");
}

static void add_cell(struct group *group, struct report *report, unsigned n_processes)
{
    const struct plan *plan = group->plan;
    struct measured *measured = &group->cells[group->n_cells++];
    unsigned n_servers = plan->grid.n_servers;
    char lock[40] = "one lock", id[48], title[128];

    if (n_servers > 0)
        snprintf(lock, sizeof(lock), "a red lock on %u servers", n_servers);
    snprintf(id, sizeof(id), "contention_%s%u_%u_%g", n_servers > 0 ? "red_" : "", n_processes,
             group->n_threads, group->hold_ms);
    snprintf(title, sizeof(title), "%u processes x %u thread%s on %s, holds of %g ms", n_processes,
             group->n_threads, group->n_threads == 1 ? "" : "s", lock, group->hold_ms);
    *measured = (struct measured){
        .cell = {n_processes, group->n_threads, group->hold_ms, MIN_FACTOR * plan->seconds,
                 MAX_FACTOR * plan->seconds, n_servers},
        .result = report_add(report, id, title),
    };
    add_lines(measured->result, plan);
}

/* ---- runs ---------------------------------------------------------------------------------- */

static void run_side(const struct plan *plan, struct measured *measured, int side)
{
    const char *program = side == OURS ? SELF : plan->grid.against;
    double figures[CELL_FIGURES], *rounds = &measured->rounds[side];

    cell_ask(&measured->cell, program, plan->url, figures);
    for (unsigned i = 0; i < N_LINES; i++)
        series_add(&measured->result->lines[side * N_LINES + i].series, figures[i]);
    if (side == OURS)
        series_add(&measured->result->lines[line_of_wait(plan)].series, figures[CELL_LONGEST_WAIT]);
    if (*rounds == 0 || figures[CELL_ROUNDS] < *rounds)
        *rounds = figures[CELL_ROUNDS];
}

static void judge(const struct plan *plan, struct measured *measured)
{
    struct result *result = measured->result;
    const double *rounds = measured->rounds;
    char other[64] = "";

    if (rounds[OURS] >= SEEN_MIN) {
        result_add_limit(result, CELL_LEAST, AT_LEAST, 0.5);
        result_add_limit(result, line_of_wait(plan), AT_MOST, 4);
    }
    result_add_limit(result, CELL_SCRIPTS, AT_MOST,
                     plan->grid.n_servers > 0 ? 4 * plan->grid.n_servers : 4);
    if (plan->grid.against) {
        snprintf(other, sizeof(other), ", other %.1f", rounds[OTHER]);
        for (unsigned i = 0; i < N_LINES; i++)
            result_add_ratio(result, ratios[i], i, N_LINES + i, NO_TARGET, 0);
    }
    result_note(result, "fewest rounds in a run: %.1f%s%s", rounds[OURS], other,
                rounds[OURS] >= SEEN_MIN ? "" : "; too few to judge shares and waits");
}

static const struct measured *find_cell(const struct group *group, unsigned n_processes)
{
    for (unsigned i = 0; i < group->n_cells; i++)
        if (group->cells[i].cell.n_processes == n_processes)
            return &group->cells[i];
    return NULL;
}

/* The throughput of the most processes, beside that of eight. */
static void add_scaling(const struct group *group, struct report *report)
{
    const struct measured *few = find_cell(group, SCALE_FROM), *most = few;
    struct result *result;
    char id[32], title[96];

    for (unsigned i = 0; few && i < group->n_cells; i++)
        if (group->cells[i].cell.n_processes > most->cell.n_processes)
            most = &group->cells[i];
    if (most == few)
        return;
    snprintf(id, sizeof(id), "contention_scale_%u_%g", group->n_threads, group->hold_ms);
    snprintf(title, sizeof(title), "%u processes, and %d, x %u thread%s, holds of %g ms",
             most->cell.n_processes, SCALE_FROM, group->n_threads, group->n_threads == 1 ? "" : "s",
             group->hold_ms);
    result = report_add(report, id, title);
    *result_add_line(result, "most", "most processes", "acquisitions/s") =
        most->result->lines[CELL_PER_SECOND].series;
    *result_add_line(result, "few", "few processes", "acquisitions/s") =
        few->result->lines[CELL_PER_SECOND].series;
    result_add_ratio(result, "most / few", 0, 1, AT_LEAST, 0.5);
}

static void run_group(struct group *group, struct report *report, const struct numbers *processes)
{
    const struct plan *plan = group->plan;

    for (unsigned i = 0; i < processes->n; i++)
        add_cell(group, report, (unsigned)processes->at[i]);
    for (unsigned round = 0; round < plan->long_rounds; round++)
        for (unsigned i = 0; i < group->n_cells; i++)
            for (int side = OURS; side < (int)n_sides(plan); side++)
                run_side(plan, &group->cells[i], side);
    for (unsigned i = 0; i < group->n_cells; i++)
        judge(plan, &group->cells[i]);
    add_scaling(group, report);
    report_show(report);
}

void row_contention(const struct plan *plan, struct report *report)
{
    struct grid grid = choose_grid(plan);

    for (unsigned i = 0; i < grid.threads.n; i++) {
        for (unsigned j = 0; j < grid.holds_ms.n; j++) {
            struct group group = {.plan = plan,
                                  .n_threads = (unsigned)grid.threads.at[i],
                                  .hold_ms = grid.holds_ms.at[j]};

            run_group(&group, report, &grid.processes);
        }
    }
}
