#include "redis/server/private.h"
#include "redis/server/server.h"

#include <relock.h>

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_PORT 6379
#define SENTINEL_PORT 26379
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

static int refuse(const char **why, const char *what)
{
    *why = what;
    return RELOCK_E_INVALID;
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
            return refuse(why, "a % is not followed by two hex digits, or encodes NUL");
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

static int read_db(struct relock_url *url, const char *from, const char *to, const char **why)
{
    unsigned long db;

    if (!read_number(from, to, MAX_DB, &db))
        return refuse(why, "the database is not a number");
    url->db = (unsigned)db;
    return RELOCK_OK;
}

/* [?db=n] */
static int read_query(struct relock_url *url, const char *from, const char **why)
{
    if (*from == '\0')
        return RELOCK_OK;
    if (strncmp(from, "?db=", 4) == 0 && !strchr(from, '&'))
        return read_db(url, from + 4, from + strlen(from), why);
    return refuse(why, "the only option in such a url is ?db=n: give a user and a password by the "
                       "option user and the option password, and leave other options out");
}

/* [user]:password */
static int read_login(struct relock_url *url, const char *from, const char *to, const char **why)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    int r;

    if (!colon)
        return refuse(why, "the part before the @ must be user:password or :password");
    if (colon > from) {
        r = decode(from, colon, &url->user, why);
        if (r < 0)
            return r;
    }
    return decode(colon + 1, to, &url->password, why);
}

/* host[:port], the host in brackets when it has colons itself; `host->port` is the default */
static int read_host(const char *from, const char *to, struct relock_url_host *host,
                     const char **why)
{
    bool bracketed = from < to && *from == '[';
    const char *end = memchr(from, bracketed ? ']' : ':', (size_t)(to - from));
    const char *port;
    unsigned long number = host->port;

    if (!end)
        end = to;
    if (!bracketed && end < to && memchr(end + 1, ':', (size_t)(to - end - 1)))
        return refuse(why, "an address with colons (IPv6) must stand in brackets");
    port = bracketed ? end + 1 : end;
    if (bracketed)
        from++;
    if (end <= from || (bracketed && end == to))
        return refuse(why, "the host is missing");
    if (port < to && (*port != ':' || !read_number(port + 1, to, 65535, &number) || number == 0))
        return refuse(why, "the port is not a number from 1 to 65535");
    host->port = (uint16_t)number;
    host->name = strndup(from, (size_t)(end - from));
    return host->name ? RELOCK_OK : RELOCK_E_NOMEM;
}

/* Reads the login and moves `*rest` behind it. `end` is the end of the hosts. */
static int skip_login(struct relock_url *url, const char **rest, const char *end, const char **why)
{
    const char *at = memrchr(*rest, '@', (size_t)(end - *rest));
    int r;

    if (!at)
        return RELOCK_OK;
    r = read_login(url, *rest, at, why);
    *rest = at + 1;
    return r;
}

/* [/db] or [/][?db=n] */
static int read_end(struct relock_url *url, const char *end, const char **why)
{
    const char *db = *end == '/' ? end + 1 : end;
    const char *query = db + strcspn(db, "?#");
    int r = query > db ? read_db(url, db, query, why) : RELOCK_OK;

    if (r == RELOCK_OK && query > db && strncmp(query, "?db=", 4) == 0)
        return refuse(why, "it names the database twice");
    return r == RELOCK_OK ? read_query(url, query, why) : r;
}

static int parse_tcp(struct relock_url *url, const char *rest, const char **why)
{
    const char *end = rest + strcspn(rest, "/?#");
    struct relock_url_host host = {.port = DEFAULT_PORT};
    int r = skip_login(url, &rest, end, why);

    if (r == RELOCK_OK && memchr(rest, ',', (size_t)(end - rest)))
        return refuse(why, "several hosts need redis+sentinel://host,host/master-name or "
                           "redis+cluster://host,host");
    if (r == RELOCK_OK)
        r = read_host(rest, end, &host, why);
    if (r < 0)
        return r;
    url->host = host.name;
    url->port = host.port;
    return read_end(url, end, why);
}

/* host[:port][,host[:port]...] */
static int read_hosts(struct relock_url *url, const char *from, const char *to, uint16_t port,
                      const char **why)
{
    for (;;) {
        const char *comma = memchr(from, ',', (size_t)(to - from));
        struct relock_url_host *host = &url->hosts[url->n_hosts];
        int r;

        if (url->n_hosts == RELOCK_URL_HOSTS_MAX)
            return refuse(why, "it names more than 16 hosts");
        host->port = port;
        r = read_host(from, comma ? comma : to, host, why);
        if (r < 0)
            return r;
        url->n_hosts++;
        if (!comma)
            return RELOCK_OK;
        from = comma + 1;
    }
}

static int parse_sentinels(struct relock_url *url, const char *rest, const char **why)
{
    const char *end = rest + strcspn(rest, "/?#");
    const char *master = *end == '/' ? end + 1 : end;
    const char *master_end = master + strcspn(master, "/?#");
    int r = skip_login(url, &rest, end, why);

    if (r == RELOCK_OK)
        r = read_hosts(url, rest, end, SENTINEL_PORT, why);
    if (r < 0)
        return r;
    if (master_end == master)
        return refuse(why, "the sentinels must be followed by /master-name");
    r = decode(master, master_end, &url->master, why);
    return r < 0 ? r : read_end(url, master_end, why);
}

/* db=n or pubsub=auto|sharded|plain */
static int read_option(struct relock_url *url, const char *from, size_t len, const char **why)
{
    static const char *const names[] = {
        [RELOCK_URL_PUBSUB_AUTO] = "pubsub=auto",
        [RELOCK_URL_PUBSUB_SHARDED] = "pubsub=sharded",
        [RELOCK_URL_PUBSUB_PLAIN] = "pubsub=plain",
    };

    if (len > 3 && strncmp(from, "db=", 3) == 0)
        return read_db(url, from + 3, from + len, why);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (len == strlen(names[i]) && memcmp(from, names[i], len) == 0) {
            url->pubsub = (enum relock_url_pubsub)i;
            return RELOCK_OK;
        }
    }
    return refuse(why, "only ?db=n, ?pubsub=auto, sharded or plain, or both with & between them, "
                       "may follow the hosts of a cluster");
}

/* [/][db][?option[&option]] */
static int read_cluster_end(struct relock_url *url, const char *end, const char **why)
{
    const char *db = *end == '/' ? end + 1 : end;
    const char *at = db + strcspn(db, "?#");
    int r = at > db ? read_db(url, db, at, why) : RELOCK_OK;

    if (r == RELOCK_OK && at > db && strstr(at, "db="))
        return refuse(why, "it names the database twice");
    while (r == RELOCK_OK && *at) {
        const char *option = at + 1;

        at = option + strcspn(option, "&");
        r = read_option(url, option, (size_t)(at - option), why);
    }
    return r;
}

static int parse_cluster(struct relock_url *url, const char *rest, const char **why)
{
    const char *end = rest + strcspn(rest, "/?#");
    int r = skip_login(url, &rest, end, why);

    url->cluster = true;
    if (r == RELOCK_OK)
        r = read_hosts(url, rest, end, DEFAULT_PORT, why);
    return r < 0 ? r : read_cluster_end(url, end, why);
}

static int parse_unix(struct relock_url *url, const char *rest, const char **why)
{
    const char *end = rest + strcspn(rest, "?");
    int r;

    if (*rest != '/' || end - rest < 2)
        return refuse(
            why, "unix:// must be followed by an absolute path: give a user and a password by the "
                 "option user and the option password");
    r = decode(rest, end, &url->path, why);
    if (r < 0)
        return r;
    if (strlen(url->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return refuse(why, "the path is too long for a unix socket");
    return read_query(url, end, why);
}

/* Schemes have no case. */
static const char *after(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncasecmp(text, prefix, len) == 0 ? text + len : NULL;
}

/* ---- urls that are not ours ---------------------------------------------------------------- */

/* The forms that other clients and platforms use, and ours in their place. */
static const char *explain_scheme(const char *text)
{
    static const struct {
        const char *prefix, *why;
    } foreign[] = {
        {"redis-sentinel://", "use redis+sentinel://host:port/master-name"},
        {"rediss-sentinel://", "use rediss+sentinel://host:port/master-name"},
        {"redis-cluster://", "use redis+cluster://host:port"},
        {"rediss-cluster://", "use rediss+cluster://host:port"},
        {"redis-socket://", "use unix:///path"},
        {"redis+socket://", "use unix:///path"},
        {"redis+unix://", "use unix:///path"},
        {"redis+tls://", "use rediss://host:port"},
        {"redis+ssl://", "use rediss://host:port"},
        {"tls://", "use rediss://host:port"},
        {"ssl://", "use rediss://host:port"},
        {"tcp://", "use redis://host:port"},
        {"http://", "Redis does not speak HTTP: use redis://host:port"},
        {"https://", "Redis does not speak HTTP: use rediss://host:port"},
    };

    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
        if (after(text, foreign[i].prefix))
            return foreign[i].why;
    if (!strchr(text, '/') && strchr(text, ','))
        return "write host:port,password=p as redis://:p@host:port, with rediss:// for TLS";
    return "it must begin with redis://, rediss://, redis+sentinel://, redis+cluster:// or "
           "unix://, as in redis://host:port";
}

/* From a file or a variable. */
static bool is_wrapped(const char *text)
{
    static const char wrapping[] = " \t\r\n\"'`";

    return strchr(wrapping, *text) || strchr(wrapping, text[strlen(text) - 1]);
}

/* ---- the whole url ------------------------------------------------------------------------- */

/* `rest` follows redis, rediss, or what is the same. */
static int parse_hosts(struct relock_url *url, const char *rest, const char **why)
{
    static const struct {
        const char *form;
        int (*parse)(struct relock_url *url, const char *rest, const char **why);
    } forms[] = {
        {"://", parse_tcp},
        {"+sentinel://", parse_sentinels},
        {"+cluster://", parse_cluster},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        const char *begin = after(rest, forms[i].form);
        int r = begin ? forms[i].parse(url, begin, why) : RELOCK_OK;

        if (!begin)
            continue;
        if (r == RELOCK_E_INVALID && strchr(begin + strcspn(begin, "/?#"), '@'))
            *why = "a / ? or # in the user or the password must be written as %2F, %3F or %23";
        return r;
    }
    return RELOCK_E_INVALID;
}

static int parse(struct relock_url *url, const char *text, const char **why)
{
    const char *rest = after(text, "unix://");

    if (rest)
        return parse_unix(url, rest, why);
    rest = after(text, "redis");
    if (!rest)
        rest = after(text, "valkey");
    if (!rest)
        return RELOCK_E_INVALID;
    url->tls = *rest == 's' || *rest == 'S';
    return parse_hosts(url, url->tls ? rest + 1 : rest, why);
}

int relock_url_parse(struct relock_url *url, const char *text, const char **why)
{
    int r = RELOCK_E_INVALID;

    *url = (struct relock_url){0};
    if (*text == '\0') {
        *why = "it is empty";
    } else if (is_wrapped(text)) {
        *why = "it begins or ends with a blank, a line break or a quotation mark: remove that";
    } else {
        *why = explain_scheme(text);
        r = parse(url, text, why);
    }
    if (r < 0)
        relock_url_deinit(url);
    return r;
}

void relock_url_deinit(struct relock_url *url)
{
    for (unsigned i = 0; i < url->n_hosts; i++)
        free(url->hosts[i].name);
    free(url->host);
    free(url->path);
    free(url->master);
    free(url->user);
    free(url->password);
    *url = (struct relock_url){0};
}
