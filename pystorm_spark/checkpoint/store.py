"""Internal. CheckpointStore: the commits of one topology in one place."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pystorm_spark.checkpoint.envelope import ForeignError
from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.manifest import MAX_MANIFEST_BYTES, Manifest
from pystorm_spark.checkpoint.part import read_part
from pystorm_spark.errors import CheckpointError, StormError

log = logging.getLogger(__name__)

# Among the extras of a manifest: how often the commit was replaced, and the generation of the driver that wrote it.
REVISION, GENERATION = "revision", "generation"
MANIFEST_NAME = re.compile(r"manifest-([-0-9][0-9]{19})(?:-([0-9]{6}))?(?:-g([0-9]{6,}))?")
OLDER_KEY = "topology.state.allow.older.commit"
WAY_BACK = f"{OLDER_KEY}: true begins with an older commit that is whole"
KEPT_COMMITS = 2  # commits
# Manifests that hold nothing, before the first part: from the first commit on a lost manifest is one too few.
EMPTY_TXIDS = (-1, 0)


class CheckpointStore:
    """The last commits of a topology. It has one writer: whoever holds the `CheckpointLock`.

    To open one only reads. Who goes on to write calls `clean` first, before any part is written: it makes the first
    manifests, and so parts without them are a state that was lost, which is refused and not taken for none.

    Where a driver may lose the lock and live on, the store `is_fenced`: `clean` replaces the last commit by one of a
    higher generation, and whatever an older generation writes after that does not count. Nobody is told of it either:
    `check_holder` is called when a manifest is there, and raises if there is another holder by then. What is removed
    was listed before such a look, and so is of nobody who came later.
    """

    def __init__(
        self,
        files: Files,
        topology: str,
        allow_older: bool = False,
        check_holder: Callable[[], None] = lambda: None,
        is_fenced: bool = False,
    ) -> None:
        self._files = files
        self._topology = topology
        self._garbage: set[str] = set()  # what could not be removed when it was time to
        self._doubtful: set[str] = set()  # manifests that may be there though they were not to be written
        self._passed_over: list[str] = []  # damaged manifests, newer than the commit that is begun with
        self._check_holder = check_holder
        self._is_fenced = is_fenced
        self._generation = 0
        self._kept = self._read_kept(allow_older)  # oldest first

    @property
    def path(self) -> str:
        """Where the commits are."""
        return self._files.path("")

    @property
    def last(self) -> Manifest | None:
        """The last commit; None if there was none and `clean` has not been called yet."""
        return self._kept[-1] if self._kept else None

    def publish(self, manifest: Manifest) -> None:
        """Make `manifest` the last commit, then remove what only commits that are not kept any more needed.

        Files that no commit has needed yet are let be: others may have written them for the next one.
        """
        if manifest.topology != self._topology or (self.last is not None and manifest.txid <= self.last.txid):
            raise ValueError(f"{manifest.topology} {manifest.txid} cannot follow {self.last}")
        self.check(manifest)
        self._write(manifest)
        while len(self._kept) > KEPT_COMMITS:
            old = self._kept.pop(0)
            self._garbage |= {_name(old), *old.file_names()}
        self._remove_garbage()

    def replace_last(self, manifest: Manifest) -> None:
        """Have `manifest` be the last commit in place of the one of the same number, all of it or nothing.

        It gets a name of its own, behind that of the other: not everywhere is a file replaced in one step.
        """
        old = self._kept[-1]
        if (manifest.topology, manifest.txid) != (old.topology, old.txid):
            raise ValueError(f"{manifest.topology} {manifest.txid} cannot replace {old}")
        self._replace(replace(manifest, extra={**manifest.extra, REVISION: old.extra.get(REVISION, 0) + 1}))

    def _replace(self, manifest: Manifest) -> None:
        old = self._kept[-1]
        self._write(manifest)
        self._kept.remove(old)
        self._garbage |= {_name(old), *old.file_names()}
        self._remove_garbage()

    def clean(self) -> None:
        """Remove the files that no kept commit needs, and make those of the first manifests that are not there.

        Only while nobody writes: at the start, or when all that was written for the next commit has been given up.
        """
        self._generation += self._is_fenced
        if self._is_fenced and self.last is not None:
            self._replace(self.last)
        for txid in EMPTY_TXIDS:
            if self.last is None or self.last.txid < txid:
                self._write(Manifest(self._topology, txid))
        # Damaged manifests stay until there are enough others: fewer than that would be taken for a loss.
        is_short = len(self._kept) < KEPT_COMMITS
        self._discard(lambda name: not (is_short and _is_manifest(name)))

    def check(self, following: Manifest | None = None) -> None:
        """Refuse to go on if files of the last commit, or some that `following` needs, are not there any more.

        That is no `CheckpointError`, which would be tried again: what was removed does not come back.
        """
        commits = [commit for commit in (self.last, following) if commit is not None]
        needed = {name for commit in commits for name in commit.file_names()}
        if self.last is not None:
            needed.add(_name(self.last))
        # What others have just written may not be listed yet where a network's file system keeps listings for a while.
        missing = sorted(name for name in needed.difference(self._files.names()) if not self._is_there(name))
        if missing:
            raise StormError(
                f"the checkpoint {self.path!r} was removed or replaced while it was in use: {missing[0]} is not there "
                "any more, so what was committed could not be restored, and nothing can be added to it"
            )

    def remove_doubtful(self) -> None:
        """Make sure that no commit is there that was not made, or raise: before the parts of it are given up."""
        for name in list(self._doubtful):
            self._files.remove(name)
            self._doubtful.remove(name)

    def _is_there(self, name: str) -> bool:
        try:
            self._files.size(name)
        except CheckpointError:
            return False
        return True

    def discard(self, is_dead: Callable[[str], bool]) -> None:
        """Remove those files that no kept commit needs and nobody writes or will use any more."""
        self._discard(is_dead)

    def _discard(self, is_dead: Callable[[str], bool]) -> None:
        dead = list(filter(is_dead, self._files.names()))
        self._check_holder()
        self._garbage.update(dead)
        self._remove_garbage()

    def _write(self, manifest: Manifest) -> None:
        while self._passed_over:  # first: one of them may stand before what is written, with a higher revision
            self._files.remove(self._passed_over[-1])
            self._passed_over.pop()
        if self._generation:
            manifest = replace(manifest, extra={**manifest.extra, GENERATION: self._generation})
        name = _name(manifest)
        try:
            self._files.write(name, manifest.to_bytes())
            self._check_holder()
        except BaseException:
            # It may be there all the same, if only the folder could not be synced, or the lock could not be read. Its
            # parts will be given up, and it must be gone before them, or nothing could be restored.
            self._garbage.add(name)
            self._doubtful.add(name)
            with suppress(CheckpointError):
                self.remove_doubtful()
            raise
        self._kept.append(manifest)

    def _remove_garbage(self) -> None:
        self._garbage -= {name for manifest in self._kept for name in (_name(manifest), *manifest.file_names())}
        # Manifests go first: one that is there has all of its parts.
        for name in sorted(self._garbage, key=lambda name: (not name.startswith("manifest-"), name)):
            try:
                self._files.remove(name)
            except CheckpointError as exc:  # the commit stands nevertheless
                log.warning("%s; it is tried again at the next commit", exc)
                return
            self._garbage.remove(name)

    def _read_kept(self, allow_older: bool) -> list[Manifest]:
        names = self._files.names()
        newest_first = sorted(filter(_is_manifest, names), key=_order, reverse=True)
        self._generation = _order(newest_first[0])[0] if newest_first else 0
        kept: list[Manifest] = []
        for name in newest_first:
            if kept and _order(name)[1] >= kept[0].txid:
                continue  # it was replaced, or is of a driver that had lost the checkpoint
            try:
                manifest = self._read(name, set(names))
                if allow_older and not kept:
                    self._verify(manifest)
            except ForeignError:
                raise
            except CheckpointError as exc:
                if not kept and not allow_older:
                    raise CheckpointError(f"{exc}; {WAY_BACK}") from exc
                log.warning("%s; the commit is left out", exc)
                if not kept:
                    self._passed_over.append(name)
            else:
                kept.insert(0, manifest)
            if len(kept) == KEPT_COMMITS:
                break
        commits = len({_order(name)[1] for name in newest_first if kept and _order(name)[1] <= kept[-1].txid})
        has_parts = any(name.endswith(".part") for name in names)
        if kept and not allow_older and commits < KEPT_COMMITS and (has_parts or kept[-1].txid > EMPTY_TXIDS[0]):
            raise CheckpointError(
                f"the checkpoint {self.path!r} has lost a manifest, maybe that of its last commit: there must be "
                f"{KEPT_COMMITS}, and there is only {_name(kept[-1])}; {OLDER_KEY}: true begins with that one"
                f"{'' if kept[-1].parts else ', which holds nothing'}"
            )
        if not kept and has_parts:
            raise CheckpointError(
                f"the checkpoint {self.path!r} holds state, but no manifest that can be read and says what "
                "belongs to it: restore one from a copy, or name another folder to begin anew"
            )
        return kept

    def _read(self, name: str, names: set[str]) -> Manifest:
        path = self._files.path(name)
        size = self._files.size(name)
        if size > MAX_MANIFEST_BYTES:
            raise CheckpointError(f"the manifest {path!r} is damaged: it has {size} bytes")
        manifest = Manifest.from_bytes(self._files.read(name), path)
        if manifest.topology != self._topology:
            raise ForeignError(
                f"the manifest {path!r} is of the topology {manifest.topology!r}, not of {self._topology!r}: a "
                "checkpoint has one topology, name another folder"
            )
        if _name(manifest) != name:
            raise CheckpointError(f"the manifest {path!r} is of the commit {manifest.txid}, not the one of its name")
        if missing := manifest.file_names() - names:
            raise CheckpointError(f"the file {self._files.path(min(missing))!r} is missing, which {path!r} needs")
        return manifest

    def _verify(self, manifest: Manifest) -> None:
        for part in (*manifest.parts, *manifest.acked):
            read_part(self._files, part, ())


def _name(manifest: Manifest) -> str:
    revision, generation = (manifest.extra.get(extra, 0) for extra in (REVISION, GENERATION))
    replaced = f"-{revision:06d}" if revision else ""
    return f"manifest-{manifest.txid:020d}{replaced}{f'-g{generation:06d}' if generation else ''}"


def _order(name: str) -> tuple[int, int, int]:
    """Generation, commit and revision of a manifest: the highest one counts."""
    found = MANIFEST_NAME.fullmatch(name)
    assert found is not None
    return int(found[3] or 0), int(found[1]), int(found[2] or 0)


def _is_manifest(name: str) -> bool:
    return MANIFEST_NAME.fullmatch(name) is not None
