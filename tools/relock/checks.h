/* Checks - what `relock doctor` looks at */
#ifndef RELOCK_TOOL_CHECKS_H
#define RELOCK_TOOL_CHECKS_H

#include "findings.h"

#include <relock.h>

/* Adds the findings about one server: a relock_servers_fn, for which `arg` is struct findings. */
bool checks_of_server(const struct relock_server_info *info, void *arg);

/*
 * Whether the user may use locks of each kind, by trying: `holder` acquires one, `waiter` waits for
 * it for a moment, and `holder` releases it. The names begin with `name`.
 */
void checks_of_kinds(struct relock_client *holder, struct relock_client *waiter, const char *name,
                     struct findings *findings);

#endif
