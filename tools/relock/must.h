/* Must - memory, or the end of the tool */
#ifndef RELOCK_TOOL_MUST_H
#define RELOCK_TOOL_MUST_H

#include <stdio.h>
#include <stdlib.h>

static inline void *must(void *memory)
{
    if (memory)
        return memory;
    (void)fputs("relock: out of memory\n", stderr);
    abort();
}

#endif
