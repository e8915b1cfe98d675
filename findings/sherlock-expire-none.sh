#!/usr/bin/env bash
# sherlock's RedisLock with expire=None excludes nobody: its key is deleted in the moment of the acquire.
#
# The documentation says of `expire`: if it is None, the lock does not expire. RedisLock then hands -1 to its
# script, which is to skip EXPIRE for it: `if result == 1 and ARGV[2] ~= -1`. But an argument of a script is
# text, and in Lua the text "-1" is never equal to the number -1. So EXPIRE runs with -1 second, which deletes
# the key. acquire() returns True to everybody, locked() says False, and release() raises an exception.
#
# Documentation: the docstring of RedisLock in sherlock/lock.py. A change of 2019 is meant to do what it says:
# https://github.com/py-sherlock/sherlock/pull/37, "If no expiration is set on locks, don't expire them".
#
# Seen with sherlock 0.4.1, redis-py 8.1.0 and redis-server 7.0.15.
#
# Output seen:
#     expire=60: acquired True, locked True, a second lock of the same name: False
#     expire=None: acquired True, locked False, a second lock of the same name: True
#     as described
#
# Needs redis-server, python3 and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
redis-server --port 0 --unixsocket "$folder/socket" --save '' >"$folder/log" &
server=$!
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sherlock==0.4.1 redis==8.1.0

"$folder/venv/bin/python" - "$folder/socket" <<'PYTHON'
import sys

import redis
import sherlock


def two_holders(expire):
    name = f"orders:{expire}"
    first, second = (
        sherlock.RedisLock(name, client=redis.Redis(unix_socket_path=sys.argv[1]), expire=expire)
        for _ in range(2)
    )
    acquired, locked, again = first.acquire(blocking=False), first.locked(), second.acquire(blocking=False)
    print(f"expire={expire}: acquired {acquired}, locked {locked}, a second lock of the same name: {again}")
    return acquired, locked, again


if two_holders(60) != (True, True, False) or two_holders(None) != (True, False, True):
    sys.exit(1)
print("as described")
PYTHON
