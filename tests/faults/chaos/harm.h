/*
 * Harm - what a fault does to its place on the stage, and how it is undone
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_HARM_H
#define RELOCK_TEST_HARM_H

#include "stage.h"

/* Whether a server on which all workers depend is broken now. The move of a slot breaks none. */
bool harm_is_down(const struct stage *stage);

/* Whether the place is that of a server, and then which one. */
bool harm_is_server(const struct stage *stage, const struct stage_place *place);
size_t harm_server(const struct stage *stage, const struct stage_place *place);

void harm_begin(struct stage *stage, struct stage_place *place, const struct fault *fault);

/* Undoes the last fault of the place. */
void harm_mend(struct stage *stage, struct stage_place *place);

#endif
