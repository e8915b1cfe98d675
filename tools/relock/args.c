#include "args.h"

#include "statuses.h"
#include "text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS UINT64_C(86400000)
#define TEN_YEARS_MS (3650 * DAY_MS)

void args_refuse(const struct args *args, const char *format, ...)
{
    const char *name = args->command->name;
    char *text;
    va_list list;

    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    (void)fprintf(stderr, "relock %s: ", name);
    text_print(stderr, text ? text : format);
    (void)fprintf(stderr, "; see `relock %s --help`\n", name);
    free(text);
    exit(STATUS_FAILED);
}

void args_take(struct args *args, int letter)
{
    switch (letter) {
    case 'u':
        args->url = optarg;
        break;
    case 'v':
        args->is_verbose = true;
        break;
    case ARGS_PASSWORD_FILE:
        args->password_file = optarg;
        break;
    case ARGS_JSON:
        args->is_json = true;
        break;
    case 'h':
        (void)fputs(args->command->help, stdout);
        exit(STATUS_OK);
    default: /* getopt_long() has said what is wrong */
        (void)fprintf(stderr, "see `relock %s --help`\n", args->command->name);
        exit(STATUS_FAILED);
    }
}

const char *args_name(const struct args *args, const char *text)
{
    if (!*text || strlen(text) > ARGS_NAME_MAX)
        args_refuse(args, "the name of a lock has 1 to %d bytes", ARGS_NAME_MAX);
    return text;
}

const char *args_pattern(const struct args *args, char *const *words)
{
    if (words[0] && words[1])
        args_refuse(args, "one pattern at most");
    if (words[0] && !*words[0])
        args_refuse(args, "the pattern is empty; without one, all locks are shown");
    return words[0] ? words[0] : "*";
}

uint64_t args_duration(const struct args *args, const char *option, const char *text)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    char *end = NULL;
    uint64_t number = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;

    for (size_t i = 0; end && i < sizeof(units) / sizeof(*units); i++)
        if (strcmp(end, units[i].name) == 0 && number <= TEN_YEARS_MS / units[i].ms)
            return number * units[i].ms;
    args_refuse(args, "%s: `%s` is no time up to ten years, such as 500ms, 30s, 5m, 2h or 1d",
                option, text);
}

unsigned args_number(const struct args *args, const char *option, const char *text, unsigned most)
{
    char *end = NULL;
    unsigned long number = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;

    if (!end || *end || number > most)
        args_refuse(args, "%s: `%s` is no number up to %u", option, text, most);
    return (unsigned)number;
}

int args_interval(const struct args *args, const char *option, const char *text)
{
    uint64_t ms = args_duration(args, option, text);

    if (ms < 1 || ms > DAY_MS)
        args_refuse(args, "%s: `%s` is not between 1ms and 1d", option, text);
    return (int)ms;
}
