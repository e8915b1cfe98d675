#include "support/cluster_view.h"

#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one node ------------------------------------------------------------------------------ */

static signed char number_of(const struct cluster *cluster, const char *id)
{
    for (size_t i = 0; i < cluster->n; i++)
        if (strcmp(cluster->node[i].id, id) == 0)
            return (signed char)i;
    return -1;
}

/* "7", "7-12", "[7->-id]" or "[7-<-id]" */
static void read_slots(struct cluster_view *view, signed char node, const char *word)
{
    int first, last;

    if (word[0] == '[') {
        if (view->n_open < CLUSTER_VIEW_MAX_OPEN)
            view->open[view->n_open++] = atoi(word + 1);
        return;
    }
    if (sscanf(word, "%d-%d", &first, &last) < 2)
        last = first = atoi(word);
    for (int slot = first; slot <= last && slot < CLUSTER_SLOTS; slot++)
        view->owner[slot] = node;
}

/* "id address flags master ping pong epoch link slots..." */
static void read_node(const struct cluster *cluster, struct cluster_view *view, char *line)
{
    char id[41], flags[128], master[41];
    unsigned long long epoch;
    int length = 0;
    signed char node;

    if (sscanf(line, "%40s %*s %127s %40s %*s %*s %llu %*s%n", id, flags, master, &epoch,
               &length) != 4)
        return;
    node = number_of(cluster, id);
    if (node < 0 || strstr(flags, "handshake"))
        return;
    view->master[node] = strstr(flags, "master") ? node : number_of(cluster, master);
    if (view->master[node] == node)
        view->epoch[node] = epoch;
    line += length;
    for (char *word = strtok_r(line, " ", &line); word; word = strtok_r(NULL, " ", &line))
        read_slots(view, node, word);
}

bool cluster_view_of(const struct cluster *cluster, size_t i, struct cluster_view *view)
{
    char text[PROBE_TEXT_MAX];
    char *rest = text;

    memset(view, -1, sizeof(*view));
    memset(view->epoch, 0, sizeof(view->epoch));
    view->n_open = 0;
    snprintf(text, sizeof(text), "%s", probe_text(cluster->node[i].probe, "CLUSTER NODES"));
    if (text[0] == '-')
        return false;
    for (char *line = strtok_r(rest, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        read_node(cluster, view, line);
    return true;
}

void cluster_view_any(const struct cluster *cluster, struct cluster_view *view)
{
    size_t i = 0;

    while (i < cluster->n && !cluster_is_up(cluster, i))
        i++;
    cluster_must(i < cluster->n && cluster_view_of(cluster, i, view), "no node answers");
}

/* ---- all nodes ----------------------------------------------------------------------------- */

static bool knows_all(const struct cluster *cluster, const struct cluster_view *view)
{
    for (size_t i = 0; i < cluster->n; i++)
        if (view->master[i] < 0)
            return false;
    return true;
}

bool cluster_knows_itself(void *arg)
{
    const struct cluster *cluster = arg;
    struct cluster_view view;

    for (size_t i = 0; i < cluster->n; i++)
        if (cluster_is_up(cluster, i) &&
            !(cluster_view_of(cluster, i, &view) && knows_all(cluster, &view)))
            return false;
    return true;
}

static bool is_served(const struct cluster *cluster, const struct cluster_view *view)
{
    for (int slot = 0; slot < CLUSTER_SLOTS; slot++)
        if (view->owner[slot] < 0 || !cluster_is_up(cluster, (size_t)view->owner[slot]))
            return false;
    return true;
}

/* A replica has the data of its master, and a master knows that its replicas do. */
static bool is_in_sync(const struct cluster *cluster, const struct cluster_view *view, size_t i)
{
    const char *text = probe_text(cluster->node[i].probe, "INFO replication");
    size_t replicas = 0, online = 0;

    if (view->master[i] != (signed char)i)
        return strstr(text, "master_link_status:up") != NULL;
    for (size_t k = 0; k < cluster->n; k++)
        replicas += k != i && view->master[k] == (signed char)i && cluster_is_up(cluster, k);
    while ((text = strstr(text, "state=online"))) {
        online++;
        text++;
    }
    return online >= replicas;
}

/* Whether a node believes what is expected, and is ok. If it did not know the epoch of another one,
 * both could begin the same, and a slot that moves next could end at none of them. */
static bool agrees(const struct cluster *cluster, size_t i, const struct cluster_view *expected)
{
    struct cluster_view view;

    return cluster_view_of(cluster, i, &view) &&
           memcmp(view.owner, expected->owner, sizeof(view.owner)) == 0 &&
           memcmp(view.master, expected->master, sizeof(view.master)) == 0 &&
           memcmp(view.epoch, expected->epoch, sizeof(view.epoch)) == 0 &&
           strstr(probe_text(cluster->node[i].probe, "CLUSTER INFO"), "cluster_state:ok") &&
           is_in_sync(cluster, expected, i);
}

bool cluster_is_settled(void *arg)
{
    const struct cluster *cluster = arg;
    struct cluster_view view;

    cluster_view_any(cluster, &view);
    if (!knows_all(cluster, &view) || !is_served(cluster, &view))
        return false;
    for (size_t i = 0; i < cluster->n; i++)
        if (cluster_is_up(cluster, i) && !agrees(cluster, i, &view))
            return false;
    return true;
}

/* ---- roles --------------------------------------------------------------------------------- */

int cluster_slot(struct cluster *cluster, const char *key)
{
    size_t i = 0;

    while (i + 1 < cluster->n && !cluster_is_up(cluster, i))
        i++;
    return (int)probe_int(cluster->node[i].probe, "CLUSTER KEYSLOT %s", key);
}

size_t cluster_owner(struct cluster *cluster, int slot)
{
    struct cluster_view view;

    cluster_view_any(cluster, &view);
    cluster_must(view.owner[slot] >= 0, "a slot without an owner");
    return (size_t)view.owner[slot];
}

size_t cluster_replica(struct cluster *cluster, size_t master)
{
    struct cluster_view view;

    cluster_view_any(cluster, &view);
    for (size_t i = 0; i < cluster->n; i++)
        if (i != master && view.master[i] == (signed char)master && cluster_is_up(cluster, i))
            return i;
    cluster_must(false, "a master without a replica");
    return master;
}

struct probe *cluster_probe(struct cluster *cluster, const char *key)
{
    return cluster->node[cluster_owner(cluster, cluster_slot(cluster, key))].probe;
}

/* ---- what a replica has -------------------------------------------------------------------- */

struct copy {
    struct cluster *cluster;
    size_t replica;
    long long offset;
};

static long long info_number(struct cluster *cluster, size_t i, const char *before)
{
    const char *text = probe_text(cluster->node[i].probe, "INFO replication");
    const char *found = strstr(text, before);

    return found ? strtoll(found + strlen(before), NULL, 10) : -1;
}

static bool is_copied(void *arg)
{
    const struct copy *copy = arg;

    return info_number(copy->cluster, copy->replica, "slave_repl_offset:") >= copy->offset;
}

void cluster_await_copy(struct cluster *cluster, size_t master)
{
    struct copy copy = {cluster, cluster_replica(cluster, master),
                        info_number(cluster, master, "master_repl_offset:")};

    cluster_must(wait_until(is_copied, &copy, SOON_MS), "a replica does not keep up");
}

/* ---- refusals ------------------------------------------------------------------------------ */

struct refusals {
    struct cluster *cluster;
    size_t i;
    long long n;
};

long long cluster_n_refusals(struct cluster *cluster, size_t i)
{
    const char *stats = probe_text(cluster->node[i].probe, "INFO stats");
    const char *found = strstr(stats, "total_error_replies:");

    cluster_must(found, "INFO names no errors");
    return atoll(found + strlen("total_error_replies:"));
}

static bool has_refused(void *arg)
{
    const struct refusals *refusals = arg;

    return cluster_n_refusals(refusals->cluster, refusals->i) >= refusals->n;
}

bool cluster_wait_refusals(struct cluster *cluster, size_t i, long long n)
{
    struct refusals refusals = {cluster, i, cluster_n_refusals(cluster, i) + n};

    return wait_until(has_refused, &refusals, SOON_MS);
}
