#include "findings.h"

#include "must.h"
#include "report.h"
#include "statuses.h"
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const words[] = {"ok", "note", "bad"};

void findings_add(struct findings *findings, enum finding_state state, const char *check,
                  const char *advice, const char *format, ...)
{
    struct finding *finding;
    va_list list;

    if (findings->n == findings->size) {
        findings->size = findings->size ? 2 * findings->size : 32;
        findings->all = must(realloc(findings->all, findings->size * sizeof(*findings->all)));
    }
    finding = &findings->all[findings->n++];
    finding->state = state;
    (void)snprintf(finding->check, sizeof(finding->check), "%s", check);
    (void)snprintf(finding->advice, sizeof(finding->advice), "%s", advice ? advice : "");
    va_start(list, format);
    (void)vsnprintf(finding->text, sizeof(finding->text), format, list);
    va_end(list);
}

void findings_free(struct findings *findings)
{
    free(findings->all);
    *findings = (struct findings){0};
}

static void print_for_people(const struct findings *findings)
{
    static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
    bool is_coloured = report_has_colours();

    for (size_t i = 0; i < findings->n; i++) {
        const struct finding *finding = &findings->all[i];
        char *text = text_escape(finding->text);

        (void)printf("%s%-4s%s  %-13s  %s\n", is_coloured ? colours[finding->state] : "",
                     words[finding->state], is_coloured ? "\033[0m" : "", finding->check,
                     text ? text : "");
        if (*finding->advice)
            (void)printf("%*s-> %s\n", 21, "", finding->advice);
        free(text);
    }
}

static void print_json(const struct findings *findings)
{
    static const struct column columns[] = {{"STATE", "state"},
                                            {"CHECK", "check"},
                                            {"FINDING", "finding"},
                                            {"ADVICE", "advice"},
                                            {NULL, NULL}};
    struct report *report = report_new(columns, true);

    for (size_t i = 0; i < findings->n; i++) {
        report_text(report, words[findings->all[i].state], COLOUR_NONE);
        report_text(report, findings->all[i].check, COLOUR_NONE);
        report_text(report, findings->all[i].text, COLOUR_NONE);
        report_text(report, findings->all[i].advice, COLOUR_NONE);
    }
    (void)report_print(report, false);
    report_free(report);
}

int findings_print(const struct findings *findings, bool is_json)
{
    int status = STATUS_OK;

    for (size_t i = 0; i < findings->n; i++)
        if (findings->all[i].state == FINDING_BAD)
            status = STATUS_NO;
    if (is_json)
        print_json(findings);
    else
        print_for_people(findings);
    return status;
}
