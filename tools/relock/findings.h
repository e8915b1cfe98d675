/* Findings - what `relock doctor` has found: what is fine, what is not, and what to do */
#ifndef RELOCK_TOOL_FINDINGS_H
#define RELOCK_TOOL_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

enum finding_state { FINDING_OK, FINDING_NOTE, FINDING_BAD };

struct finding {
    enum finding_state state;
    char check[32];
    char text[400];
    char advice[240]; /* "": nothing to do */
};

struct findings {
    struct finding *all;
    size_t n, size;
};

/* Adds one. `advice` may be NULL. */
void findings_add(struct findings *findings, enum finding_state state, const char *check,
                  const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Prints them and returns the exit status: STATUS_NO if one is bad. */
int findings_print(const struct findings *findings, bool is_json);

void findings_free(struct findings *findings);

#endif
