"""Internal. A slot's process, beside an executor. Never imports pyspark."""
