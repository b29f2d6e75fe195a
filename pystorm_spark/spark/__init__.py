"""Internal. How frames get from slot to slot: the only package that imports pyspark.

| file | what it is |
|---|---|
| `cluster` | `SparkCluster`: topologies on a SparkSession |
| `session` | what a session must be like, and what it is set to |
| `placing` | the Spark job that starts a slot process beside an executor |
| `slot_process` | that process: its threads and sockets, and how it ends |
| `slot_actor` | what it does with messages and turns: no thread, no socket, no exit |
| `slot_watch` | its beats, and when it must end |
| `turners`, `relief` | the threads that turn the slot; which of them, while a bolt holds one up |
| `leftovers` | what a slot removes at its end |
| `slot_errors` | what user code raised in a slot, on its way to the driver |
| `exchange` | the Spark job that moves frames: a chain of shuffles |
| `driver` | the loop inside `foreachBatch`: when to exchange, when to commit, what to do when a slot dies |
| `slots` | the slots as the driver knows them: what they say, what they are asked |
| `commit_round`, `slot_state` | one commit, question by question: the driver's side, the slot's side |
| `checkpoint`, `checkpoint_place` | where the commits of a topology are kept |
| `held_state` | the state of a topology that does not run, for who changes it |
| `state_table`, `state_columns` | a state as a DataFrame, and what its keys and values are in there |
| `feeding`, `fed_spout` | the rows of a DataFrame on their way to a spout's tasks: the driver's side, the slot's side |
| `fetching`, `keeping_bolt` | rows that bolts keep on their way to a DataFrame: the driver's side, the slot's side |
| `row_tasks`, `shelf` | which tasks of a slot are fed or fetched from, and where these keep rows |
| `callback` | the connection on which a query calls Python, from its first call to its end |
| `sources`, `sinking` | the queries of DataFrameSpouts; what is handed to the `write` of DataFrameSinks |
| `full_disk` | what a disk without room refuses is tried again |
| `bounded` | `run_batch`: a topology over DataFrames that end |
| `control` | the driver's end of the connections to its slots |
| `hadoop_files`, `hadoop_folder`, `hadoop_lock` | the files of a checkpoint on hdfs, s3a and the like, and its lock |
| `handed_files` | the same for slots, which reach them through the driver |
| `wire` | messages on sockets: authenticated, sized before they are read |
"""
