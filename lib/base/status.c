#include "base/status.h"

#include <errno.h>
#include <string.h>

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

const char *relock_status_errno(int err)
{
    switch (err) {
    case EMFILE:
        return "this process has no file descriptor left: raise its limit (ulimit -n)";
    case ENFILE:
        return "the system has no file descriptor left: raise fs.file-max";
    default:
        return strerror(err);
    }
}

int relock_status_result(int err)
{
    return err == EPERM || err == EACCES || err == ENOSYS ? RELOCK_E_UNSUPPORTED : RELOCK_E_NOMEM;
}
