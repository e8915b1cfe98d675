/* The parts of a url that names one server, and invalid urls. */
#include "redis/server/private.h"
#include "urls.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define MAX_PATH (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

static const struct {
    const char *text;
    const char *host, *path, *user, *password;
    unsigned port, db;
    bool tls;
} good[] = {
    {"redis://h", .host = "h", .port = 6379},
    {"redis://h/", .host = "h", .port = 6379},
    {"redis://127.0.0.1:7000", .host = "127.0.0.1", .port = 7000},
    {"redis://redis.example.com:1/0", .host = "redis.example.com", .port = 1},
    {"redis://h:65535/15", .host = "h", .port = 65535, .db = 15},
    {"redis://h:06379/007", .host = "h", .port = 6379, .db = 7},
    {"redis://h/999999999", .host = "h", .port = 6379, .db = 999999999},
    {"redis://[::1]", .host = "::1", .port = 6379},
    {"redis://[fe80::1]:7000/3", .host = "fe80::1", .port = 7000, .db = 3},
    {"redis://:pw@h", .host = "h", .port = 6379, .password = "pw"},
    {"redis://u:pw@h:1/2", .host = "h", .port = 1, .user = "u", .password = "pw", .db = 2},
    {"redis://u:pw@[::1]:1", .host = "::1", .port = 1, .user = "u", .password = "pw"},
    {"redis://u%3a:%40%3A%2f%25%3f%23%20@h", .host = "h", .port = 6379,
     .user = "u:", .password = "@:/%?# "},
    {"redis://u:%c3%A9%01%7f@h", .host = "h", .port = 6379, .user = "u",
     .password = "\xc3\xa9\x01\x7f"},
    {"redis://u:p@s:s@h", .host = "h", .port = 6379, .user = "u", .password = "p@s:s"},
    {"rediss://h", .host = "h", .port = 6379, .tls = true},
    {"rediss://u:pw@[::1]:1/2", .host = "::1", .port = 1, .user = "u", .password = "pw", .db = 2,
     .tls = true},
    {"redis://h?db=1", .host = "h", .port = 6379, .db = 1},
    {"redis://u:pw@h:7/?db=3", .host = "h", .port = 7, .user = "u", .password = "pw", .db = 3},
    {"valkey://:pw@h/1", .host = "h", .port = 6379, .password = "pw", .db = 1},
    {"valkeys://h:7?db=2", .host = "h", .port = 7, .db = 2, .tls = true},
    {"REDIS://Host", .host = "Host", .port = 6379},
    {"RedisS://h", .host = "h", .port = 6379, .tls = true},
    {"Unix:///S", .path = "/S"},
    {"unix:///s", .path = "/s"},
    {"unix:///run/redis/redis.sock", .path = "/run/redis/redis.sock"},
    {"unix:///a%20b%25%3f", .path = "/a b%?"},
    {"unix:///s?db=0", .path = "/s"},
    {"unix:///s?db=12", .path = "/s", .db = 12},
};

static void every_part_of_a_url_is_read(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(good); i++) {
        struct relock_url url;
        const char *why;

        assert_int_equal(relock_url_parse(&url, good[i].text, &why), RELOCK_OK);
        assert_text(url.host, good[i].host);
        assert_text(url.path, good[i].path);
        assert_text(url.user, good[i].user);
        assert_text(url.password, good[i].password);
        assert_int_equal(url.port, good[i].port);
        assert_int_equal(url.db, good[i].db);
        assert_int_equal(url.tls, good[i].tls);
        relock_url_deinit(&url);
        assert_null(url.host);
    }
}

static const char *const invalid[] = {
    /* schemes */
    "",
    "h",
    "localhost:6379",
    "//h",
    "redis:",
    "redis:/h",
    "redis:h",
    "http://h",
    "redis",
    " redis://h",
    "unix:/tmp/s",
    "rediss:/h",
    "redisss://h",
    "rediss+unix:///s",
    "redissentinel://s/m",
    "valkeyss://h",
    "valkey",
    "unixs:///s",
    /* hosts */
    "redis://",
    "rediss://",
    "redis:///0",
    "redis://:6379",
    "redis://?db=1",
    "redis://[]",
    "redis://[]:1",
    "redis://[::1",
    "redis://[::1/0",
    "redis://[::1]x",
    "redis://::1",
    "redis://u:pw@",
    "redis://u:pw@/0",
    "redis://u:pw@:6379",
    /* ports */
    "redis://h:",
    "redis://h:/0",
    "redis://h:0",
    "redis://h:000",
    "redis://h:65536",
    "redis://h:99999999999999999999999",
    "redis://h:-1",
    "redis://h:+1",
    "redis://h: 1",
    "redis://h:1x",
    "redis://h:x",
    "redis://h:1:2",
    "redis://[::1]:",
    "redis://[::1]:0",
    "redis://[::1]:65536",
    "redis://[::1]:x",
    /* databases */
    "redis://h/x",
    "redis://h/-1",
    "redis://h/1/",
    "redis://h/1x",
    "redis://h/ 1",
    "redis://h//",
    "redis://h/1000000000",
    "redis://h/99999999999999999999999",
    "redis://h?",
    "redis://h?db=",
    "redis://h?db=x",
    "redis://h?DB=1",
    "redis://h?db=1#",
    "redis://h/?",
    "redis://h/1?",
    "redis://h/1?db=2",
    "redis://h/1?db=1",
    "redis://h/x?db=1",
    "redis://h#1",
    /* users and passwords */
    "redis://u@h",
    "redis://@h",
    "redis://u:%@h",
    "redis://u:%4@h",
    "redis://u:%4g@h",
    "redis://u:%zz@h",
    "redis://u:a%@h",
    "redis://u:%00@h",
    "redis://u:a%00b@h",
    "redis://%00:pw@h",
    /* unix sockets */
    "unix://",
    "unix:///",
    "unix://s",
    "unix://tmp/s",
    "unix://?db=1",
    "unix:///?db=1",
    "unix:///s?",
    "unix:///s?db",
    "unix:///s?db=",
    "unix:///s?db=x",
    "unix:///s?db=-1",
    "unix:///s?db=1&x=y",
    "unix:///s?x=1",
    "unix:///s?DB=1",
    "unix:///s%00",
    "unix:///s%2",
};

static void an_invalid_url_is_refused_with_a_reason(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(invalid); i++)
        assert_refused(invalid[i]);
}

/* Forms of other clients and platforms, and slips. The reason names the form to use. */
static void a_reason_names_the_form_to_use(void **state)
{
    static const struct {
        const char *text, *word;
    } urls[] = {
        {"redis://::1", "brackets"},
        {"redis://::1:6379/2", "brackets"},
        {"rediss://u:p@fd00::2:6379", "brackets"},
        {"redis+sentinel://s1,fd00::2/shop", "brackets"},
        {"redis+cluster://fd00::2:7000,n2", "brackets"},
        {"redis://h:7000,h:7001", "several hosts need redis+sentinel://"},
        {"rediss://:a,b@h:7000,h:7001/0", "redis+cluster://"},
        {"redis://u:p/ss@h:6379", "%2F"},
        {"redis://u:1/ss@h:6379", "%2F"},
        {"redis://:p#ss@h", "%23"},
        {"redis://:p?ss@h/1", "%3F"},
        {"redis+sentinel://:p/ss@s1,s2/m", "%2F"},
        {"redis+cluster://:1/ss@n1", "%2F"},
        {"redis://u:p%ss@h", "two hex digits"},
        {"redis://u@h", ":password"},
        {"redis://h/0?timeout=5s", "?db=n"},
        {"redis://h:1?skipVerify=true", "?db=n"},
        {"redis://h?db=1&protocol=3", "leave other options out"},
        {"unix:///s?db=2&username=u&password=p", "the option password"},
        {"unix://u:p@/s", "the option password"},
        {"redis://h/1?db=2", "twice"},
        {"redis+cluster://h/1?db=2", "twice"},
        {"redis+cluster://h/x", "not a number"},
        {"redis+cluster://h?timeout=1", "?pubsub=auto"},
        {"redis-sentinel://s/m", "redis+sentinel://host:port/master-name"},
        {"redis-cluster://h", "redis+cluster://"},
        {"redis-socket:///s", "unix:///path"},
        {"redis+socket:///s", "unix:///path"},
        {"redis+unix:///s", "unix:///path"},
        {"redis+tls://h", "rediss://"},
        {"tls://h", "rediss://"},
        {"TCP://h", "use redis://"},
        {"http://h", "HTTP"},
        {"h:6380,password=x,ssl=True,abortConnect=False", "redis://:p@host:port"},
        {"h:6379", "as in redis://host:port"},
        {"", "empty"},
        {" redis://h", "line break"},
        {"redis://h\n", "line break"},
        {"redis://h\r\n", "line break"},
        {"\"redis://h\"", "quotation mark"},
        {"'redis://h'", "quotation mark"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(urls); i++) {
        struct relock_url url;
        const char *why = "";

        assert_int_equal(relock_url_parse(&url, urls[i].text, &why), RELOCK_E_INVALID);
        if (!strstr(why, urls[i].word))
            fail_msg("%s: %s", urls[i].text, why);
    }
}

static void a_path_may_be_as_long_as_a_socket_address_allows(void **state)
{
    struct relock_url url;
    const char *why;
    char text[256];

    (void)state;

    snprintf(text, sizeof(text), "unix:///%0*d?db=1", (int)MAX_PATH - 1, 7);
    assert_int_equal(relock_url_parse(&url, text, &why), RELOCK_OK);
    assert_int_equal(strlen(url.path), MAX_PATH);
    relock_url_deinit(&url);

    snprintf(text, sizeof(text), "unix:///%0*d?db=1", (int)MAX_PATH, 7);
    assert_refused(text);

    /* The decoded length of the path counts. */
    snprintf(text, sizeof(text), "unix:///%%41%0*d", (int)MAX_PATH - 2, 7);
    assert_int_equal(relock_url_parse(&url, text, &why), RELOCK_OK);
    relock_url_deinit(&url);
}

/* Whether the reason contains a part of the url that is longer than a word of the grammar. */
static bool repeats(const char *why, const char *text)
{
    char part[5];

    for (; strlen(text) >= sizeof(part) - 1; text++) {
        memcpy(part, text, sizeof(part) - 1);
        part[sizeof(part) - 1] = '\0';
        if (strstr(why, part))
            return true;
    }
    return false;
}

static void a_reason_contains_no_part_of_the_url(void **state)
{
    /* Each url contains a password, which must not reach a log. */
    static const char *const urls[] = {
        "hidden",
        "redi://hidden:hidden@hidden",
        "redis://hidden@",
        "redis://hidden:hidden@",
        "redis://hidden:hid%zzden@h",
        "redis://hidden:hid%00den@h",
        "redis://hidden:hid/den@h",
        "redis://hidden:hidden@hidden:hidden",
        "redis://hidden:hidden@hidden:1/hidden",
        "redis://hidden:hidden@hidden:1?hidden",
        "redis://hidden:hidden@hidden,hidden",
        "hidden:hidden,hidden=hidden",
        " redis://hidden:hidden@hidden",
        "http://hidden:hidden@hidden",
        "redis://hidden:hidden@[hidden]hidden",
        "redis+sentinel://hidden:hidden@hidden,hidden",
        "redis+sentinel://hidden:hidden@hidden,hidden:hidden/hidden",
        "redis+sentinel://hidden:hidden@hidden/hidden/hidden",
        "unix://hidden:hidden@hidden",
        "unix:///hidden?hidden",
        "unix:///hidden?db=hidden",
        "unix:///hid%zzden",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(urls); i++) {
        struct relock_url url;
        const char *why = "";
        const char *rest = strstr(urls[i], "//");

        assert_int_equal(relock_url_parse(&url, urls[i], &why), RELOCK_E_INVALID);
        assert_false(repeats(why, rest ? rest + 2 : urls[i]));
        assert_string_not_equal(why, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_a_url_is_read),
        cmocka_unit_test(an_invalid_url_is_refused_with_a_reason),
        cmocka_unit_test(a_reason_names_the_form_to_use),
        cmocka_unit_test(a_path_may_be_as_long_as_a_socket_address_allows),
        cmocka_unit_test(a_reason_contains_no_part_of_the_url),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
