import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;

/**
 * A library for Java that does what it is told: ../duo.h has the orders. The class Locks stands for
 * the library: each of the folders here has one.
 *
 * <p>Usage: java Player URL
 */
public final class Player {
    static final long RETRY_MS = 10;

    /** The locks of a thread, by name. */
    private final Map<String, Object> held = new HashMap<>();

    private final ExecutorService thread = Executors.newSingleThreadExecutor(Player::daemon);

    private static Locks locks;
    private static StringRedisTemplate redis;

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private boolean take(String name, long leaseMs, boolean waits) throws Exception {
        Object lock = locks.take(name, leaseMs, waits);
        if (lock != null) {
            held.put(name, lock);
        }
        return lock != null;
    }

    private void takeInTheEnd(String name, long leaseMs) throws Exception {
        while (!take(name, leaseMs, true)) {
            Thread.sleep(RETRY_MS);
        }
    }

    private String obey(String[] words) throws Exception {
        String name = words[2];
        switch (words[1]) {
            case "lock":
                takeInTheEnd(name, Long.parseLong(words[3]));
                return "ok";
            case "trylock":
                return take(name, Long.parseLong(words[3]), false) ? "yes" : "no";
            case "unlock":
                return locks.release(held.get(name)) ? "ok" : "not-owner";
            case "count":
                for (int i = 0; i < Integer.parseInt(words[4]); i++) {
                    takeInTheEnd(name, 60000);
                    int n = Integer.parseInt(redis.opsForValue().get(words[3]));
                    redis.opsForValue().set(words[3], Integer.toString(n + 1));
                    locks.release(held.get(name));
                }
                return "ok";
            default:
                throw new IllegalArgumentException(words[1]);
        }
    }

    private void order(int number, String[] words) {
        thread.execute(
                () -> {
                    String answer;
                    try {
                        answer = obey(words);
                    } catch (Throwable error) {
                        answer = ("failed " + error).replace('\n', ' ');
                    }
                    say(number + " " + answer);
                });
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static LettuceConnectionFactory connect(URI url) {
        LettuceConnectionFactory factory =
                new LettuceConnectionFactory(
                        new RedisStandaloneConfiguration(url.getHost(), url.getPort()),
                        LettuceClientConfiguration.builder().clientName("player").build());
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }

    public static void main(String[] args) throws Exception {
        LettuceConnectionFactory factory = connect(URI.create(args[0]));
        redis = new StringRedisTemplate(factory);
        redis.hasKey("orders");
        locks = new Locks(factory);
        Map<String, Player> players = new HashMap<>();
        say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        for (int number = 1; (line = input.readLine()) != null; number++) {
            String[] words = line.split(" ");
            players.computeIfAbsent(words[0], name -> new Player()).order(number, words);
        }
        System.exit(0);
    }
}
