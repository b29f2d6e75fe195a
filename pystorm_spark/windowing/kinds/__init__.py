"""The kinds of windows: which tuples are in which window, and when it fires. Pure: no clock, no collector, no thread.

Each kind takes entries and moments, and yields firings. Whoever consumes a firing executes it before asking for the
next one. `released` gathers the entries that no window needs any more.

| here | windows |
|---|---|
| `time_slides` | windows of a time whose ends are a slide apart, by the clock and in event time |
| `tumbling` | the same without overlaps and with triggers |
| `last_ones` | windows of a number of tuples whose ends are a slide apart |
| `count_slides` | slides in tuples |
| `sessions` | sessions of keys |
| `endless` | one window without an end, which fires by its trigger |
| `triggering` | how they ask triggers |
| `kind`, `sorted_row` | what they have in common |
"""
