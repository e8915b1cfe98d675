"""redis-py's Lock, measured as ../README.md says.

usage: peer.py URL SECONDS
       peer.py URL waiter SECONDS
"""
import json
import statistics
import subprocess
import sys
import threading
import time

import hiredis
import redis

LEASE_S = 30
PASSES = 100
WAITERS = 32
WATCHED_S = 10


def lock_on(client, name):
    """A try each 0.1 s, as it is unless told otherwise."""
    return client.lock("peer:redis-py:" + name, timeout=LEASE_S)


def own_locks(client):
    return [lock_on(client, f"own:{i}") for i in range(16)]


def warm_up(client, seconds):
    crowd(own_locks(client), 2 * seconds)


def uncontended_us(client, seconds):
    lock = lock_on(client, "uncontended")
    took_ns = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter_ns()
        lock.acquire()
        lock.release()
        took_ns.append(time.perf_counter_ns() - begin)
    return statistics.median(took_ns) / 1000


def crowd(locks, seconds):
    """One thread per lock takes and gives it; the pairs per second of each."""
    counts = [0] * len(locks)
    stop = threading.Event()

    def work(i):
        while not stop.is_set():
            locks[i].acquire()
            locks[i].release()
            counts[i] += 1

    threads = [threading.Thread(target=work, args=[i]) for i in range(len(locks))]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    before, begin = list(counts), time.monotonic()
    time.sleep(seconds)
    after, took = list(counts), time.monotonic() - begin
    stop.set()
    for thread in threads:
        thread.join()
    return [(a - b) / took for a, b in zip(after, before)]


def wait_for_lock(client):
    """The other process of passing_us()."""
    lock = lock_on(client, "passing")
    for _ in sys.stdin:
        lock.acquire()
        taken_ns = time.monotonic_ns()
        lock.release()
        print(taken_ns, flush=True)


def passing_us(client, url, seconds):
    lock = lock_on(client, "passing")
    waiter = subprocess.Popen(
        [sys.executable, __file__, url, "waiter", str(seconds)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )

    def one_pass(pause_s):
        lock.acquire()
        waiter.stdin.write("\n")
        time.sleep(pause_s)
        given_ns = time.monotonic_ns()
        lock.release()
        return (int(waiter.stdout.readline()) - given_ns) / 1000

    one_pass(1)  # the other process starts and warms up
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        one_pass(0.005)
    passes = [one_pass((10 + i * 37 % 290) / 1000) for i in range(PASSES)]
    waiter.stdin.close()
    if waiter.wait() != 0:
        sys.exit("the waiter failed")
    return statistics.median(passes)


def commands_per_s(client):
    def processed():
        return client.info("stats")["total_commands_processed"]

    def wait():
        lock = lock_on(client, "waiters")
        lock.acquire()
        lock.release()

    held = lock_on(client, "waiters")
    held.acquire()
    threads = [threading.Thread(target=wait) for _ in range(WAITERS)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    before, begin = processed(), time.monotonic()
    time.sleep(WATCHED_S)
    rate = (processed() - before - 1) / (time.monotonic() - begin)
    held.release()
    for thread in threads:
        thread.join()
    return rate


def main():
    url = sys.argv[1]
    client = redis.Redis.from_url(url)
    seconds = float(sys.argv[-1])
    if sys.argv[2] == "waiter":
        warm_up(client, seconds)
        wait_for_lock(client)
        return

    commands = commands_per_s(client)
    passing = passing_us(client, url, seconds)
    warm_up(client, seconds)
    uncontended = uncontended_us(client, seconds)
    own = crowd(own_locks(client), seconds)
    one_lock = crowd([lock_on(client, "one") for _ in range(8)], seconds)
    print(json.dumps({
        "peer": "redis-py",
        "version": f"{redis.__version__}, hiredis {hiredis.__version__}",
        "rows": {
            "uncontended_p50_us": uncontended,
            "own_locks_16_pairs_per_s": sum(own),
            "one_lock_8_acquisitions_per_s": sum(one_lock),
            "one_lock_8_least_percent": 100 * min(one_lock) / (sum(one_lock) or 1),
            "passing_p50_us": passing,
            "commands_per_s_32_waiters": commands,
        },
    }))


main()
