"""A folder of a checkpoint on a path of this machine."""

from pystorm_spark.spark.storage.place import PosixPlace


def test_a_text_that_was_written_outlives_a_loss_of_power(tmp_path, synced):
    PosixPlace(tmp_path).write_text("note.json", "{}")

    assert synced == [tmp_path / ".note.json.tmp", tmp_path]
    assert PosixPlace(tmp_path).read_text("note.json") == "{}"
