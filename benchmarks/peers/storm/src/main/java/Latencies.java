/** How often each latency was seen, in steps of a hundredth of a millisecond up to a second. */
final class Latencies {
    private static final long NANOS_IN_STEP = 10_000;
    private static final double STEPS_IN_MILLI = 100;
    private static final double NANOS_IN_MILLI = 1e6;
    private final long[] seen = new long[100_000];
    private long count;
    private long nanos;

    void add(long latency) {
        seen[(int) Math.min(latency / NANOS_IN_STEP, seen.length - 1)]++;
        count++;
        nanos += latency;
    }

    void add(Latencies others) {
        for (int step = 0; step < seen.length; step++) {
            seen[step] += others.seen[step];
        }
        count += others.count;
        nanos += others.nanos;
    }

    /** In milliseconds. */
    double mean() {
        return nanos / NANOS_IN_MILLI / count;
    }

    /** The latency in milliseconds that so many percent of all do not exceed. */
    double percentile(double percent) {
        long wanted = (long) Math.ceil(count * percent / 100);
        int step = 0;
        for (long sum = seen[0]; sum < wanted; sum += seen[step]) {
            step++;
        }
        return (step + 1) / STEPS_IN_MILLI;
    }
}
