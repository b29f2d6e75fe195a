"""Internal. How frames move: a Spark job whose tasks visit the slots."""
