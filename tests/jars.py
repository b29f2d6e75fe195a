"""Jars that some tests need: fetched from Maven Central, held against their checksums, and kept in `.jars`."""

import hashlib
import os
import shutil
import time
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest

FOLDER = Path(__file__).parent.parent / ".jars"
REGISTRIES = ("https://repo1.maven.org/maven2", "https://repo.maven.apache.org/maven2")  # the same, at two addresses
TRIES = 4
TIMEOUT_SECS = 30

# The newest of Spark's own that are published: there are none of the version of PySpark, and these work with it.
KAFKA_SOURCE = {
    "org.apache.commons:commons-pool2:2.13.1": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    "org.apache.kafka:kafka-clients:3.9.2": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0": "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
}
SQLITE = {
    "org.xerial:sqlite-jdbc:3.54.1.0": "f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639",
}
# What is needed beside the jars that come with PySpark.
KAFKA_BROKER = {
    "net.sourceforge.argparse4j:argparse4j:0.7.0": "65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56",
    "com.github.ben-manes.caffeine:caffeine:3.1.8": "7dd15f9df1be238ffaa367ce6f556737a88031de4294dad18eef57c474ddf1d3",
    "commons-validator:commons-validator:1.10.1": "ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.16.2": "01a04610def154c50369e8bcd7c5ae1401579f591aa55e88f05093447e24d490",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.16.2": "3e9b1b59f638b487b5ae0e2f4190fc98f72b0bf661324e7dfc71a69f6b9d4e29",
    "net.sf.jopt-simple:jopt-simple:5.0.4": "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28",
    "org.bitbucket.b_c:jose4j:0.9.6": "7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef",
    "org.apache.kafka:kafka-group-coordinator:3.9.2": "d4d57f0955895cc38381f346f5ff7eba487afafa5ba264804af18393305b32fd",
    "org.apache.kafka:kafka-group-coordinator-api:3.9.2": "bd903ba506c8309401a331ef1b826612d1cb95862879551031428da5cf50eab6",
    "org.apache.kafka:kafka-metadata:3.9.2": "ffe970aee12f00df4b0162f31c719df7c412f9207c166a74cef6611be25a255e",
    "org.apache.kafka:kafka-raft:3.9.2": "f897533828e55ac466a5b183a25dccbe5a7b97c02162dac38e25338feddfe422",
    "org.apache.kafka:kafka-server:3.9.2": "4f8667dbd664c4b0906e05499cfdc5f558f14c098b77fa6c09656cceb62a63ef",
    "org.apache.kafka:kafka-server-common:3.9.2": "0374b3f13c3c4b7fd446d35df1ccb0c60931ea27d4972b4de1bb1d548a87f5b2",
    "org.apache.kafka:kafka-storage:3.9.2": "8a3d7b67dfcd34b1334d4994ed4106ba9c9b37ebcbb177ac47ff44050e8ab84b",
    "org.apache.kafka:kafka-storage-api:3.9.2": "565ab8540b50c7f00ea62c77a6639237ed3a80550245be70dc733f157cd280d6",
    "org.apache.kafka:kafka-tools-api:3.9.2": "501ac034b93853c3dcba4b49e32c7c795de109a96b8ab6d59a9ab19e6ef11491",
    "org.apache.kafka:kafka-transaction-coordinator:3.9.2": "d6ca25648111dfd11f76d3d0f7f51a9458784b645f4e56ce34fbc58d9c9d0296",
    "org.apache.kafka:kafka_2.13:3.9.2": "dddf49b18c931301fece0048a76d6b0956c36c8b1d1fc721bfed318aa6ee3e4f",
    "com.yammer.metrics:metrics-core:2.2.0": "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c",
    "org.pcollections:pcollections:4.0.1": "1f82766d7c3221930854033bebff5073ea46b43f27326074bbe15d148c18bfb3",
    "org.scala-lang.modules:scala-java8-compat_2.13:1.0.2": "90d5b13656be93fb779b8d7c723efa2498a34af06273bb5204afb65f85a20c1b",
    "com.typesafe.scala-logging:scala-logging_2.13:3.9.5": "87a3017d3f43e6ace7566fe4c3d615134c6914ff871c8d64bb32ca1d996d0545",
}


def fetched(jars):
    """The files of `jars`, {name: checksum}; where they cannot be had, a test is skipped, but not in CI."""
    try:
        return [_fetched(name, checksum) for name, checksum in jars.items()]
    except (URLError, ConnectionError, TimeoutError) as exc:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{REGISTRIES[0]} cannot be reached: {exc}")


def _fetched(name, checksum):
    group, artifact, version = name.split(":")
    path = FOLDER / f"{artifact}-{version}.jar"
    if not path.exists():
        _fetch(f"{group.replace('.', '/')}/{artifact}/{version}/{path.name}", path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != checksum:
        path.unlink()
        raise RuntimeError(f"{path} had the checksum {found}, not {checksum}; it is removed")
    return path


def _fetch(name, path):
    FOLDER.mkdir(exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")  # several processes may fetch at once
    for left in range(TRIES - 1, -1, -1):
        try:
            with (
                urllib.request.urlopen(f"{REGISTRIES[left % 2]}/{name}", timeout=TIMEOUT_SECS) as answer,
                open(part, "wb") as file,
            ):
                shutil.copyfileobj(answer, file)
        except (URLError, ConnectionError, TimeoutError):
            if not left:
                raise
            time.sleep(1)
        else:
            part.replace(path)
            return
