#include "lines.h"

#include "faults.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static FILE *file;            /* the file that receives stderr */
static int before_file;       /* the former stderr */
static char text[256 * 1024]; /* the lines that were read */

void lines_write(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    fprintf(stderr, "relock: sink: %s\n", line);
}

void lines_begin(void)
{
    file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    before_file = dup(STDERR_FILENO);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
}

static const char *captured(void)
{
    ssize_t n = pread(fileno(file), text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void end_capture(void)
{
    captured();
    dup2(before_file, STDERR_FILENO);
    close(before_file);
    fclose(file);
    file = NULL;
}

static bool is_said(void *words)
{
    return strstr(captured(), words) != NULL;
}

bool lines_wait(const char *words)
{
    return wait_until(is_said, (void *)words, SOON_MS);
}

void lines_reset(void)
{
    if (!file)
        return;
    end_capture();
    fputs(text, stderr);
}

static bool begins_well(const char *line)
{
    static const char *const beginnings[] = {
        "relock: error: ", "relock: warning: ", "relock: sink: "};

    for (size_t i = 0; i < COUNT(beginnings); i++)
        if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static bool is_printable(const char *line)
{
    for (; *line; line++)
        if ((unsigned char)*line < 0x20 || (unsigned char)*line > 0x7e)
            return false;
    return true;
}

static bool holds_a_secret(const char *line)
{
    static const char *const secrets[] = {LINES_SECRET, LINES_SECRET_IN_URL, "s3cret", "wr0ng",
                                          "n3xt"};

    for (size_t i = 0; i < COUNT(secrets); i++)
        if (strstr(line, secrets[i]))
            return true;
    return false;
}

/* Lines about an ended thread, a held name or an unsubscribed channel name no owner. */
static bool has_owner(const char *line)
{
    return strstr(line, "owner ") || strstr(line, "handle") || strstr(line, "subscribed");
}

static bool is_wanted(const char *line, const char *words, bool about_lock)
{
    return strstr(line, words) && (!about_lock || (strstr(line, "orders") && has_owner(line)));
}

void lines_end(const char *what, const char *words, bool about_lock)
{
    bool found = false;

    end_capture();
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (!begins_well(line) || !is_printable(line) || holds_a_secret(line))
            fail_msg("%s: %s", what, line);
        found = found || is_wanted(line, words, about_lock);
    }
    if (!found)
        fail_msg("%s: no line says \"%s\"", what, words);
}
