#!/usr/bin/env bash
# redis-py: expire(key, timedelta) below one second deletes the key, and returns True.
#
# A lease that is a timedelta can be given to set(px=lease), which sends all milliseconds. To renew it by
# expire(key, lease) cuts the fraction off: 1.9 s become 1 s. Of 0.9 s nothing is left, and EXPIRE with 0
# deletes the key. The reply is 1, so expire() returns True: the holder that renews its lock has freed it and
# has been told of success. set(ex=lease), cut off in the same way, is refused by the server at least. pexpire()
# is right.
#
# Documentation: the time "can be represented by an integer or a Python timedelta object"
# (https://redis.readthedocs.io/en/stable/commands.html, expire; in the code, Redis.expire in
# redis/commands/core.py). Nothing says that only whole seconds of it count.
#
# Seen with redis-py 8.1.0 and redis-server 7.0.15.
#
# Output seen:
#     lease of 1900 ms: set(px) leaves 1900 ms, expire() returns True and leaves 1000 ms
#     lease of 900 ms: set(px) leaves 900 ms, expire() returns True and leaves no key
#     lease of 900 ms: set(ex) fails: invalid expire time in 'set' command
#     as described
#
# Needs redis-server, python3 and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
redis-server --port 0 --unixsocket "$folder/socket" --save '' >"$folder/log" &
server=$!
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet redis==8.1.0

"$folder/venv/bin/python" - "$folder/socket" <<'PYTHON'
import sys
from datetime import timedelta

import redis

client = redis.Redis(unix_socket_path=sys.argv[1])


def renew(ms):
    """What is left of a lease in ms, rounded to 100, at first and when it was renewed; None if the key is gone."""
    lease = timedelta(milliseconds=ms)
    client.set("orders", "token", px=lease, nx=True)
    first = round(client.pttl("orders"), -2)
    renewed = client.expire("orders", lease)
    left = round(client.pttl("orders"), -2) if client.exists("orders") else None
    leaves = "no key" if left is None else f"{left} ms"
    print(f"lease of {ms} ms: set(px) leaves {first} ms, expire() returns {renewed} and leaves {leaves}")
    client.delete("orders")
    return first, renewed, left


refused = False
cut_off = renew(1900) == (1900, True, 1000) and renew(900) == (900, True, None)
try:
    client.set("orders", "token", ex=timedelta(milliseconds=900))
except redis.ResponseError as error:
    refused = True
    print(f"lease of 900 ms: set(ex) fails: {error}")
if not cut_off or not refused:
    sys.exit(1)
print("as described")
PYTHON
