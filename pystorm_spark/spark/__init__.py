"""Internal. How frames get from slot to slot: the only package that imports pyspark.

| file | what it is |
|---|---|
| `cluster` | `SparkCluster`: topologies on a SparkSession |
| `session` | what a session must be like, and what it is set to |
| `placing` | the Spark job that starts a slot process beside an executor |
| `slot_process` | that process: a task thread turns the slot, an io thread answers exchanges |
| `slot_errors` | what user code raised in a slot, on its way to the driver |
| `exchange` | the Spark job that moves frames: a chain of shuffles |
| `driver` | the loop inside `foreachBatch`: when to exchange, what to do when a slot dies |
| `control` | the driver's end of the connections to its slots |
| `hadoop_files` | the files of a checkpoint on hdfs, s3a and the like |
| `wire` | messages on sockets: authenticated, sized before they are read |
"""
