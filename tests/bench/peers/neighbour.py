"""How redis-py and relock share a plain lock that both want all the time.

usage: neighbour.py URL SECONDS ROUNDS COMMAND [COMMAND]

`COMMAND URL beside HOLD_MS` holds the lock again and again, until its input ends; then it prints how often.
redis-py, which tries every 0.1 s, does the same here. In each round, every command runs for SECONDS, once
without redis-py and once beside it, with 1, 2 and 8 processes and holds of 1, 5 and 20 ms. redis-py has the
lock first, until all processes wait for it: nobody knows of it before. The table has the medians of the rounds,
and the longest wait of all.
"""
import statistics
import subprocess
import sys
import time

import redis

NAME = "peer:neighbour"
LEASE_S = 30
SETTLE_S = 0.5  # until all processes have read whose the lock is
HOLDS_MS = (1, 5, 20)
PROCESSES = (1, 2, 8)


def share(lock, hold_s, seconds):
    """Holds and waits of redis-py. It has the lock now."""
    holds, longest_s = 0, 0
    end = time.monotonic() + seconds
    while True:
        lock.release()
        began = time.monotonic()
        if began >= end:
            return holds, longest_s
        lock.acquire()
        longest_s = max(longest_s, time.monotonic() - began)
        time.sleep(hold_s)
        holds += 1


def run(url, command, hold_ms, processes, seconds, is_shared):
    """Holds per second of all processes, and of redis-py; its longest wait in seconds."""
    lock = redis.Redis.from_url(url).lock(NAME, timeout=LEASE_S)
    holds, longest_s = 0, 0
    if is_shared:
        lock.acquire()
    players = [
        subprocess.Popen(
            [command, url, "beside", str(hold_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(processes)
    ]
    time.sleep(SETTLE_S if is_shared else 0)
    began = time.monotonic()
    if is_shared:
        holds, longest_s = share(lock, hold_ms / 1000, seconds)
    else:
        time.sleep(seconds)
    took = time.monotonic() - began
    for player in players:
        player.stdin.close()
    total = sum(int(player.stdout.read()) for player in players)
    for player in players:
        player.wait()
    return total / took, holds / took, longest_s


def main(url, seconds, rounds, *commands):
    print(f"{'':30}{'relock alone':>14}{'beside redis-py':>24}{'redis-py':>11}{'its share':>11}"
          f"{'longest wait':>14}")
    for hold_ms in HOLDS_MS:
        for processes in PROCESSES:
            results = {command: ([], []) for command in commands}
            for _ in range(int(rounds)):
                for command in commands:
                    for is_shared in (False, True):
                        results[command][is_shared].append(
                            run(url, command, hold_ms, processes, float(seconds), is_shared)
                        )
            for i, command in enumerate(commands):
                alone = statistics.median(r[0] for r in results[command][False])
                beside = statistics.median(r[0] for r in results[command][True])
                theirs = statistics.median(r[1] for r in results[command][True])
                longest = max(r[2] for r in results[command][True])
                print(f"{'other build' if i else 'this build':12}{hold_ms:3} ms, {processes} processes"
                      f"{alone:11.1f}/s{beside:14.1f}/s ({beside / alone:4.0%})"
                      f"{theirs:9.2f}/s{theirs / (theirs + beside):11.1%}{longest:12.2f} s", flush=True)


main(*sys.argv[1:])
