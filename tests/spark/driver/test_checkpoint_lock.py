"""A cluster and its checkpoint folder: one driver at a time, and nothing left where there can be none."""

import os

import pytest

from pystorm_spark import CheckpointError, SparkCluster


@pytest.mark.spark
def test_a_cluster_holds_its_checkpoint_until_it_is_shut_down(spark, tmp_path):
    with SparkCluster(spark, checkpoint=tmp_path / "c"), pytest.raises(CheckpointError, match="in use by"):
        SparkCluster(spark, checkpoint=str(tmp_path / "c"))

    SparkCluster(spark, checkpoint=tmp_path / "c").shutdown()


@pytest.mark.spark
def test_a_cluster_that_cannot_have_its_checkpoint_leaves_nothing_behind(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        SparkCluster(spark, checkpoint=tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]
