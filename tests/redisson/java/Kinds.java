import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson and its kinds of locks, by the names that the tests have for them. */
final class Kinds {
    private Kinds() {
    }

    private static final String CLUSTER = "redis+cluster://";

    /** CLIENT LIST shows the connections under `name`. */
    static RedissonClient connect(String url, String name, long watchdogMs) {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setLockWatchdogTimeout(watchdogMs);
        if (url.startsWith(CLUSTER)) {
            String[] nodes = url.substring(CLUSTER.length()).split(",");
            config.useClusterServers().setClientName(name).setDnsMonitoringInterval(-1)
                .addNodeAddress(Arrays.stream(nodes).map(node -> "redis://" + node)
                    .toArray(String[]::new))
                .setMasterConnectionMinimumIdleSize(2);
        } else {
            config.useSingleServer().setAddress(url).setClientName(name)
                .setConnectionMinimumIdleSize(2).setDnsMonitoringInterval(-1);
        }
        return Redisson.create(config);
    }

    static RLock lock(RedissonClient client, String kind, String name) {
        switch (kind) {
        case "reentrant":
            return client.getLock(name);
        case "spin":
            return client.getSpinLock(name);
        case "fair":
            return client.getFairLock(name);
        case "fenced":
            return (RLock) call(client, RedissonClient.class, "getFencedLock", name);
        case "read":
            return client.getReadWriteLock(name).readLock();
        case "write":
            return client.getReadWriteLock(name).writeLock();
        default:
            throw new IllegalArgumentException("no kind " + kind);
        }
    }

    /** The token of the last who took it, which is its holder as long as there is one. */
    static long token(RLock lock) {
        try {
            return (Long) call(lock, Class.forName("org.redisson.api.RFencedLock"), "getToken");
        } catch (ClassNotFoundException e) {
            throw new UnsupportedOperationException(e);
        }
    }

    /** Before 3.19 there are no fenced locks, so nothing of them may be named here. */
    private static Object call(Object on, Class<?> type, String method, Object... args) {
        Class<?>[] types = new Class<?>[args.length];
        for (int i = 0; i < args.length; i++) {
            types[i] = args[i].getClass();
        }
        try {
            return type.getMethod(method, types).invoke(on, args);
        } catch (NoSuchMethodException | IllegalAccessException e) {
            throw new UnsupportedOperationException(e);
        } catch (InvocationTargetException e) {
            throw new IllegalStateException(e.getCause());
        }
    }
}
