#include "base/log.h"

#include "base/callback.h"
#include "base/thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 1024

static const char *const level_names[] = {
    [RELOCK_LOG_ERROR] = "error",
    [RELOCK_LOG_WARNING] = "warning",
    [RELOCK_LOG_INFO] = "info",
    [RELOCK_LOG_DEBUG] = "debug",
};

/* A line break from a server text, which may repeat a name, must not begin a line of its own; nor
 * must what is one, or a command to a terminal, in some encoding beyond ASCII. */
static void make_one_line(char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c == 0x7f)
            *text = ' ';
        else if (c > 0x7f)
            *text = '?';
    }
}

static void write_line(const struct relock_log *log, int level, const char *line)
{
    int cancel = relock_thread_hold_cancel();

    if (log->sink) {
        relock_callback_enter();
        log->sink(level, line, log->arg);
        relock_callback_leave();
    } else if (level <= RELOCK_LOG_WARNING) {
        (void)fprintf(stderr, "relock: %s: %s\n", level_names[level], line);
    }
    relock_thread_allow_cancel(cancel);
}

void relock_log_write(const struct relock_log *log, int level, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    if (level > log->level)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    make_one_line(line);
    write_line(log, level, line);
}

const char *relock_log_name(const char *name, char out[RELOCK_LOG_NAME_MAX])
{
    static const char hex[] = "0123456789abcdef";
    const size_t room = RELOCK_LOG_NAME_MAX - sizeof("\\xff...");
    size_t n = 0;

    for (; *name && n < room; name++) {
        unsigned char c = (unsigned char)*name;

        if (c >= 0x20 && c < 0x7f && c != '\\') {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '\\';
        if (c == '\\') {
            out[n++] = '\\';
            continue;
        }
        out[n++] = 'x';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    (void)snprintf(out + n, RELOCK_LOG_NAME_MAX - n, "%s", *name ? "..." : "");
    return out;
}
