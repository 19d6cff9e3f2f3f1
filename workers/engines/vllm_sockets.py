"""A folder for the Unix sockets between vLLM's processes, which vLLM leaves behind, even after an orderly end.

Only they go there, and how these processes report failed boots. A temporary directory (TMPDIR) of a worker's own would
also hold what makes the next boot faster, such as torch's compiled code.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["VARIABLE", "socket_folder"]

#: vLLM's environment variable with the folder of its sockets.
VARIABLE = "VLLM_RPC_BASE_PATH"
#: Of 103 bytes that a socket's path may have (on macOS; on Linux 107), vLLM adds a slash and a UUID.
LONGEST_BYTES = 103 - 37


@contextmanager
def socket_folder() -> Iterator[None]:
    """Within the block, let vLLM put its sockets into a new folder, which is removed afterwards.

    Not if the environment already names one, as a worker's does that a launcher started, nor if the temporary directory
    has too long a path, or no room.
    """
    if VARIABLE in os.environ:
        yield
        return
    folder = _made()
    if folder and len(os.fsencode(folder)) <= LONGEST_BYTES:
        os.environ[VARIABLE] = folder
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)


def _made() -> str:
    try:
        return tempfile.mkdtemp(prefix="mcqueue-")
    except OSError:
        return ""
