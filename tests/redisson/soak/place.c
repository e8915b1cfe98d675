#include "place.h"

#include "support/cluster.h"
#include "support/probe.h"
#include "support/server.h"

#define NODE_TIMEOUT_MS 60000 /* a node that is late is not dead */

bool place_open(struct place *place, bool in_cluster)
{
    const struct cluster_options masters = {.masters = 3, .node_timeout_ms = NODE_TIMEOUT_MS};

    *place = (struct place){.server = NULL};
    if (in_cluster) {
        place->cluster = cluster_start(&masters);
        if (!place->cluster)
            return false;
        place->url = place->cluster->url;
        place->dir = place->cluster->node[0].server->dir;
        return true;
    }
    place->server = server_start(&(struct server_options){.tcp = true});
    if (!place->server)
        return false;
    place->url = place->server->tcp_url;
    place->dir = place->server->dir;
    return true;
}

void place_close(struct place *place)
{
    cluster_stop(place->cluster);
    server_stop(place->server);
}

long long place_n_keys(const struct place *place)
{
    long long n = 0;

    if (place->server) {
        struct probe *probe = probe_open(place->server->socket);

        n = probe_n_keys(probe);
        probe_close(probe);
        return n;
    }
    for (size_t i = 0; i < place->cluster->n; i++)
        n += probe_n_keys(place->cluster->node[i].probe);
    return n;
}
