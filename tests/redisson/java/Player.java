import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/**
 * Redisson that does what it is told.
 *
 * <pre>
 * Player URL WATCHDOG_MS
 * </pre>
 *
 * It says "ready" and reads orders, one a line: {@code THREAD VERB KIND NAME [NUMBERS]}. A thread
 * is made when it is first named and is an owner of its own; it does its orders one after the
 * other, and each is answered by {@code NUMBER ANSWER} when it is done, NUMBER being the how many-th
 * order it was, from 1. So a thread may wait for a lock while others go on.
 *
 * <pre>
 * lock [LEASE_MS]          ok; renewed by the watchdog without a lease
 * try [WAIT_MS LEASE_MS]   yes, no; renewed with a lease of -1
 * unlock                   ok, not-owner
 * pass US                  ok: locks, holds for US microseconds and unlocks
 * force                    yes, no: there was nothing to unlock
 * locked, mine             yes, no
 * count, ttl, token        a number
 * contend US FROM UNTIL    a number: locks, holds for US microseconds and unlocks until UNTIL, and
 *                          counts the holds since FROM, on the monotonic clock in ms
 * </pre>
 *
 * Of the kind "semaphore":
 *
 * <pre>
 * set N                    yes, no: its permits were set before
 * take [WAIT_MS LEASE_MS]  the id of a permit, no
 * give ID                  yes, no
 * extend ID LEASE_MS       yes, no
 * free                     a number
 * </pre>
 *
 * {@code asleep THREAD} is answered at once: whether that thread waits for a lock, and has asked for
 * the last time until it is woken. {@code forget} ends all threads, which have nothing to do, and
 * with them their locks. {@code die}, or the end of the input, ends the process at once.
 *
 * Numbers.java has the orders about latches and semaphores.
 *
 * The answer is "unsupported" if this version of Redisson does not have it, and "failed" with the
 * reason if it went wrong.
 */
public final class Player {
    private final RedissonClient client;
    private final Map<String, Actor> actors = new HashMap<>();
    private int orders;

    private Player(RedissonClient client) {
        this.client = client;
    }

    /** A thread with the locks that it used: Redisson keeps the last lease with the object. */
    private final class Actor {
        private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
        private final Thread thread;
        private final Map<String, RLock> locks = new HashMap<>();

        Actor(String name) {
            thread = new Thread(this::run, name);
            thread.setDaemon(true);
            thread.start();
        }

        private void run() {
            try {
                while (true) {
                    tasks.take().run();
                }
            } catch (InterruptedException e) {
                return; // forgotten
            }
        }

        void begin(int number, String[] order) {
            tasks.add(() -> say(number + " " + answer(order)));
        }

        /** Redisson's waiters sleep at a semaphore that a message opens, at such a latch, or just so. */
        boolean isAsleep() {
            Thread.State state = thread.getState();
            return (state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING)
                && Arrays.stream(thread.getStackTrace()).anyMatch(frame ->
                    frame.getClassName().equals("java.util.concurrent.Semaphore")
                    || frame.getClassName().equals("org.redisson.misc.ReclosableLatch")
                    || frame.getClassName().equals("java.lang.Thread")
                        && frame.getMethodName().equals("sleep"));
        }

        private String answer(String[] order) {
            try {
                if (order[2].equals("semaphore")) {
                    return obey(order[1], client.getPermitExpirableSemaphore(order[3]), order);
                }
                long[] numbers = Arrays.stream(order).skip(4).mapToLong(Long::parseLong).toArray();
                if (Numbers.has(order[2])) {
                    return Numbers.obey(client, order[1], order[2], order[3], numbers);
                }
                RLock lock = locks.computeIfAbsent(order[2] + " " + order[3],
                    key -> Kinds.lock(client, order[2], order[3]));
                return obey(order[1], lock, numbers);
            } catch (UnsupportedOperationException e) {
                return "unsupported";
            } catch (Exception e) {
                return "failed " + e;
            }
        }
    }

    private static String obey(String verb, RLock lock, long[] numbers)
        throws InterruptedException {
        switch (verb) {
        case "lock":
            lock.lock(numbers.length > 0 ? numbers[0] : -1, TimeUnit.MILLISECONDS);
            return "ok";
        case "try":
            return yesNo(numbers.length > 0
                ? lock.tryLock(numbers[0], numbers[1], TimeUnit.MILLISECONDS) : lock.tryLock());
        case "unlock":
            return unlock(lock);
        case "pass":
            lock.lock();
            holdFor(numbers[0]);
            return unlock(lock);
        case "force":
            return yesNo(lock.forceUnlock());
        case "locked":
            return yesNo(lock.isLocked());
        case "mine":
            return yesNo(lock.isHeldByCurrentThread());
        case "count":
            return Integer.toString(lock.getHoldCount());
        case "ttl":
            return Long.toString(lock.remainTimeToLive());
        case "token":
            return Long.toString(Kinds.token(lock));
        case "contend":
            return Long.toString(contend(lock, numbers[0], numbers[1], numbers[2]));
        default:
            return "failed: no verb " + verb;
        }
    }

    private static String obey(String verb, RPermitExpirableSemaphore semaphore, String[] order)
        throws InterruptedException {
        switch (verb) {
        case "set":
            return yesNo(semaphore.trySetPermits(Integer.parseInt(order[4])));
        case "take":
            String id = semaphore.tryAcquire(Long.parseLong(order[4]), Long.parseLong(order[5]),
                TimeUnit.MILLISECONDS);
            return id == null ? "no" : id;
        case "give":
            return yesNo(semaphore.tryRelease(order[4]));
        case "extend":
            return yesNo(semaphore.updateLeaseTime(order[4], Long.parseLong(order[5]),
                TimeUnit.MILLISECONDS));
        case "free":
            return Integer.toString(semaphore.availablePermits());
        default:
            return "failed: no verb " + verb;
        }
    }

    private static String unlock(RLock lock) {
        try {
            lock.unlock();
            return "ok";
        } catch (IllegalMonitorStateException e) {
            return "not-owner";
        }
    }

    private static long contend(RLock lock, long holdUs, long fromMs, long untilMs) {
        long n = 0;
        while (nowMs() < untilMs) {
            lock.lock();
            long atMs = nowMs();
            holdFor(holdUs);
            lock.unlock();
            if (atMs >= fromMs && atMs < untilMs) {
                n++;
            }
        }
        return n;
    }

    private static long nowMs() {
        return System.nanoTime() / 1_000_000;
    }

    private static void holdFor(long us) {
        long untilNs = System.nanoTime() + us * 1000;
        for (long now = System.nanoTime(); now < untilNs; now = System.nanoTime()) {
            LockSupport.parkNanos(untilNs - now);
        }
    }

    private static String yesNo(boolean yes) {
        return yes ? "yes" : "no";
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void play() throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] order = line.split(" ");
            if (line.equals("die")) {
                break;
            }
            orders++;
            if (order[0].equals("asleep")) {
                say(orders + " " + yesNo(actors.get(order[1]).isAsleep()));
            } else if (line.equals("forget")) {
                actors.values().forEach(actor -> actor.thread.interrupt());
                actors.clear();
                say(orders + " ok");
            } else {
                actors.computeIfAbsent(order[0], Actor::new).begin(orders, order);
            }
        }
    }

    public static void main(String[] args) throws IOException {
        RedissonClient client = Kinds.connect(args[0], "redisson", Long.parseLong(args[1]));
        say("ready");
        new Player(client).play();
        Runtime.getRuntime().halt(0); // at once: releases nothing
    }
}
