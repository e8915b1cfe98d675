import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLongArray;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.redisnode.RedisNode.InfoSection;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.config.Config;

/**
 * Redisson's RLock, measured as ../README.md says.
 *
 * <pre>
 * Peer URL SECONDS
 * Peer URL waiter SECONDS
 * Peer URL hold LOCKS
 * </pre>
 */
public class Peer {
    static final int PASSES = 100;
    static final int WAITERS = 32;
    static final double WATCHED_S = 10;

    final String url;
    final RedissonClient client;

    Peer(String url) {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        this.url = url;
        this.client = Redisson.create(config);
    }

    RLock lockOn(String name) {
        return client.getLock("peer:redisson:" + name);
    }

    RLock[] ownLocks() {
        RLock[] own = new RLock[16];
        Arrays.setAll(own, i -> lockOn("own:" + i));
        return own;
    }

    static double medianUs(List<Long> ns) {
        Collections.sort(ns);
        return ns.get(ns.size() / 2) / 1000.0;
    }

    static void sleep(double seconds) throws InterruptedException {
        Thread.sleep(Math.round(1000 * seconds));
    }

    static double secondsSince(long ns) {
        return (System.nanoTime() - ns) / 1e9;
    }

    double uncontendedUs(double seconds) {
        RLock lock = lockOn("uncontended");
        List<Long> took = new ArrayList<>();
        long from = System.nanoTime();
        while (secondsSince(from) < seconds) {
            long begin = System.nanoTime();
            lock.lock();
            lock.unlock();
            took.add(System.nanoTime() - begin);
        }
        return medianUs(took);
    }

    /** One thread per lock takes and gives it; the pairs per second of each. */
    static double[] crowd(RLock[] locks, double seconds) throws InterruptedException {
        AtomicLongArray counts = new AtomicLongArray(locks.length + 1);
        int stop = locks.length;
        Thread[] threads = new Thread[locks.length];
        for (int t = 0; t < threads.length; t++) {
            int i = t;
            threads[i] = new Thread(() -> {
                while (counts.get(stop) == 0) {
                    locks[i].lock();
                    locks[i].unlock();
                    counts.incrementAndGet(i);
                }
            });
            threads[i].start();
        }
        sleep(seconds / 2);
        long begin = System.nanoTime();
        double[] rates = new double[threads.length];
        for (int i = 0; i < rates.length; i++) {
            rates[i] = -counts.get(i);
        }
        sleep(seconds);
        double took = secondsSince(begin);
        for (int i = 0; i < rates.length; i++) {
            rates[i] = (rates[i] + counts.get(i)) / took;
        }
        counts.set(stop, 1);
        for (Thread thread : threads) {
            thread.join();
        }
        return rates;
    }

    void warmUp(double seconds) throws InterruptedException {
        crowd(ownLocks(), 2 * seconds);
    }

    /** The other process of passingUs(). */
    void waitForLock() throws IOException {
        RLock lock = lockOn("passing");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null) {
            lock.lock();
            long taken = System.nanoTime(); // CLOCK_MONOTONIC on Linux: the same in every process
            lock.unlock();
            System.out.println(taken);
        }
    }

    long onePass(RLock lock, PrintStream to, BufferedReader from, double pause) throws Exception {
        lock.lock();
        to.println();
        sleep(pause);
        long given = System.nanoTime();
        lock.unlock();
        return Long.parseLong(from.readLine()) - given;
    }

    double passingUs(double seconds) throws Exception {
        RLock lock = lockOn("passing");
        List<String> command = List.of(
            ProcessHandle.current().info().command().get(), "-cp",
            System.getProperty("java.class.path"), "Peer", url, "waiter", Double.toString(seconds));
        Process waiter = new ProcessBuilder(command)
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        PrintStream to = new PrintStream(waiter.getOutputStream(), true);
        BufferedReader from = new BufferedReader(new InputStreamReader(waiter.getInputStream()));

        onePass(lock, to, from, 1); // the other process starts and warms up
        long begin = System.nanoTime();
        while (secondsSince(begin) < seconds) {
            onePass(lock, to, from, 0.005);
        }
        List<Long> took = new ArrayList<>();
        for (int i = 0; i < PASSES; i++) {
            took.add(onePass(lock, to, from, (10 + i * 37 % 290) / 1000.0));
        }
        to.close();
        if (waiter.waitFor() != 0) {
            throw new IllegalStateException("the waiter failed");
        }
        return medianUs(took);
    }

    long processed() {
        return Long.parseLong(client.getRedisNodes(RedisNodes.SINGLE).getInstance()
            .info(InfoSection.STATS).get("total_commands_processed"));
    }

    double commandsPerS() throws InterruptedException {
        RLock lock = lockOn("waiters");
        lock.lock();
        Thread[] threads = new Thread[WAITERS];
        for (int i = 0; i < WAITERS; i++) {
            threads[i] = new Thread(() -> {
                lock.lock();
                lock.unlock();
            });
            threads[i].start();
        }
        sleep(2);
        long before = processed();
        long begin = System.nanoTime();
        sleep(WATCHED_S);
        double rate = (processed() - before - 1) / secondsSince(begin);
        lock.unlock();
        for (Thread thread : threads) {
            thread.join();
        }
        return rate;
    }

    /** For renewals.py. */
    void hold(int locks) throws IOException {
        for (int i = 0; i < locks; i++) {
            lockOn("held:" + i).lock();
        }
        System.out.println("held");
        while (System.in.read() >= 0) {
        }
        for (int i = 0; i < locks; i++) {
            lockOn("held:" + i).unlock();
        }
    }

    void measure(double seconds) throws Exception {
        RLock[] one = new RLock[8];
        Arrays.fill(one, lockOn("one"));

        double commands = commandsPerS();
        double passing = passingUs(seconds);
        warmUp(seconds);
        double uncontended = uncontendedUs(seconds);
        double own = Arrays.stream(crowd(ownLocks(), seconds)).sum();
        double[] shares = crowd(one, seconds);
        double oneLock = Arrays.stream(shares).sum();
        double least = 100 * Arrays.stream(shares).min().getAsDouble() / Math.max(oneLock, 1);
        System.out.printf(Locale.ROOT,
            "{\"peer\": \"Redisson\", \"version\": \"%s\", \"rows\": {"
            + "\"uncontended_p50_us\": %f, \"own_locks_16_pairs_per_s\": %f, "
            + "\"one_lock_8_acquisitions_per_s\": %f, \"one_lock_8_least_percent\": %f, "
            + "\"passing_p50_us\": %f, \"commands_per_s_32_waiters\": %f}}%n",
            Redisson.class.getPackage().getImplementationVersion(), uncontended, own, oneLock, least,
            passing, commands);
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        Peer peer = new Peer(args[0]);
        double seconds = Double.parseDouble(args[args.length - 1]);
        if (args[1].equals("hold")) {
            peer.hold((int) seconds);
        } else if (args[1].equals("waiter")) {
            peer.warmUp(seconds);
            peer.waitForLock();
        } else {
            peer.measure(seconds);
        }
        peer.client.shutdown();
    }
}
