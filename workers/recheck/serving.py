"""Which of a deployment's settings serve a run."""

from __future__ import annotations

from collections.abc import Sequence

from contract.errors import SettingsError
from contract.ledger import Run
from contract.settings import Settings

__all__ = ["refuse_lacking_adapter", "serving"]


def serving(fleet: Sequence[Settings], run: Run) -> Settings:
    """Return the settings of `fleet` that serve the run's model. Raises SettingsError if none do.

    Another model's answers must not be compared with the run's.
    """
    for settings in fleet:
        if settings.serves(run.spec.model):
            return settings
    names = ", ".join(each.served_model for each in fleet)
    raise SettingsError(
        f"{run.run_id} is for {run.spec.model}, but the settings serve {names}.",
        hint="Use a deploy file that serves it: --config FILE.",
    )


def refuse_lacking_adapter(settings: Settings, run: Run) -> None:
    """Raise SettingsError if `settings` lack the run's adapter: every request would be rejected."""
    if run.spec.adapter and run.spec.adapter not in settings.adapters:
        raise SettingsError(
            f"{run.run_id} is for the adapter {run.spec.adapter!r}, but the settings have "
            f"{', '.join(settings.adapters) or 'none'}.",
            hint="Use a deploy file that has it under `adapters`: --config FILE.",
        )
