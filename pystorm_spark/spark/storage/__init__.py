"""Internal. Storage: the files of a checkpoint, on this machine or on any file system that Hadoop supports."""
