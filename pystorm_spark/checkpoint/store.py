"""Internal. CheckpointStore: the commits of one topology in one folder."""

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

# Keys in the extras of a manifest: how often the commit was replaced, and the generation of the driver that wrote it.
REVISION, GENERATION = "revision", "generation"
MANIFEST_NAME = re.compile(r"manifest-([-0-9][0-9]{19})(?:-([0-9]{6}))?(?:-g([0-9]{6,}))?")
OLDER_KEY = "topology.state.allow.older.commit"
WAY_BACK = f"set {OLDER_KEY}: true to begin with an older commit that is intact"
KEPT_COMMITS = 2
# Empty manifests, written before the first part. So there are always two, and a lost manifest is noticed.
EMPTY_TXIDS = (-1, 0)


class CheckpointStore:
    """The last commits of a topology. Only the driver that holds the lock of the checkpoint may write.

    Opening a store only reads. A writer calls `clean` before any part is written. `clean` writes the first, empty
    manifests. So parts without a manifest mean that state was lost, and the store refuses them.

    If a driver can lose the lock and keep running, as on Hadoop, the store `is_fenced`. Then `clean` replaces the last
    commit by one of a higher generation, and manifests of an older generation no longer count. The store calls
    `check_holder` after it has written a manifest, and before it removes files that it has listed. `check_holder`
    raises if another driver holds the lock: so no commit is reported that does not count, and no file of a later holder
    is removed.
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
        self._garbage: set[str] = set()  # files to remove; those that could not be removed are retried
        self._doubtful: set[str] = set()  # manifests that may exist although their write failed
        self._passed_over: list[str] = []  # damaged manifests that are newer than the first commit that was kept
        self._check_holder = check_holder
        self._is_fenced = is_fenced
        self._generation = 0
        self._kept = self._read_kept(allow_older)  # oldest first

    @property
    def path(self) -> str:
        """The path of the folder, for error messages."""
        return self._files.path("")

    @property
    def last(self) -> Manifest | None:
        """The last commit; None if there was none and `clean` was not called."""
        return self._kept[-1] if self._kept else None

    def publish(self, manifest: Manifest) -> None:
        """Write `manifest`, which becomes the last commit; then remove files that only older commits needed.

        Files that no commit has needed yet stay: slots may have written them for the next one.
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
        """Atomically replace the last commit by `manifest`, which has the same number.

        The new manifest gets a name of its own, with a higher revision: some file systems cannot replace a file
        atomically.
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
        """Write the first manifests if they are missing, and remove all files that no kept commit needs.

        Call it only while no slot writes: at the start, or after the parts of the next commit were discarded.
        """
        self._generation += self._is_fenced
        if self._is_fenced and self.last is not None:
            self._replace(self.last)
        for txid in EMPTY_TXIDS:
            if self.last is None or self.last.txid < txid:
                self._write(Manifest(self._topology, txid))
        # Damaged manifests stay until there are enough others: too few manifests count as a loss.
        is_short = len(self._kept) < KEPT_COMMITS
        self._discard(lambda name: not (is_short and _is_manifest(name)))

    def check(self, following: Manifest | None = None) -> None:
        """Raise a `StormError` if files that the last commit or `following` needs are missing.

        It is not a `CheckpointError`, because a retry would not bring them back.
        """
        commits = [commit for commit in (self.last, following) if commit is not None]
        needed = {name for commit in commits for name in commit.file_names()}
        if self.last is not None:
            needed.add(_name(self.last))
        # A network file system may cache listings, so a file that a slot has just written may not be listed yet.
        missing = sorted(name for name in needed.difference(self._files.names()) if not self._is_there(name))
        if missing:
            raise StormError(
                f"the checkpoint {self.path!r} was removed or replaced while it was in use: {missing[0]} is missing, "
                "so the committed state could not be restored, and nothing more can be committed"
            )

    def remove_doubtful(self) -> None:
        """Remove manifests of failed commits, or raise. Their parts must not be removed before."""
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
        """Remove the files for which `is_dead` is true, except those that a kept commit needs.

        Nobody may be writing them, or use them later.
        """
        self._discard(is_dead)

    def _discard(self, is_dead: Callable[[str], bool]) -> None:
        dead = list(filter(is_dead, self._files.names()))
        self._check_holder()
        self._garbage.update(dead)
        self._remove_garbage()

    def _write(self, manifest: Manifest) -> None:
        while self._passed_over:  # first: one with a higher revision would take precedence over the new manifest
            self._files.remove(self._passed_over[-1])
            self._passed_over.pop()
        if self._generation:
            manifest = replace(manifest, extra={**manifest.extra, GENERATION: self._generation})
        name = _name(manifest)
        try:
            self._files.write(name, manifest.to_bytes())
            self._check_holder()
        except BaseException:
            # The manifest may exist all the same, for example if only the sync of the folder failed. Its parts will be
            # discarded. It must be removed before them, or the next start would find a commit without its parts.
            self._garbage.add(name)
            self._doubtful.add(name)
            with suppress(CheckpointError):
                self.remove_doubtful()
            raise
        self._kept.append(manifest)

    def _remove_garbage(self) -> None:
        self._garbage -= {name for manifest in self._kept for name in (_name(manifest), *manifest.file_names())}
        # Manifests go first, so that a manifest never lacks its parts.
        for name in sorted(self._garbage, key=lambda name: (not name.startswith("manifest-"), name)):
            try:
                self._files.remove(name)
            except CheckpointError as exc:  # the commit is valid nevertheless
                log.warning("%s; the next commit retries", exc)
                return
            self._garbage.remove(name)

    def _read_kept(self, allow_older: bool) -> list[Manifest]:
        names = self._files.names()
        newest_first = sorted(filter(_is_manifest, names), key=_order, reverse=True)
        self._generation = _order(newest_first[0])[0] if newest_first else 0
        kept: list[Manifest] = []
        for name in newest_first:
            if kept and _order(name)[1] >= kept[0].txid:
                continue  # it was replaced, or a driver wrote it after it had lost the lock
            try:
                manifest = self._read(name, set(names))
                if allow_older and not kept:
                    self._verify(manifest)
            except ForeignError:
                raise
            except CheckpointError as exc:
                if not kept and not allow_older:
                    raise CheckpointError(f"{exc}; {WAY_BACK}") from exc
                log.warning("%s; this commit is ignored", exc)
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
                f"the checkpoint {self.path!r} has lost a manifest, perhaps that of its last commit: there must be "
                f"{KEPT_COMMITS}, but there is only {_name(kept[-1])}; set {OLDER_KEY}: true to begin with that one"
                f"{'' if kept[-1].parts else ', which is empty'}"
            )
        if not kept and has_parts:
            raise CheckpointError(
                f"the checkpoint {self.path!r} holds state, but no readable manifest: restore one from a backup, or "
                "name another folder to begin anew"
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
                f"the manifest {path!r} belongs to the topology {manifest.topology!r}, not to {self._topology!r}; name "
                "another folder"
            )
        if _name(manifest) != name:
            raise CheckpointError(f"the manifest {path!r} holds the commit {manifest.txid}, which is not in its name")
        if missing := manifest.file_names() - names:
            raise CheckpointError(f"the file {self._files.path(min(missing))!r}, which {path!r} needs, is missing")
        return manifest

    def _verify(self, manifest: Manifest) -> None:
        for part in (*manifest.parts, *manifest.acked):
            read_part(self._files, part, ())


def _name(manifest: Manifest) -> str:
    revision, generation = (manifest.extra.get(extra, 0) for extra in (REVISION, GENERATION))
    replaced = f"-{revision:06d}" if revision else ""
    return f"manifest-{manifest.txid:020d}{replaced}{f'-g{generation:06d}' if generation else ''}"


def _order(name: str) -> tuple[int, int, int]:
    """(generation, commit, revision) of a manifest. The highest takes precedence."""
    found = MANIFEST_NAME.fullmatch(name)
    assert found is not None
    return int(found[3] or 0), int(found[1]), int(found[2] or 0)


def _is_manifest(name: str) -> bool:
    return MANIFEST_NAME.fullmatch(name) is not None
