#include <relock.h>

const char *relock_strerror(int result)
{
    switch (result) {
#define XX(name, value, text) \
    case RELOCK_##name:       \
        return text;
        RELOCK_STATUS_MAP(XX)
#undef XX
    default:
        return "unknown result";
    }
}
