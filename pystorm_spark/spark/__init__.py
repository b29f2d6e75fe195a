"""Internal. The Spark engine: how frames get from slot to slot. Nothing else in the package imports pyspark.

| here | what it is |
|---|---|
| `cluster` | `SparkCluster`: the topologies of a SparkSession |
| `submitter` | `StormSubmitter`: runs one topology from a script |
| `topology` | `SparkTopology`: one topology, its runs, and the queries that turn it and feed it |
| `run` | `Run`: the slots of a topology and the driver's loop, from their placing to their end |
| `counts` | what the tasks of a run have counted |
| `bounded` | `run_batch`: a topology over DataFrames that end |
| `errors` | the exceptions of Spark and Py4J, translated |

| `session/` | the user's Spark |
|---|---|
| `session` | what a SparkSession must be like; one that is made for topologies |
| `worker_python` | which Python Spark's workers run |
| `limits` | what this machine must allow, checked before anything starts |
| `signals` | how Ctrl-C and SIGTERM end a script |
| `callback` | the connection on which a streaming query calls Python |

| `protocol/` | what driver, slots and Spark tasks say to each other; never imports pyspark |
|---|---|
| `messages` | every message that they send one another, by direction |
| `wire` | messages on a socket, read only after the peer has shown the token |
| `encrypted`, `certificate` | TLS for TCP connections; the certificate that is computed from the run's token |
| `outgoing`, `writer` | a connection that never makes its sender wait; the same for lines of text |
| `process` | processes as the operating system knows them |
| `versions` | the versions that driver and slots must share |
| `slot_errors` | errors on their way from a slot to the driver |

| `driver/` | the driver's side of a topology |
|---|---|
| `loop` | `Driver`: composes the modules below; its loop exchanges, commits, and replaces dead slots |
| `state` | what the loop has to do next, as a state machine |
| `engine` | what the driver needs from outside: Spark, a lock and clock, limits |
| `slots`, `link` | which slots live, how they start and end (`loop` decides when); one slot and its connection |
| `control` | lets slots connect, listens to them, keeps their leases |
| `reception` | what is done with each message of a slot |
| `slot_output` | what slots print and log |
| `questions` | what all slots are asked at once, and who has answered |
| `exchanging` | runs chains of exchanges, again if Spark fails |
| `commit_schedule`, `commit_round` | when a commit is due; one commit, question by question |
| `commits` | checks what slots have written, and has `checkpoint` publish the manifest |
| `restarts`, `poison` | how often slots may die, and how long to wait then; tuples that were executing when they died |
| `placing` | the Spark job that starts slot processes beside executors |

| `slot/` | a slot's process; never imports pyspark |
|---|---|
| `process` | its threads and sockets, and how it ends |
| `actor` | what it does with messages, turns and exchanges: no thread, no socket, no exit |
| `exchanges` | its answers to exchanges; fences frames of an old epoch |
| `state` | its side of a commit; what it restores |
| `watch` | its heartbeats, and when it must end |
| `turners`, `relief` | the threads that turn it; which thread turns while a bolt blocks |
| `announcer` | tells the driver what it executes, in case that ends the process |
| `output`, `starters` | what user code prints and logs there, and which component printed it |
| `rows` | which of its tasks exchange rows with Spark jobs |
| `fed_spout`, `keeping_bolt`, `shelf` | emits rows of a DataFrame, failed ones again; keeps rows for one; their store |
| `leftovers`, `stacks` | what it removes at its end; the stacks of its threads, when it does not end |

| `exchange/` | how frames move |
|---|---|
| `chain` | one Spark job: a chain of shuffles |
| `visit` | a Spark task's call on one slot; never imports pyspark |

| `rows/` | DataFrames, the driver's side |
|---|---|
| `sources` | the streaming queries of DataFrameSpouts |
| `feeding`, `row_batches` | how rows of a batch reach the slots, again if one is lost; how they become Arrow batches |
| `fetching`, `sinking` | how kept rows become a DataFrame, and reach the `write` of a DataFrameSink |
| `fitting` | whether the values of a tuple fit the columns of a DataFrame |
| `full_disk` | retries what a full disk has refused |
| `job_tries` | how often a job is tried that fails |

| `storage/` | where the files of a checkpoint are |
|---|---|
| `place` | the folder of a checkpoint, on this machine or wherever Hadoop reaches |
| `hadoop_folder`, `hadoop_files`, `hadoop_lock` | folders, files and the lock of a checkpoint at a URI |
| `handed_files` | the same files for slots, which have no JVM: the driver writes them |
| `locked_state` | the state of a stopped topology, for a process that changes it |
| `state_table`, `state_columns` | a state as a DataFrame; its keys and values as columns |
"""
