#include "base/sink.h"

#include "base/callback.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static const char *const level_names[] = {
    [RELOCK_LOG_ERROR] = "error",
    [RELOCK_LOG_WARNING] = "warning",
    [RELOCK_LOG_INFO] = "info",
    [RELOCK_LOG_DEBUG] = "debug",
};

/* Not through stdio: while this thread is blocked by a full pipe, it must not hold a lock of
 * stderr. */
static void write_to_stderr(const char *text, int left)
{
    while (left > 0) {
        ssize_t n = write(STDERR_FILENO, text, (size_t)left);

        if (n >= 0) {
            text += n;
            left -= (int)n;
        } else if (errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            return;
        }
    }
}

void relock_sink_write(const struct relock_sink *sink, const struct relock_record *record)
{
    if (sink->record || sink->log) {
        relock_callback_enter();
        if (sink->record)
            sink->record(record, sink->arg);
        else
            sink->log(record->level, record->text, sink->arg);
        relock_callback_leave();
    } else if (record->level <= RELOCK_LOG_WARNING) {
        char text[RELOCK_LINE_MAX + sizeof("relock: warning: \n")];

        write_to_stderr(text, snprintf(text, sizeof(text), "relock: %s: %s\n",
                                       level_names[record->level], record->text));
    }
}
