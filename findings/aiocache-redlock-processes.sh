#!/usr/bin/env bash
# aiocache's RedLock makes nobody wait who is in another process, although its key is in Redis.
#
# A call that finds the key in Redis waits for an asyncio.Event, and these are in a dictionary of the process
# that holds the lock. In any other process there is none, and the KeyError is taken for "released in the
# meantime". So the call goes into the block at once, beside the holder. With n workers, n of them compute the
# value that the lock (or @cached_stampede, which is made of it) is to have computed once.
#
# Documentation (https://aiocache.readthedocs.io/en/latest/locking.html): a call waits for at most the lease;
# exclusion may fail from time to time, where consistency is not critical. Of the memory backend it says that
# its lock holds per process, being "not distributed", and of Redis that it implements Redlock correctly.
#
# Seen with aiocache 0.12.3, redis-py 8.1.0 and redis-server 7.0.15. The lease is 30 s. The holder stays until the
# other is in, but at most for 2 s if that is of its process, and for 20 s if it is of another.
#
# Output seen:
#     a call in the process of the holder: went in after 2.0 s
#     a call in another process: went in after 0.0 s
#     as described
#
# Needs redis-server, redis-cli, python3 and network access to its packages. Ends with 1 if the behaviour has
# changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet aiocache==0.12.3 redis==8.1.0
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --save '' >"$folder/log" &
server=$!
for _ in {1..100}; do
    redis-cli -p "$port" ping >"$folder/ping" 2>&1 && break
    sleep 0.1
done

cat >"$folder/call.py" <<'PYTHON'
import asyncio
import sys
import time

from aiocache import Cache
from aiocache.lock import RedLock

LEASE_S = 30
PORT = int(sys.argv[1])


async def call(inside):
    """Seconds until it was in."""
    began = time.monotonic()
    async with RedLock(Cache(Cache.REDIS, endpoint="127.0.0.1", port=PORT), "orders", lease=LEASE_S):
        waited_s = time.monotonic() - began
        await inside()
    return waited_s


async def nothing():
    pass


async def beside(other, hold_s):
    """Seconds that `other` waited for a holder that stays until `other` was in, but for hold_s at most."""
    holds, ends = asyncio.Event(), asyncio.Event()

    async def hold():
        holds.set()
        await ends.wait()

    holder = asyncio.create_task(call(hold))
    await holds.wait()
    other = asyncio.create_task(other())
    await asyncio.wait({other}, timeout=hold_s)
    ends.set()
    await holder
    return await other


async def in_another_process():
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, str(PORT), "once", stdout=asyncio.subprocess.PIPE
    )
    return float((await child.communicate())[0])


async def main():
    if len(sys.argv) > 2:
        print(await call(nothing))
        return
    same = await beside(lambda: call(nothing), hold_s=2)
    print(f"a call in the process of the holder: went in after {same:.1f} s")
    other = await beside(in_another_process, hold_s=20)
    print(f"a call in another process: went in after {other:.1f} s")
    if same < 1.5 or other > 1:
        sys.exit(1)
    print("as described")


asyncio.run(main())
PYTHON
"$folder/venv/bin/python" "$folder/call.py" "$port"
