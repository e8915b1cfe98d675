/* Checks - what `relock doctor` looks at */
#ifndef RELOCK_TOOL_CHECKS_H
#define RELOCK_TOOL_CHECKS_H

#include "findings.h"

#include <relock.h>

/* Adds the findings about one server: a relock_servers_fn, for which `arg` is struct findings. */
bool checks_of_server(const struct relock_server_info *info, void *arg);

#endif
