import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * Redisson's latches, of the kind "latch", and its semaphores without leases, of the kind "unleased".
 *
 * <pre>
 * set N                    yes, no
 * number                   a number: the count, or the permits available
 * down                     ok: a latch
 * await [WAIT_MS]          ok: a latch; with a time yes, no
 * delete                   yes, no: a latch
 * acquire N                ok: unleased
 * try N [WAIT_MS]          yes, no: unleased
 * release N, add N         ok: unleased
 * drain                    a number: unleased
 * </pre>
 */
final class Numbers {
    private Numbers() {
    }

    static boolean has(String kind) {
        return kind.equals("latch") || kind.equals("unleased");
    }

    static String obey(RedissonClient client, String verb, String kind, String name, long[] numbers)
        throws InterruptedException {
        return kind.equals("latch") ? latch(client.getCountDownLatch(name), verb, numbers)
            : semaphore(client.getSemaphore(name), verb, numbers);
    }

    private static String latch(RCountDownLatch latch, String verb, long[] numbers)
        throws InterruptedException {
        switch (verb) {
        case "set":
            return yesNo(latch.trySetCount(numbers[0]));
        case "number":
            return Long.toString(latch.getCount());
        case "down":
            latch.countDown();
            return "ok";
        case "await":
            if (numbers.length > 0) {
                return yesNo(latch.await(numbers[0], TimeUnit.MILLISECONDS));
            }
            latch.await();
            return "ok";
        case "delete":
            return yesNo(latch.delete());
        default:
            return "failed: no verb " + verb;
        }
    }

    private static String semaphore(RSemaphore semaphore, String verb, long[] numbers)
        throws InterruptedException {
        switch (verb) {
        case "set":
            return yesNo(semaphore.trySetPermits((int) numbers[0]));
        case "number":
            return Integer.toString(semaphore.availablePermits());
        case "acquire":
            semaphore.acquire((int) numbers[0]);
            return "ok";
        case "try":
            return yesNo(numbers.length > 1
                ? semaphore.tryAcquire((int) numbers[0], numbers[1], TimeUnit.MILLISECONDS)
                : semaphore.tryAcquire((int) numbers[0]));
        case "release":
            semaphore.release((int) numbers[0]);
            return "ok";
        case "add":
            semaphore.addPermits((int) numbers[0]);
            return "ok";
        case "drain":
            return Integer.toString(semaphore.drainPermits());
        default:
            return "failed: no verb " + verb;
        }
    }

    private static String yesNo(boolean yes) {
        return yes ? "yes" : "no";
    }
}
