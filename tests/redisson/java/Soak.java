import java.io.PrintWriter;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * A process of the soak: the other half of ../soak/worker.h, in Redisson.
 *
 * <pre>
 * Soak URL FILE WHO SECONDS WATCHDOG_MS KIND:LOCK...
 * </pre>
 *
 * It works for so long from when it is connected, however long the JVM took to start.
 */
public final class Soak {
    private static final int THREADS = 4;
    private static final int WAIT_MS = 2000;

    private final RedissonClient client;
    private final PrintWriter out;
    private final String[] kinds;
    private final long untilNs;
    private final AtomicBoolean failed = new AtomicBoolean();

    private Soak(RedissonClient client, PrintWriter out, String[] kinds, long untilNs) {
        this.client = client;
        this.out = out;
        this.kinds = kinds;
        this.untilNs = untilNs;
    }

    private static int dice(int n) {
        return ThreadLocalRandom.current().nextInt(n);
    }

    private static boolean take(RLock lock) throws InterruptedException {
        switch (dice(4)) {
        case 0:
            return lock.tryLock();
        case 1:
            return lock.tryLock(WAIT_MS, TimeUnit.MILLISECONDS);
        default:
            lock.lock();
            return true;
        }
    }

    private void work(String who, String kind, RLock lock) throws InterruptedException {
        long from = System.nanoTime();
        long token = kind.equals("fenced") ? Kinds.token(lock) : 0;
        if (dice(4) == 0) {
            lock.lock();
            Thread.sleep(dice(4));
            lock.unlock();
        } else {
            Thread.sleep(dice(4));
        }
        long to = System.nanoTime();
        lock.unlock();
        synchronized (out) {
            out.printf("%s %s %s %d %d %d%n", who, kind, lock.getName(), from, to, token);
        }
    }

    private void toil(String who) {
        try {
            while (System.nanoTime() < untilNs && !failed.get()) {
                String[] kind = kinds[dice(kinds.length)].split(":");
                RLock lock = Kinds.lock(client, kind[0], kind[1]);
                if (take(lock)) {
                    work(who, kind[0], lock);
                }
            }
        } catch (Exception e) {
            e.printStackTrace();
            failed.set(true);
        }
    }

    public static void main(String[] args) throws Exception {
        RedissonClient client = Kinds.connect(args[0], args[2], Long.parseLong(args[4]));
        long untilNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(args[3]));
        PrintWriter out = new PrintWriter(args[1]);
        String[] kinds = new String[args.length - 5];
        System.arraycopy(args, 5, kinds, 0, kinds.length);
        Soak soak = new Soak(client, out, kinds, untilNs);
        Thread[] threads = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            String who = args[2] + i;
            threads[i] = new Thread(() -> soak.toil(who));
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        out.close();
        client.shutdown();
        System.exit(soak.failed.get() ? 1 : 0);
    }
}
