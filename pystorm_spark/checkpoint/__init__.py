"""Internal. Durable state on disk: what a commit writes, and how a restart reads it.

| file | what it is |
|---|---|
| `store` | `CheckpointStore`: publishes the manifests of one topology, removes files that no kept commit needs |
| `commit_log` | `CommitLog`: makes each commit of one run from the parts that its slots have written |
| `slot_side` | `SlotCheckpoint`: what one slot reads from a checkpoint and writes to it |
| `manifest` | `Manifest`: one commit, the list of the parts that make up the state |
| `part` | `Part`: one file with the state, or the changes of the state, of some tasks |
| `section` | the state of one task inside a part, and how sections are merged |
| `keying` | `Keying`: how keys are assigned to tasks, as a manifest records it |
| `merging` | chooses parts that are worth merging, and merges them |
| `envelope` | the header and checksum of every file |
| `files` | `Files`: reads and writes files by name; `PosixFiles` for a folder of this machine |
| `memory` | `MemoryFiles`: files in memory, for a checkpoint that ends with its process |
| `lock` | `CheckpointLock`: lets one driver use a checkpoint folder at a time |
| `dead_letters` | `DeadLetters`: messages that were given up, one JSON object a line |
| `crash_points` | every durable step by name, for tests that crash there |

A commit is durable once its manifest is renamed. Slots write its parts before that; the store removes files after it.
"""
