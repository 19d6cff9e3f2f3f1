"""`check`: what would go wrong."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from contract.commands import tell
from contract.settings import load_fleet
from workers.check import check as check_deployment
from workers.commands.options import settings_options
from workers.host.finding import Finding
from workers.host.machine import this_machine

__all__ = ["check"]


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def check(config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check settings, GPUs, engine, model and Redis, and say how to fix problems. Exit code 1 if one is an error."""
    findings = []
    for finding in check_deployment(load_fleet(config, overrides), this_machine()):
        findings.append(finding)
        if not as_json:  # at once: to import vLLM takes long
            tell(f"{finding.level:8}{finding.what:10}{finding.found}" + _remedy(finding))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    sys.exit(1 if any(finding.level == "error" for finding in findings) else 0)


def _remedy(finding: Finding) -> str:
    return f"\n{'':18}→ {finding.remedy}" if finding.remedy else ""
