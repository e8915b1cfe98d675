"""What the renewal of a held lock costs the server, with one peer after the other.

usage: renewals.py SOCKET LOCKS ROUNDS NAME COMMAND...

`COMMAND... hold LOCKS` holds as many locks on the server of this unix socket, writes a line, and ends
when its standard input does; several peers are separated by "--". Each holds its locks for SETTLE_S,
and then for MEASURE_S, in which the processor time of the server (INFO cpu), less what it needs without
locks, is divided by the number of PEXPIRE and PEXPIREAT. One of these commands renews a lock.
"""
import re
import socket
import statistics
import subprocess
import sys
import time

SETTLE_S = 10  # a renewal of each lock
MEASURE_S = 20  # two more
IDLE_S = 5


class Server:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.replies = self.socket.makefile("rb")

    def info(self, section):
        self.socket.sendall(f"INFO {section}\r\n".encode())
        text = self.replies.read(int(self.replies.readline()[1:])).decode()
        self.replies.readline()
        return text

    def cpu_s(self):
        text = self.info("cpu")
        return sum(float(re.search(rf"used_cpu_{part}:(\S+)", text)[1]) for part in ("user", "sys"))

    def renewals(self):
        return sum(map(int, re.findall(r"cmdstat_pexpire(?:at)?:calls=(\d+)", self.info("commandstats"))))

    def idle_share(self):
        before = self.cpu_s()
        time.sleep(IDLE_S)
        return (self.cpu_s() - before) / IDLE_S


def renewal_us(server, command, locks):
    idle = server.idle_share()
    with subprocess.Popen(
        [*command, "hold", locks], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as peer:
        if not peer.stdout.readline():
            sys.exit(f"{command[0]} holds no locks")
        time.sleep(SETTLE_S)
        cpu_s, renewals, at = server.cpu_s(), server.renewals(), time.monotonic()
        time.sleep(MEASURE_S)
        renewals = server.renewals() - renewals
        cpu_s = server.cpu_s() - cpu_s - idle * (time.monotonic() - at)
        peer.stdin.close()
    if not renewals:
        sys.exit(f"{command[0]} has renewed nothing")
    return 1e6 * cpu_s / renewals


def peers_of(words):
    while words:
        end = words.index("--") if "--" in words else len(words)
        yield words[0], words[1:end]
        words = words[end + 1 :]


def main(path, locks, rounds, *words):
    peers = dict(peers_of(list(words)))
    server = Server(path)
    took = {name: [] for name in peers}
    for _ in range(int(rounds)):
        for name, command in peers.items():
            took[name].append(renewal_us(server, command, locks))
    print(f"a renewal of one of {locks} held locks, processor time of the server, us")
    for name, us in took.items():
        print(f"{name:14}{statistics.median(us):8.2f} ({min(us):.2f} - {max(us):.2f})")


main(*sys.argv[1:])
