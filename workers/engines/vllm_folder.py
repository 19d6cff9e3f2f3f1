"""A folder for what vLLM's processes leave: Unix sockets, even after an orderly end, and a file of torch's store.

Only these go there, and how the processes report failed boots. A temporary directory (TMPDIR) of a worker's own would
also hold what makes the next boot faster, such as torch's compiled code.

A killed process cannot remove its folder; the next process that makes one does. A lock tells which folders are still in
use: the kernel releases it when the last process that has it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contract.errors import EngineError
from contract.held import abandoned
from contract.process import boot_id

__all__ = ["VARIABLE", "vllm_folder"]

#: vLLM's environment variable with the folder of its sockets.
VARIABLE = "VLLM_RPC_BASE_PATH"
PREFIX = "mcqueue-"
#: Of 103 bytes that a socket's path may have (on macOS; on Linux 107), vLLM adds a slash and a UUID.
LONGEST_BYTES = 103 - 37


@contextmanager
def vllm_folder() -> Iterator[tuple[int, ...]]:
    """Let vLLM use a new folder within the block, and remove it afterwards. Also remove what killed processes left.

    If the environment already names a folder, as a launcher's does for its workers, that one is used. It is made again
    if it is gone: what cleans up temporary directories (systemd-tmpfiles, tmpwatch) removes it after some days. Where
    the temporary directory has too long a path, or no room, vLLM chooses a folder itself.

    Yields the descriptors that processes must inherit which use the folder and may outlive this one. Raises EngineError
    if the folder that the environment names cannot be made.
    """
    if named := os.environ.get(VARIABLE):
        _make_sure_of(Path(named))
        yield ()
        return
    folder, lock = _made()
    if folder and len(os.fsencode(folder)) <= LONGEST_BYTES:
        os.environ[VARIABLE] = folder
    try:
        yield lock
    finally:
        os.environ.pop(VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)
        for each in lock:
            os.close(each)


def _make_sure_of(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as trouble:
        hint = "vLLM's processes keep their sockets there. Name a folder that you may write to, or unset it."
        raise EngineError(f"{VARIABLE}: {folder} cannot be made: {trouble.strerror}.", hint=hint) from None


def _made() -> tuple[str, tuple[int, ...]]:
    """Return a new folder and its lock; an empty name where there can be none."""
    try:
        _remove_abandoned(Path(tempfile.gettempdir()))
        folder = tempfile.mkdtemp(prefix=PREFIX)
    except OSError:
        return "", ()
    return folder, _locked(Path(folder))


def _locked(folder: Path) -> tuple[int, ...]:
    """Lock `folder`; nothing is returned, and nobody will remove it, where the file system has no locks."""
    try:
        lock = os.open(folder / "new", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        return ()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "new").rename(_lock_of(folder))  # not before: a lock that nobody holds means an abandoned folder
    except OSError:
        os.close(lock)
        return ()
    return (lock,)


def _remove_abandoned(temporary: Path) -> None:
    """Remove this user's folders in `temporary`, made here since this system booted, that no process uses any more."""
    for folder in list(temporary.glob(f"{PREFIX}*")):
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid():
                with abandoned(_lock_of(folder), os.O_RDWR):
                    shutil.rmtree(folder)


def _lock_of(folder: Path) -> Path:
    """Return the lock of `folder`. It is of this boot: another machine, on a shared file system, may not see locks."""
    return folder / f"lock-{boot_id()}"
