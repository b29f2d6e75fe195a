"""Internal. The user's Spark: sessions, the Python of Spark's workers, limits, signals, callbacks."""
