"""Internal. Where the files of a checkpoint are: on this machine, or wherever Hadoop reaches."""
