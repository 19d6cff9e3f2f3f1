"""What is said of settings that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract import load_settings
from contract.errors import SettingsError

__all__ = ["refusal"]


def refusal(config: Path | None = None, *overrides: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(config, overrides)
    return str(caught.value)
