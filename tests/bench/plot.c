#include "plot.h"

#include "machine.h"
#include "report.h"

#include <math.h>
#include <string.h>

/* Two panels side by side, in the units of the picture. */
#define WIDTH 940
#define HEIGHT 400
#define PANEL_WIDTH 360
#define PANEL_HEIGHT 260
#define PANEL_TOP 70
#define PANEL_LEFT(number) (70 + (number)*460)
#define PANEL_BOTTOM (PANEL_TOP + PANEL_HEIGHT)

#define POINTS_MAX 16

struct point {
    unsigned n_threads;
    const struct result *result;
};

struct panel {
    FILE *out;
    const struct point *points;
    unsigned n_points;
    double left;
    double low, high; /* of the y axis */
    bool logarithmic;
};

static const struct curve {
    const char *colour, *name;
} curves[] = {
    {"#0b62c4", "relock"},
    {"#b5541c", "bare hiredis, a connection each"},
};

static double median_of(const struct point *point, const char *line_id)
{
    const struct line *line = result_line(point->result, line_id);

    return line ? series_summary(&line->series).median : 0;
}

/* The numbers of threads are powers of 2, equally spaced. */
static double x_of(const struct panel *panel, unsigned i)
{
    return panel->left +
           (panel->n_points > 1 ? PANEL_WIDTH * (double)i / (panel->n_points - 1) : 0);
}

static double y_of(const struct panel *panel, double value)
{
    double part = panel->logarithmic ? log(value / panel->low) / log(panel->high / panel->low)
                                     : (value - panel->low) / (panel->high - panel->low);

    return PANEL_BOTTOM - (PANEL_HEIGHT * part);
}

static void find_range(struct panel *panel, const char *const ids[2])
{
    double least = INFINITY, most = 0;

    for (unsigned i = 0; i < panel->n_points; i++) {
        for (unsigned j = 0; j < 2; j++) {
            double value = median_of(&panel->points[i], ids[j]);

            least = fmin(least, value);
            most = fmax(most, value);
        }
    }
    if (panel->logarithmic) {
        panel->low = pow(10, floor(log10(least)));
        panel->high = pow(10, ceil(log10(most * 1.01)));
    } else {
        double step = pow(10, floor(log10(most)));

        panel->high = ceil(most / step) * step;
    }
}

static void draw_text(FILE *out, double x, double y, const char *anchor, const char *text)
{
    fprintf(out, "<text x='%.1f' y='%.1f' text-anchor='%s'>", x, y, anchor);
    for (; *text; text++)
        if (strchr("<>&", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    fputs("</text>\n", out);
}

static void draw_grid_line(const struct panel *panel, double value)
{
    double y = y_of(panel, value);
    char label[32];

    fprintf(panel->out, "<path d='M%.1f %.1fh%d' stroke='#ddd'/>\n", panel->left, y, PANEL_WIDTH);
    snprintf(label, sizeof(label), "%.0f", value);
    draw_text(panel->out, panel->left - 6, y + 4, "end", label);
}

static void draw_axes(const struct panel *panel, const char *title)
{
    if (panel->logarithmic)
        for (double value = panel->low; value <= panel->high * 1.01; value *= 10)
            draw_grid_line(panel, value);
    else
        for (int i = 0; i <= 4; i++)
            draw_grid_line(panel, panel->high * i / 4);
    for (unsigned i = 0; i < panel->n_points; i++) {
        char label[16];

        snprintf(label, sizeof(label), "%u", panel->points[i].n_threads);
        draw_text(panel->out, x_of(panel, i), PANEL_BOTTOM + 18, "middle", label);
    }
    draw_text(panel->out, panel->left + PANEL_WIDTH / 2.0, PANEL_BOTTOM + 36, "middle",
              "threads, a lock each");
    draw_text(panel->out, panel->left, PANEL_TOP - 12, "start", title);
}

static void draw_curve(const struct panel *panel, const char *line_id, const char *colour)
{
    fprintf(panel->out, "<polyline fill='none' stroke='%s' stroke-width='2' points='", colour);
    for (unsigned i = 0; i < panel->n_points; i++)
        fprintf(panel->out, "%.1f,%.1f ", x_of(panel, i),
                y_of(panel, median_of(&panel->points[i], line_id)));
    fputs("'/>\n", panel->out);
    for (unsigned i = 0; i < panel->n_points; i++)
        fprintf(panel->out, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>\n", x_of(panel, i),
                y_of(panel, median_of(&panel->points[i], line_id)), colour);
}

static void draw_panel(struct panel panel, const char *title, const char *const ids[2])
{
    find_range(&panel, ids);
    draw_axes(&panel, title);
    for (unsigned i = 0; i < 2; i++)
        draw_curve(&panel, ids[i], curves[i].colour);
}

static void draw_legend(FILE *out, const struct machine *machine)
{
    char text[512];

    for (unsigned i = 0; i < 2; i++) {
        double x = PANEL_LEFT(0) + i * 100;

        fprintf(out, "<path d='M%.1f 20h24' stroke='%s' stroke-width='2'/>\n", x, curves[i].colour);
        draw_text(out, x + 30, 24, "start", curves[i].name);
    }
    snprintf(text, sizeof(text), "%s, %u cores; %s, %s, hiredis %s", machine->date,
             machine->n_cores, machine->cpu, machine->server, machine->hiredis);
    draw_text(out, PANEL_LEFT(0), HEIGHT - 12, "start", text);
}

static unsigned find_points(const struct report *report, struct point *points)
{
    unsigned n = 0;

    for (unsigned i = 0; i < report->n_results && n < POINTS_MAX; i++)
        if (sscanf(report->results[i].id, PLOT_ROW "_%u", &points[n].n_threads) == 1)
            points[n++].result = &report->results[i];
    return n;
}

void plot_threads(const struct report *report, const struct machine *machine, const char *path)
{
    static const char *const rates[2] = {"relock", "bare"};
    static const char *const times[2] = {"relock_p50", "bare_p50"};
    struct point points[POINTS_MAX];
    unsigned n_points = find_points(report, points);
    FILE *out;

    out = fopen(path, "w");
    if (!out)
        die("%s cannot be written", path);
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
            "font-size='12'>\n<rect width='%d' height='%d' fill='#fff'/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_legend(out, machine);
    draw_panel((struct panel){out, points, n_points, PANEL_LEFT(0), 0, 0, false},
               "lock+unlock pairs per second, all threads", rates);
    draw_panel((struct panel){out, points, n_points, PANEL_LEFT(1), 0, 0, true},
               "p50 of a lock+unlock, microseconds", times);
    fputs("</svg>\n", out);
    if (fclose(out) != 0)
        die("%s cannot be written", path);
}
