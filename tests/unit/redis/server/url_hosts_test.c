/* Urls that name several hosts: sentinels, or nodes of a cluster. */
#include "redis/server/private.h"
#include "urls.h"

static const struct {
    const char *text;
    const char *hosts[3];
    unsigned ports[3];
    const char *master, *user, *password;
    unsigned db;
    bool tls;
} by_sentinels[] = {
    {"redis+sentinel://s/m", {"s"}, {26379}, .master = "m"},
    {"redis+sentinel://s/m/", {"s"}, {26379}, .master = "m"},
    {"redis+sentinel://s:1/m/7", {"s"}, {1}, .master = "m", .db = 7},
    {"valkey+sentinel://s/m?db=1", {"s"}, {26379}, .master = "m", .db = 1},
    {"Valkeys+Sentinel://s/M/?db=2", {"s"}, {26379}, .master = "M", .db = 2, .tls = true},
    {"redis+sentinel://s1,s2:2,s3/my-master",
     {"s1", "s2", "s3"},
     {26379, 2, 26379},
     .master = "my-master"},
    {"redis+sentinel://s1:1,s2/m", {"s1", "s2"}, {1, 26379}, .master = "m"},
    {"redis+sentinel://[::1],10.0.0.1,[fe80::2]:3/m",
     {"::1", "10.0.0.1", "fe80::2"},
     {26379, 26379, 3},
     .master = "m"},
    {"redis+sentinel://:pw@s1,s2/m/1",
     {"s1", "s2"},
     {26379, 26379},
     .master = "m",
     .password = "pw",
     .db = 1},
    {"redis+sentinel://u:p,w@s1,s2/m",
     {"s1", "s2"},
     {26379, 26379},
     .master = "m",
     .user = "u",
     .password = "p,w"},
    {"redis+sentinel://s/a%2fb%20%25", {"s"}, {26379}, .master = "a/b %"},
    {"rediss+sentinel://u:pw@s:1/m/2",
     {"s"},
     {1},
     .master = "m",
     .user = "u",
     .password = "pw",
     .db = 2,
     .tls = true},
};

static void a_url_may_name_sentinels_and_their_master(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(by_sentinels); i++) {
        struct relock_url url;
        const char *why;
        unsigned n = 0;

        assert_int_equal(relock_url_parse(&url, by_sentinels[i].text, &why), RELOCK_OK);
        for (; n < 3 && by_sentinels[i].hosts[n]; n++) {
            assert_string_equal(url.hosts[n].name, by_sentinels[i].hosts[n]);
            assert_int_equal(url.hosts[n].port, by_sentinels[i].ports[n]);
        }
        assert_int_equal(url.n_hosts, n);
        assert_text(url.master, by_sentinels[i].master);
        assert_text(url.user, by_sentinels[i].user);
        assert_text(url.password, by_sentinels[i].password);
        assert_int_equal(url.db, by_sentinels[i].db);
        assert_int_equal(url.tls, by_sentinels[i].tls);
        assert_null(url.host);
        assert_null(url.path);
        relock_url_deinit(&url);
        assert_null(url.master);
    }
}

static const char *const bad_sentinels[] = {
    "redis+sentinel://",           "redis+sentinel:///m",
    "redis+sentinel://s",          "redis+sentinel://s/",
    "redis+sentinel://s//0",       "redis+sentinel://,/m",
    "redis+sentinel://s,/m",       "redis+sentinel://,s/m",
    "redis+sentinel://s1,,s2/m",   "redis+sentinel://s1:,s2/m",
    "redis+sentinel://s1,s2:0/m",  "redis+sentinel://s1,[::1/m",
    "redis+sentinel://s/m/x",      "redis+sentinel://s/m/1/",
    "redis+sentinel://s/m/1?db=1", "redis+sentinel://s?db=1",
    "redis+sentinel://s/m#1",      "redis+sentinel://s/m%00",
    "redis+sentinel://u@s/m",      "redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/m",
    "unix+sentinel:///s/m",
};

static void an_invalid_url_of_sentinels_is_refused_with_a_reason(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(bad_sentinels); i++)
        assert_refused(bad_sentinels[i]);
}

static const struct {
    const char *text;
    unsigned n, last_port;
    enum relock_url_pubsub pubsub;
    bool tls;
    unsigned db;
} by_nodes[] = {
    {"redis+cluster://n1", 1, 6379, .tls = false},
    {"redis+cluster://n1:7000,n1:7001/", 2, 7001, .tls = false},
    {"redis+cluster://u:p,w@n1,n1:7001?pubsub=auto", 2, 7001, .tls = false},
    {"valkey+cluster://n1", 1, 6379, .tls = false},
    {"VALKEYS+CLUSTER://n1", 1, 6379, .tls = true},
    {"redis+cluster://n1?pubsub=sharded", 1, 6379, .pubsub = RELOCK_URL_PUBSUB_SHARDED},
    {"rediss+cluster://:pw@n1:1/?pubsub=plain", 1, 1, RELOCK_URL_PUBSUB_PLAIN, .tls = true},
    {"redis+cluster://n1/0", 1, 6379, .db = 0},
    {"redis+cluster://n1/12", 1, 6379, .db = 12},
    {"redis+cluster://n1?db=3", 1, 6379, .db = 3},
    {"redis+cluster://n1/2?pubsub=plain", 1, 6379, RELOCK_URL_PUBSUB_PLAIN, .db = 2},
    {"redis+cluster://n1/?pubsub=plain&db=2", 1, 6379, RELOCK_URL_PUBSUB_PLAIN, .db = 2},
    {"redis+cluster://n1?db=2&pubsub=plain", 1, 6379, RELOCK_URL_PUBSUB_PLAIN, .db = 2},
};
static const char *const bad_nodes[] = {
    "redis+cluster://",
    "redis+cluster:///",
    "redis+cluster://n1,",
    "redis+cluster://,n1",
    "redis+cluster://n1/x",
    "redis+cluster://n1/1/",
    "redis+cluster://n1/1?db=1",
    "redis+cluster://n1/1?pubsub=plain&db=1",
    "redis+cluster://n1?",
    "redis+cluster://n1?db=",
    "redis+cluster://n1?db=x",
    "redis+cluster://n1?db=1#",
    "redis+cluster://n1?db=1&",
    "redis+cluster://n1/1#plain",
    "redis+cluster://n1?pubsub=",
    "redis+cluster://n1?pubsub=x",
    "redis+cluster://n1#plain",
    "redis+cluster://n1:0",
    "redis+cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
    "redis://n1?pubsub=plain",
    "redis+cluster://n1?pubsub=plain&",
};

static void a_url_may_name_nodes_of_a_cluster(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(by_nodes); i++) {
        struct relock_url url;
        const char *why;

        assert_int_equal(relock_url_parse(&url, by_nodes[i].text, &why), RELOCK_OK);
        assert_true(url.cluster);
        assert_null(url.host);
        assert_int_equal(url.n_hosts, by_nodes[i].n);
        assert_string_equal(url.hosts[0].name, "n1");
        assert_int_equal(url.hosts[url.n_hosts - 1].port, by_nodes[i].last_port);
        assert_int_equal(url.pubsub, by_nodes[i].pubsub);
        assert_int_equal(url.tls, by_nodes[i].tls);
        assert_int_equal(url.db, by_nodes[i].db);
        relock_url_deinit(&url);
    }
    for (size_t i = 0; i < COUNT(bad_nodes); i++)
        assert_refused(bad_nodes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_may_name_sentinels_and_their_master),
        cmocka_unit_test(an_invalid_url_of_sentinels_is_refused_with_a_reason),
        cmocka_unit_test(a_url_may_name_nodes_of_a_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
