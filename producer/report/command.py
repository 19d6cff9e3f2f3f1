"""The command `python -m producer report`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import click

from contract.ledger import Run
from contract.names import LAST
from producer.export.files import refuse_unwritable, replacing
from producer.options import as_json, folder, shared_option
from producer.output import echo_json, echo_lines
from producer.session import Session

__all__ = ["report"]

#: Maximum length of the part of a file name that lists other runs.
LONGEST_NAME = 200


@click.command()
@click.argument("run_names", metavar="[RUN…]", nargs=-1)
@click.option("--no-questions", is_flag=True, help="Omit the table of all questions, for very large runs.")
@shared_option
@folder
@as_json
@click.pass_obj
def report(
    session: Session, run_names: tuple[str, ...], no_questions: bool, shared: bool, out: Path, as_json: bool
) -> None:
    """Write an HTML report on the current results of RUN (default: the newest run).

    With several runs, it also compares the first one with each of the others. The file is self-contained and needs no
    network: it can be mailed, put on a server, or printed.
    """
    from producer.report.page import build  # imported late: no other command needs the template engine's loader

    runs = session.runs(run_names or (LAST,))
    path = out / runs[0].run_id / file_name(runs)
    refuse_unwritable(path.parent)  # a page of many questions takes a while
    page = build(session.ledger, runs, session.live_workers(), questions=not no_questions, shared=shared)
    with replacing(path) as file:
        file.writelines(page)
    if as_json:
        echo_json({"run_ids": [run.run_id for run in runs], "files": [str(path)]})
    else:
        echo_lines([("report", str(path))])


def file_name(runs: Sequence[Run]) -> str:
    """Return `report.html`, or `report-with-OTHER.html` if there are further runs: other runs have another name."""
    others = "+".join(run.run_id for run in runs[1:])
    if len(others) > LONGEST_NAME:
        digest = "-" + hashlib.sha256(others.encode()).hexdigest()[:8]
        others = others[: LONGEST_NAME - len(digest)] + digest
    return f"report-with-{others}.html" if others else "report.html"
