import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** The topology: sentences are split and their words counted, every tuple anchored and acked. */
final class WordCount {
    /** What runs; a LocalCluster has all of its tasks in this process. */
    static final Queue<SentenceSpout> SPOUTS = new ConcurrentLinkedQueue<>();
    static final Queue<CountBolt> COUNTS = new ConcurrentLinkedQueue<>();
    static volatile boolean active;
    static volatile boolean noting;
    static List<String> sentences;

    private WordCount() {}

    static StormTopology topology(int executors) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new SentenceSpout(), executors);
        builder.setBolt("split", new SplitBolt(), executors).localOrShuffleGrouping("spout");
        builder.setBolt("count", new CountBolt(), executors).fieldsGrouping("split", new Fields("word"));
        return builder.createTopology();
    }

    /** Emits while the topology is active; the message id is the time of the emit. */
    static final class SentenceSpout extends BaseRichSpout {
        /** Written by the task only; the latencies are read when it rests. */
        volatile long emitted;
        volatile long acked;
        transient Latencies latencies;
        private transient SpoutOutputCollector collector;
        private transient String[] rows;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
            rows = sentences.toArray(new String[0]);
            latencies = new Latencies();
            SPOUTS.add(this);
        }

        @Override
        public void nextTuple() {
            if (active) {
                long number = emitted;
                emitted = number + 1;
                collector.emit(new Values(rows[(int) (number % rows.length)]), System.nanoTime());
            }
        }

        @Override
        public void ack(Object messageId) {
            if (noting) {
                latencies.add(System.nanoTime() - (Long) messageId);
            }
            acked = acked + 1;
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("sentence"));
        }
    }

    static final class SplitBolt extends BaseRichBolt {
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            for (String word : tuple.getString(0).split(" ")) {
                collector.emit(tuple, new Values(word));
            }
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    static final class CountBolt extends BaseRichBolt {
        transient Map<String, Long> counts;
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            counts = new HashMap<>();
            COUNTS.add(this);
        }

        @Override
        public void execute(Tuple tuple) {
            counts.merge(tuple.getString(0), 1L, Long::sum);
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }
}
