/*
 * Many processes want one lock: cells of so many processes, threads of each, and holds of so many
 * milliseconds (cell.h). Cells with the same threads and holds take turns, and so do this library
 * and the one of `--against`. Each cell runs in a program of its own. With `--servers` the lock is
 * a red lock. With `--cluster` it is in a cluster, and a server, also reached over TCP, takes turns
 * with that.
 *
 * The longest gap between two acquisitions of a process is counted twice: in acquisitions of
 * others, and in their turns. With one thread per process this is the same. With several, a process
 * hands the lock off among its threads for `handoff_ms`, so one turn has many acquisitions. The
 * longest wait is the longest part of a gap in which a call of the process waited, in turns. Only
 * it has a target: turns.h says why.
 */
#include "cell.h"
#include "rows.h"
#include "support/cluster.h"

#define SELF "/proc/self/exe"

/* In units of plan->seconds. */
#define MIN_FACTOR 4
#define MAX_FACTOR 60

#define ROUNDS 10
#define SEEN_MIN 4 /* rounds; fewer say nothing about shares and waits */

#define SCALE_FROM 8
#define SCALE_TO 100

/* This library, that of the other program, and this one at one server beside the cluster. */
enum { OURS, OTHER, ONE, N_SIDES };

#define N_LINES (CELL_WAIT_US + 1) /* of one side */

#define TEXTS(id, who)                                                                 \
    {                                                                                  \
        {id "least", who "acquisitions of the least-served process", "equal shares"},  \
            {id "longest", who "longest gap of a process, in acquisitions", "rounds"}, \
            {id "longest_turns", who "longest gap of a process, in turns", "rounds"},  \
            {id "scripts", who "EVALSHA for each acquisition", "commands"},            \
            {id "publishes", who "PUBLISH for each acquisition", "commands"},          \
            {id "rate", who "all processes together", "acquisitions/s"},               \
            {id "longest_wait", who "longest wait of a process, in turns", "rounds"},  \
            {id "wait_p999", who "wait of a call, p99.9", "us"},                       \
    }

static const struct text {
    const char *id, *what, *unit;
} texts[N_SIDES][N_LINES] = {
    [OURS] = TEXTS("", ""),
    [OTHER] = TEXTS("other_", "other: "),
    [ONE] = TEXTS("one_", "one server: "),
};

static const char *const ratios[N_LINES] = {
    "least-served process: this / other",
    "longest gap, in acquisitions: this / other",
    "longest gap, in turns: this / other",
    "EVALSHA: this / other",
    "PUBLISH: this / other",
    "acquisitions/s: this / other",
    "longest wait: this / other",
    "wait of a call, p99.9: this / other",
};

/* A cell, and what it has shown so far. */
struct measured {
    struct cell cell;
    struct result *result;
    double rounds[N_SIDES]; /* in the run that saw the fewest; 0: none yet */
    bool is_left_out;
};

/* Cells with the same threads and holds. */
struct group {
    const struct plan *plan;
    const char *programs[N_SIDES], *urls[N_SIDES]; /* NULL: the side is not measured */
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

static const struct grid cluster_grid = {
    .processes = {{2, 8, 32, 100, 200}, 5},
    .threads = {{1}, 1},
    .holds_ms = {{0.2, 5, 20}, 3},
};

static const struct grid whole_grid = {
    .processes = {{2, 3, 5, 8, 32, 100, 200}, 7},
    .threads = {{1, 2, 8}, 3},
    .holds_ms = {{0, 0.2, 5, 20, 200}, 5},
};

static struct grid choose_grid(const struct plan *plan)
{
    struct grid grid = plan->cluster ? cluster_grid : small_grid;

    if (plan->shrink > 1)
        grid = quick_grid;
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

/* The lines of a side that is measured come after those of the sides before it. */
static unsigned lines_of(const struct group *group, int side)
{
    unsigned first = 0;

    for (int i = 0; i < side; i++)
        first += group->programs[i] ? N_LINES : 0;
    return first;
}

static void add_lines(const struct group *group, struct result *result)
{
    for (int side = OURS; side < N_SIDES; side++)
        for (unsigned i = 0; i < N_LINES && group->programs[side]; i++)
            result_add_line(result, texts[side][i].id, texts[side][i].what, texts[side][i].unit);
}

static void name_lock(const struct plan *plan, char id[16], char lock[40])
{
    snprintf(id, 16, "%s", plan->cluster ? "cluster_" : "");
    snprintf(lock, 40, "one lock%s", plan->cluster ? " in a cluster" : "");
    if (plan->grid.n_servers == 0)
        return;
    snprintf(id, 16, "red_");
    snprintf(lock, 40, "a red lock on %u servers", plan->grid.n_servers);
}

static void add_cell(struct group *group, struct report *report, unsigned n_processes)
{
    const struct plan *plan = group->plan;
    struct measured *measured = &group->cells[group->n_cells++];
    char lock[40], what[16], id[64], title[128];

    name_lock(plan, what, lock);
    snprintf(id, sizeof(id), "contention_%s%u_%u_%g", what, n_processes, group->n_threads,
             group->hold_ms);
    snprintf(title, sizeof(title), "%u processes x %u thread%s on %s, holds of %g ms", n_processes,
             group->n_threads, group->n_threads == 1 ? "" : "s", lock, group->hold_ms);
    *measured = (struct measured){
        .cell = {n_processes, group->n_threads, group->hold_ms, MIN_FACTOR * plan->seconds,
                 MAX_FACTOR * plan->seconds,
                 plan->grid.min_rounds > 0 ? plan->grid.min_rounds : ROUNDS, plan->grid.n_servers},
        .result = report_add(report, id, title),
    };
    add_lines(group, measured->result);
}

/* ---- cells with too few rounds -------------------------------------------------------------- */

static void leave_out(const struct plan *plan, struct measured *measured, double rounds,
                      const char *how)
{
    measured->is_left_out = true;
    measured->result->n_lines = 0;
    result_note(measured->result, "left out, because it had %s%.1f of %u rounds in %g s", how,
                rounds, plan->grid.min_rounds, measured->cell.max_s);
}

/* A lock that is held for so long cannot go round often enough. */
static void leave_out_long_holds(const struct plan *plan, struct measured *measured)
{
    const struct cell *cell = &measured->cell;
    double round_s = cell->n_processes * cell->hold_ms / 1000;

    if (plan->grid.min_rounds * round_s > cell->max_s)
        leave_out(plan, measured, cell->max_s / round_s, "at most ");
}

/* ---- runs ---------------------------------------------------------------------------------- */

static void run_side(const struct group *group, struct measured *measured, int side)
{
    double figures[CELL_FIGURES], *rounds = &measured->rounds[side];
    struct line *lines = &measured->result->lines[lines_of(group, side)];

    cell_ask(&measured->cell, group->programs[side], group->urls[side], figures);
    for (unsigned i = 0; i < N_LINES; i++)
        series_add(&lines[i].series, figures[i]);
    if (*rounds == 0 || figures[CELL_ROUNDS] < *rounds)
        *rounds = figures[CELL_ROUNDS];
    if (side != OTHER && *rounds < group->plan->grid.min_rounds)
        leave_out(group->plan, measured, *rounds, "");
}

static void run_sides(const struct group *group, struct measured *measured)
{
    for (int side = OURS; side < N_SIDES && !measured->is_left_out; side++)
        if (group->programs[side])
            run_side(group, measured, side);
}

static void compare(const struct group *group, struct measured *measured)
{
    struct result *result = measured->result;
    unsigned other = lines_of(group, OTHER), one = lines_of(group, ONE);
    bool is_scaled = group->plan->cluster && measured->cell.n_processes == SCALE_TO;

    for (unsigned i = 0; i < N_LINES && group->programs[OTHER]; i++)
        result_add_ratio(result, ratios[i], i, other + i,
                         i == CELL_PER_SECOND && is_scaled ? AT_LEAST : NO_TARGET, 4);
    if (!group->programs[ONE])
        return;
    result_add_ratio(result, "wait of a call, p99.9: cluster / one server", CELL_WAIT_US,
                     one + CELL_WAIT_US, AT_MOST, 1.5);
    result_add_ratio(result, "acquisitions/s: cluster / one server", CELL_PER_SECOND,
                     one + CELL_PER_SECOND, NO_TARGET, 0);
}

static void judge(const struct group *group, struct measured *measured)
{
    const struct plan *plan = group->plan;
    struct result *result = measured->result;
    const double *rounds = measured->rounds;
    char other[64] = "";

    if (rounds[OURS] >= SEEN_MIN) {
        result_add_limit(result, CELL_LEAST, AT_LEAST, 0.5);
        result_add_limit(result, CELL_LONGEST_WAIT, AT_MOST, 4);
    }
    result_add_limit(result, CELL_SCRIPTS, AT_MOST,
                     plan->grid.n_servers > 0 ? 4 * plan->grid.n_servers : 4);
    compare(group, measured);
    if (group->programs[OTHER])
        snprintf(other, sizeof(other), ", other %.1f", rounds[OTHER]);
    result_note(result, "fewest rounds in a run: %.1f%s%s", rounds[OURS], other,
                rounds[OURS] >= SEEN_MIN ? "" : "; too few to judge shares and waits");
}

static const struct measured *find_cell(const struct group *group, unsigned n_processes)
{
    for (unsigned i = 0; i < group->n_cells; i++)
        if (group->cells[i].cell.n_processes == n_processes && !group->cells[i].is_left_out)
            return &group->cells[i];
    return NULL;
}

/* A hundred processes, or the most that were measured. */
static const struct measured *find_many(const struct group *group)
{
    const struct measured *most = find_cell(group, SCALE_TO);

    for (unsigned i = 0; i < group->n_cells && !find_cell(group, SCALE_TO); i++)
        if (!group->cells[i].is_left_out &&
            (!most || group->cells[i].cell.n_processes > most->cell.n_processes))
            most = &group->cells[i];
    return most;
}

/* The throughput of many processes, beside that of eight. */
static void add_scaling(const struct group *group, struct report *report)
{
    const struct measured *few = find_cell(group, SCALE_FROM), *many = find_many(group);
    struct result *result;
    char what[16], lock[40], id[48], title[128];

    if (!few || many->cell.n_processes <= SCALE_FROM)
        return;
    name_lock(group->plan, what, lock);
    snprintf(id, sizeof(id), "contention_%sscale_%u_%g", what, group->n_threads, group->hold_ms);
    snprintf(title, sizeof(title), "%u processes, and %d, x %u thread%s on %s, holds of %g ms",
             many->cell.n_processes, SCALE_FROM, group->n_threads, group->n_threads == 1 ? "" : "s",
             lock, group->hold_ms);
    result = report_add(report, id, title);
    *result_add_line(result, "most", "most processes", "acquisitions/s") =
        many->result->lines[CELL_PER_SECOND].series;
    *result_add_line(result, "few", "few processes", "acquisitions/s") =
        few->result->lines[CELL_PER_SECOND].series;
    result_add_ratio(result, "most / few", 0, 1, AT_LEAST, 0.5);
}

static void run_group(struct group *group, struct report *report, const struct numbers *processes)
{
    const struct plan *plan = group->plan;

    for (unsigned i = 0; i < processes->n; i++) {
        add_cell(group, report, (unsigned)processes->at[i]);
        leave_out_long_holds(plan, &group->cells[i]);
    }
    for (unsigned round = 0; round < plan->long_rounds; round++)
        for (unsigned i = 0; i < group->n_cells; i++)
            run_sides(group, &group->cells[i]);
    for (unsigned i = 0; i < group->n_cells; i++)
        if (!group->cells[i].is_left_out)
            judge(group, &group->cells[i]);
    add_scaling(group, report);
    report_show(report);
}

static void run_grid(const struct group *sides, struct report *report)
{
    struct grid grid = choose_grid(sides->plan);

    for (unsigned i = 0; i < grid.threads.n; i++) {
        for (unsigned j = 0; j < grid.holds_ms.n; j++) {
            struct group group = *sides;

            group.n_threads = (unsigned)grid.threads.at[i];
            group.hold_ms = grid.holds_ms.at[j];
            run_group(&group, report, &grid.processes);
        }
    }
}

void row_contention(const struct plan *plan, struct report *report)
{
    struct group sides = {
        .plan = plan,
        .programs = {[OURS] = SELF, [OTHER] = plan->grid.against},
        .urls = {[OURS] = plan_url(plan), [OTHER] = plan_url(plan)},
    };
    struct server *one = NULL;

    if (plan->cluster) {
        one = server_start(&(struct server_options){.tcp = true});
        sides.programs[ONE] = SELF;
        sides.urls[ONE] = one->tcp_url;
    }
    run_grid(&sides, report);
    server_stop(one);
}
