#!/usr/bin/env bash
# python-redis-lock: a waiter without `expire` sleeps for ever when the holder's lease ends, though the lock is free.
#
# A waiter blocks on a list to which only a release adds something. When a lease ends because its holder has died,
# nobody adds anything, so each waiter sleeps until its own BLPOP ends: after its own `expire`, which has nothing to
# do with that of the holder, or never if it has none. So one killed process stops for good each worker that waits
# for its lock, while a new one acquires the lock at once. A waiter with an expire of 10 minutes waits for up to
# 10 minutes for a lock that was free after one second.
#
# Documentation: the README (https://pypi.org/project/python-redis-lock/4.0.1/) has "optional expiry" and "no
# spinloops at acquire", and says of `expire` that the lock expires. Of waiters it says nothing. The change that made
# them wait without a limit was to wait until the lock is released or expires, because its holder crashed:
# https://github.com/ionelmc/python-redis-lock/pull/35
#
# Seen with python-redis-lock 4.0.1, redis-py 8.1.0 with socket_timeout=None, and redis-server 7.0.15. The holder
# has expire=1, and never releases.
#
# Output seen:
#     a waiter with expire=4 acquired after 4 s
#     a waiter without expire: after 8 s it still sleeps, the lock is free True, another acquired it at once True
#     as described
#
# Needs redis-server, python3 and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet python-redis-lock==4.0.1 redis==8.1.0
redis-server --port 0 --unixsocket "$folder/socket" --save '' >"$folder/log" &
server=$!
for _ in {1..100}; do
    [[ -S $folder/socket ]] && break
    sleep 0.1
done

"$folder/venv/bin/python" - "$folder/socket" <<'PYTHON'
import sys
import threading
import time

import redis
import redis_lock


def lock(name, **how):
    return redis_lock.Lock(redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=None), name, **how)


def wait(name, limit_s, **how):
    """How long a waiter took, behind a holder that dies; None if it still sleeps after the limit."""
    lock(name, expire=1).acquire(blocking=False)
    waiter = threading.Thread(target=lock(name, **how).acquire, daemon=True)
    began = time.monotonic()
    waiter.start()
    waiter.join(limit_s)
    return None if waiter.is_alive() else time.monotonic() - began


took = wait("orders", 30, expire=4)
print(f"a waiter with expire=4 acquired after {took:.0f} s")
if wait("parts", 8) is not None:
    sys.exit("a waiter without expire has acquired")
is_free = lock("parts").get_owner_id() is None
another = lock("parts", expire=1).acquire(blocking=False)
print(
    f"a waiter without expire: after 8 s it still sleeps, the lock is free {is_free}, "
    f"another acquired it at once {another}"
)
if took < 3.9 or not is_free or not another:
    sys.exit(1)
print("as described")
PYTHON
