#include "base/log.h"

#include "base/private.h"
#include "base/thread.h"

#include <stdarg.h>
#include <stdio.h>

/* The remaining room is for the note that a line stands for several. */
#define TEXT_MAX (RELOCK_LINE_MAX - 64)

/* A server error may repeat a lock name. A line break in it must not begin a line of its own. Nor
 * may bytes beyond ASCII: some encodings read them as a line break or as a terminal command. */
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

static bool is_wanted(const struct relock_log *log, int level)
{
    return level <= log->level && (log->sink || log->on_record || level <= RELOCK_LOG_WARNING);
}

__attribute__((format(printf, 5, 0))) static void
write_about(const struct relock_log *log, struct relock_cause cause,
            const struct relock_subject *subject, int level, const char *format, va_list args)
{
    struct relock_thread_state thread;
    char line[TEXT_MAX];
    struct relock_record record = {
        .level = level,
        .text = line,
        .lock = subject->lock,
        .owner = subject->owner,
        .result = subject->result,
    };

    if (!is_wanted(log, level))
        return;
    relock_thread_enter(&thread);
    if (!cause.what)
        cause.what = format;
    (void)vsnprintf(line, sizeof(line), format, args);
    make_one_line(line);
    if (log->logger)
        relock_logger_put(log->logger, cause, &record);
    else
        relock_sink_write(&(struct relock_sink){log->sink, log->on_record, log->arg}, &record);
    relock_thread_restore(&thread);
}

void relock_log_cause(const struct relock_log *log, struct relock_cause cause, int level,
                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_about(log, cause, &(struct relock_subject){0}, level, format, args);
    va_end(args);
}

void relock_log_about(const struct relock_log *log, struct relock_cause cause,
                      const struct relock_subject *subject, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_about(log, cause, subject, RELOCK_LOG_WARNING, format, args);
    va_end(args);
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
