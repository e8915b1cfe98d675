#!/usr/bin/env bash
# python-redis-lock on redis-py 8: a wait of more than 5 s ends with an exception, long after its end.
#
# Lock.acquire(timeout=8) shall return False after 8 s if the lock stays held. It blocks in BLPOP for that
# time. From redis-py 8 on, a connection has a socket_timeout of 5 s by default, also for BLPOP, and repeats a
# command that timed out. So each BLPOP is given up and begun anew before it can end, and the caller gets
# redis.exceptions.TimeoutError when all tries are used up. With socket_timeout=None it is as documented.
#
# Seen with python-redis-lock 4.0.1, redis-py 8.1.0 and redis-server 7.0.15.
#
# Output seen:
#     by default: TimeoutError after 59 s of 8 s
#     {'socket_timeout': None}: False after 8 s of 8 s
#     as described
#
# Needs redis-server, python3 and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet python-redis-lock==4.0.1 redis==8.1.0
redis-server --port 0 --unixsocket "$folder/socket" --save '' >"$folder/log" &
server=$!

"$folder/venv/bin/python" - "$folder/socket" <<'PYTHON'
import sys
import time

import redis
import redis_lock

WAIT_S = 8


def wait(**how):
    client = redis.Redis(unix_socket_path=sys.argv[1], **how)
    began = time.monotonic()
    try:
        result = str(redis_lock.Lock(client, "orders", expire=60).acquire(timeout=WAIT_S))
    except redis.TimeoutError:
        result = "TimeoutError"
    took_s = time.monotonic() - began
    print(f"{how or 'by default'}: {result} after {took_s:.0f} s of {WAIT_S} s", flush=True)
    return result, took_s


holder = redis_lock.Lock(redis.Redis(unix_socket_path=sys.argv[1]), "orders", expire=600)
assert holder.acquire()
plain, patient = wait(), wait(socket_timeout=None)
if plain[0] != "TimeoutError" or plain[1] < 2 * WAIT_S or patient[0] != "False":
    sys.exit(1)
print("as described")
PYTHON
