"""Internal. The Spark of the user: sessions, the Python of Spark's workers, limits, signals, callbacks."""
