#include "redis/url.h"

#include <relock.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_PORT 6379
#define MAX_DB 999999999

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Copies [from, to) and decodes %xx. */
static int decode(const char *from, const char *to, char **out, const char **why)
{
    char *text = malloc((size_t)(to - from) + 1);
    size_t n = 0;

    if (!text)
        return RELOCK_E_NOMEM;
    while (from < to) {
        int high;
        int low;

        if (*from != '%') {
            text[n++] = *from++;
            continue;
        }
        high = to - from > 2 ? hex_digit(from[1]) : -1;
        low = to - from > 2 ? hex_digit(from[2]) : -1;
        if (high < 0 || low < 0 || high + low == 0) {
            free(text);
            *why = "a % is not followed by two hex digits, or encodes NUL";
            return RELOCK_E_INVALID;
        }
        text[n++] = (char)(high * 16 + low);
        from += 3;
    }
    text[n] = '\0';
    *out = text;
    return RELOCK_OK;
}

static bool read_number(const char *from, const char *to, unsigned long max, unsigned long *number)
{
    unsigned long n = 0;

    if (from == to)
        return false;
    for (; from < to; from++) {
        if (*from < '0' || *from > '9')
            return false;
        n = n * 10 + (unsigned long)(*from - '0');
        if (n > max)
            return false;
    }
    *number = n;
    return true;
}

static int read_db(struct relock_url *url, const char *from, const char **why)
{
    unsigned long db;

    if (!read_number(from, from + strlen(from), MAX_DB, &db)) {
        *why = "the database is not a number";
        return RELOCK_E_INVALID;
    }
    url->db = (unsigned)db;
    return RELOCK_OK;
}

/* [user]:password */
static int read_login(struct relock_url *url, const char *from, const char *to, const char **why)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    int r;

    if (!colon) {
        *why = "the part before the @ must be [user]:password";
        return RELOCK_E_INVALID;
    }
    if (colon > from) {
        r = decode(from, colon, &url->user, why);
        if (r < 0)
            return r;
    }
    return decode(colon + 1, to, &url->password, why);
}

/* host[:port], the host in brackets when it has colons itself */
static int read_address(struct relock_url *url, const char *from, const char *to, const char **why)
{
    bool bracketed = *from == '[';
    const char *host_end = from + strcspn(from, bracketed ? "]/?#" : ":/?#");
    const char *port = bracketed ? host_end + 1 : host_end;
    unsigned long number = DEFAULT_PORT;

    if (bracketed)
        from++;
    if (host_end <= from || host_end > to || (bracketed && *host_end != ']')) {
        *why = "the host is missing";
        return RELOCK_E_INVALID;
    }
    if (port < to && (*port != ':' || !read_number(port + 1, to, 65535, &number) || number == 0)) {
        *why = "the port is not a number from 1 to 65535";
        return RELOCK_E_INVALID;
    }
    url->port = (uint16_t)number;
    url->host = strndup(from, (size_t)(host_end - from));
    return url->host ? RELOCK_OK : RELOCK_E_NOMEM;
}

static int parse_tcp(struct relock_url *url, const char *rest, const char **why)
{
    const char *end = rest + strcspn(rest, "/?#");
    const char *at = memrchr(rest, '@', (size_t)(end - rest));
    int r;

    if (at) {
        r = read_login(url, rest, at, why);
        if (r < 0)
            return r;
        rest = at + 1;
    }
    r = read_address(url, rest, end, why);
    if (r < 0)
        return r;
    if (*end == '/' && end[1] != '\0')
        return read_db(url, end + 1, why);
    if (*end == '?' || *end == '#') {
        *why = "nothing may follow the database";
        return RELOCK_E_INVALID;
    }
    return RELOCK_OK;
}

static int parse_unix(struct relock_url *url, const char *rest, const char **why)
{
    const char *end = rest + strcspn(rest, "?");
    int r;

    if (*rest != '/' || end - rest < 2) {
        *why = "unix:// must be followed by an absolute path";
        return RELOCK_E_INVALID;
    }
    r = decode(rest, end, &url->path, why);
    if (r < 0)
        return r;
    if (strlen(url->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        *why = "the path is too long for a unix socket";
        return RELOCK_E_INVALID;
    }
    if (*end == '\0')
        return RELOCK_OK;
    if (strncmp(end, "?db=", 4) != 0) {
        *why = "only ?db=n may follow the path";
        return RELOCK_E_INVALID;
    }
    return read_db(url, end + 4, why);
}

static const char *after(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

int relock_url_parse(struct relock_url *url, const char *text, const char **why)
{
    const char *rest;
    int r;

    *url = (struct relock_url){0};
    *why = "";
    rest = after(text, "redis://");
    if (rest) {
        r = parse_tcp(url, rest, why);
    } else if ((rest = after(text, "rediss://"))) {
        url->tls = true;
        r = parse_tcp(url, rest, why);
    } else if ((rest = after(text, "unix://"))) {
        r = parse_unix(url, rest, why);
    } else if (after(text, "redis+sentinel://") || after(text, "redis+cluster://")) {
        *why = "this version does not support that scheme";
        r = RELOCK_E_UNSUPPORTED;
    } else {
        *why = "it must begin with redis://, rediss:// or unix://";
        r = RELOCK_E_INVALID;
    }
    if (r < 0)
        relock_url_deinit(url);
    return r;
}

void relock_url_deinit(struct relock_url *url)
{
    free(url->host);
    free(url->path);
    free(url->user);
    free(url->password);
    *url = (struct relock_url){0};
}
