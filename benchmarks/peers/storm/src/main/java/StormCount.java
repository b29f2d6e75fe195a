import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.function.LongSupplier;
import java.util.function.ToLongFunction;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;

/** Prints how many words were counted and acked in some seconds once warm, as a line of JSON. */
public final class StormCount {
    private static final long PATIENCE_NANOS = 60_000_000_000L;

    private StormCount() {}

    /** Arguments: a file of sentences, one a line; executors of each component; seconds of warm-up; seconds to count. */
    public static void main(String[] args) {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever else is printed here is no answer
        int code = 1;
        try {
            WordCount.sentences = Files.readAllLines(Path.of(args[0]));
            answers.println(answer(Integer.parseInt(args[1]), millis(args[2]), millis(args[3])));
            code = 0;
        } catch (Exception exc) {
            exc.printStackTrace();
        } finally {
            Runtime.getRuntime().halt(code); // the cluster has threads that do not end, and an orderly end takes seconds
        }
    }

    private static String answer(int executors, long warmUpMillis, long millis) throws Exception {
        new LocalCluster().submitTopology("count", conf(), WordCount.topology(executors));
        await("tasks to open", () -> 2L * executors - WordCount.SPOUTS.size() - WordCount.COUNTS.size());
        return measure(warmUpMillis, millis);
    }

    /** What was the quickest on two cores, with one executor of each and with two: more ackers or batches were not. */
    private static Config conf() {
        Config conf = new Config();
        conf.setNumWorkers(1);
        conf.setNumAckers(1);
        conf.setMaxSpoutPending(1000);
        conf.setMessageTimeoutSecs(600);
        conf.setStatsSampleRate(0.001);
        conf.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, 1);
        conf.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        return conf;
    }

    private static long millis(String secs) {
        return (long) (Double.parseDouble(secs) * 1000);
    }

    private static String measure(long warmUpMillis, long millis) throws InterruptedException {
        WordCount.active = true;
        Thread.sleep(warmUpMillis);
        WordCount.noting = true;
        long began = System.nanoTime();
        long before = sum(spout -> spout.acked);
        Thread.sleep(millis);
        long acked = sum(spout -> spout.acked) - before;
        double took = (System.nanoTime() - began) / 1e9;
        WordCount.noting = false;
        WordCount.active = false;
        await("roots to be acked", () -> sum(spout -> spout.emitted - spout.acked));
        int words = WordCount.sentences.get(0).split(" ").length;
        check(words);
        Latencies latencies = new Latencies();
        WordCount.SPOUTS.forEach(spout -> latencies.add(spout.latencies));
        return String.format(
                Locale.ROOT,
                "{\"words\": %d, \"secs\": %.6f, \"mean_ms\": %.3f, \"p50_ms\": %.2f, \"p99_ms\": %.2f}",
                acked * words,
                took,
                latencies.mean(),
                latencies.percentile(50),
                latencies.percentile(99));
    }

    private static long sum(ToLongFunction<WordCount.SentenceSpout> count) {
        return WordCount.SPOUTS.stream().mapToLong(count).sum();
    }

    private static void await(String what, LongSupplier left) throws InterruptedException {
        for (long began = System.nanoTime(); left.getAsLong() != 0; Thread.sleep(5)) {
            if (System.nanoTime() - began > PATIENCE_NANOS) {
                throw new IllegalStateException("waited in vain for " + left.getAsLong() + " " + what);
            }
        }
    }

    /** Every word of every sentence acked has been counted, once. */
    private static void check(int words) {
        long counted = 0;
        for (WordCount.CountBolt bolt : WordCount.COUNTS) {
            counted += bolt.counts.values().stream().mapToLong(Long::longValue).sum();
        }
        long acked = sum(spout -> spout.acked);
        if (counted != acked * words) {
            throw new IllegalStateException(acked + " sentences were acked, but " + counted + " words were counted");
        }
    }
}
