"""Internal. What driver, slots and Spark tasks say to each other. Never imports pyspark."""
