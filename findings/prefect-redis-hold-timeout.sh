#!/usr/bin/env bash
# prefect-redis: whose lock has expired is told that it has acquired it again, while another holds it.
#
# RedisLockManager.is_lock_holder(key, holder) compares the holder with the token in its own memory, and does
# not ask Redis. acquire_lock() calls it first: who is the holder by that need not acquire anything. So when
# hold_timeout has passed and somebody else has acquired the lock, both calls return True to the first holder,
# for as long as it does not release. Nothing is sent to Redis. Two holders work side by side, and each of them
# can "make sure" by acquiring again.
#
# Documentation (https://docs.prefect.io/v3/api-ref/python/prefect-locking-protocol): the lock is held for
# hold_timeout at most, and is_lock_holder() tells whether that holder has the lock. MemoryLockManager, which
# implements the same protocol, does what it says: it runs here, too.
#
# Seen with prefect-redis 0.3.0, prefect 3.9.1, redis-py 8.1.0 and redis-server 7.0.15.
#
# Output seen:
#     Redis, "a" holds for 1 s, then "b" for 3 s: acquired again by "a" True, holder "a" True, holder "b" True
#     memory, "a" holds for 1 s, then "b" for 3 s: acquired again by "a" False, holder "a" False, holder "b" True
#     as described
#
# Needs redis-server, redis-cli, python3 and network access to its packages (250 MB). Ends with 1 if the behaviour
# has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet prefect-redis==0.3.0 prefect==3.9.1 redis==8.1.0
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --save '' >"$folder/log" &
server=$!
for _ in {1..100}; do
    redis-cli -p "$port" ping >"$folder/ping" 2>&1 && break
    sleep 0.1
done

PREFECT_HOME="$folder/home" "$folder/venv/bin/python" - "$port" <<'PYTHON'
import sys
import time

from prefect.locking.memory import MemoryLockManager
from prefect_redis.locking import RedisLockManager


def expire(where, first, second):
    """What the first holder, whose lock has expired, is told: acquired again, and who the holder is."""
    assert first.acquire_lock("orders", "a", acquire_timeout=0, hold_timeout=1)
    assert not second.acquire_lock("orders", "b", acquire_timeout=0, hold_timeout=3)
    time.sleep(1.5)
    assert second.acquire_lock("orders", "b", acquire_timeout=0, hold_timeout=3)
    again = first.acquire_lock("orders", "a", acquire_timeout=0, hold_timeout=1)
    is_a, is_b = first.is_lock_holder("orders", "a"), second.is_lock_holder("orders", "b")
    print(
        f'{where}, "a" holds for 1 s, then "b" for 3 s: acquired again by "a" {again}, '
        f'holder "a" {is_a}, holder "b" {is_b}'
    )
    return again, is_a, is_b


port = int(sys.argv[1])
of_redis = expire("Redis", *(RedisLockManager(host="127.0.0.1", port=port) for _ in range(2)))
memory = MemoryLockManager()
of_memory = expire("memory", memory, memory)
if of_redis != (True, True, True) or of_memory != (False, False, True):
    sys.exit(1)
print("as described")
PYTHON
