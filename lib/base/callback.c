#include "base/callback.h"

static _Thread_local unsigned depth;

void relock_callback_enter(void)
{
    depth++;
}

void relock_callback_leave(void)
{
    depth--;
}

bool relock_callback_is_inside(void)
{
    return depth > 0;
}
