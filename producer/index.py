"""`python -m producer index`: builds an index that workers can search from a corpus."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource
from pydantic import ValidationError

from contract.commands import note
from contract.errors import InputError
from contract.index import (
    DEFAULT_ENCODER,
    PASSAGES,
    PLAN,
    REJECTED,
    Bm25Options,
    Chunking,
    DenseOptions,
    IndexPlan,
    Manifest,
    Precision,
    StopWords,
    Structure,
    Words,
    can_answer,
    read_manifest,
)
from contract.names import distinct_slug
from contract.spec import IndexKind
from contract.wording import number
from producer.bar import progress_console
from producer.corpus.document import PARTS
from producer.corpus.index_folder import refuse_foreign, unfinished
from producer.corpus.progress import Steps
from producer.corpus.read import Corpus, is_of_texts
from producer.corpus.store import Stored, store_passages
from producer.corpus.validation import DocumentCheck
from producer.intake.bad_rows import BadRows, write_rejected_row
from producer.intake.options import check_encoding, map_pairs
from producer.options import GivenPath, as_json
from producer.output import Lines, echo_json, echo_lines

__all__ = ["index"]

#: Largest number of field names that are listed.
MOST_FIELDS = 12
#: Default passage length, in words and punctuation marks, for text files: after subword tokenization this is about the
#: longest input of the packaged encoder.
FILE_TOKENS = 180
#: Kind of search → the parameters of `index` that only it uses.
_SEARCH_OPTIONS = {
    IndexKind.BM25: tuple(Bm25Options.model_fields),
    IndexKind.DENSE: ("encoder_id", "query_prompt", "passage_prompt", "device", "structure", "precision"),
}


@click.command()
@click.argument("path", metavar="CORPUS", type=GivenPath(path_type=Path))
@click.option("-o", "--out", type=GivenPath(path_type=Path), required=True, help="Folder of the new index.")
@click.option(
    "--kind",
    type=click.Choice([each.value for each in IndexKind]),
    default=IndexKind.BM25.value,
    show_default=True,
    help="Search by words (BM25), by an encoder's vectors, or by both.",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=0),
    help=f"Maximum number of words and punctuation marks per passage; 0: do not split documents. "
    f"[default: {FILE_TOKENS} for texts, else 0]",
)
@click.option("--overlap", type=click.IntRange(min=0), default=0, help="Tokens shared with the previous passage.")
@click.option("--by-heading", is_flag=True, help="Split at Markdown headings first.")
@click.option(
    "--stop-words",
    type=click.Choice(get_args(StopWords)),
    default="en",
    show_default=True,
    help="Stop words that BM25 ignores.",
)
@click.option(
    "--words",
    type=click.Choice([each.value for each in Words]),
    default=Words.SPACED.value,
    show_default=True,
    help="What BM25 takes for a word: what stands between spaces or other signs, or words of any script, also of "
    "those without spaces (Chinese, Japanese, Thai) or with marks (Hindi).",
)
@click.option(
    "--k1",
    type=click.FloatRange(min=0),
    default=Bm25Options().k1,
    show_default=True,
    help="BM25: the smaller, the sooner more occurrences of a word stop to matter.",
)
@click.option(
    "--b",
    type=click.FloatRange(min=0, max=1),
    default=Bm25Options().b,
    show_default=True,
    help="BM25: how much long passages are put at a disadvantage.",
)
@click.option(
    "--encoder",
    "encoder_id",
    default=DEFAULT_ENCODER,
    show_default=True,
    help="Encoder that computes the vectors: a packaged one, a Hugging Face id, or a folder.",
)
@click.option(
    "--query-prompt",
    metavar="TEXT",
    help="Prefix that the encoder expects before a query, for example 'query: '.  [default: the encoder's own]",
)
@click.option("--passage-prompt", metavar="TEXT", help="The same for passages, for example 'passage: '.")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Where vectors are computed: cpu, cuda, cuda:1, …; auto: an unused GPU if there is one, else the CPU.",
)
@click.option(
    "--structure",
    type=click.Choice([each.value for each in Structure]),
    default=Structure.EXACT.value,
    show_default=True,
    help="How vectors are searched: exhaustively, or with a graph, which is faster but may miss some.",
)
@click.option(
    "--precision",
    type=click.Choice([each.value for each in Precision]),
    default=Precision.FLOAT32.value,
    show_default=True,
    help="How vectors are stored: in full precision, or as one bit per number, a thirty-second of the size.",
)
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="PART=FIELD,…",
    help="Fields that hold id, text, path and question_hash, for example id=pmid,text=title+abstract.",
)
@click.option("--encoding", default="", metavar="NAME", help="Text encoding, if it is neither UTF-8 nor UTF-16.")
@click.option("--skip-bad", is_flag=True, help="Skip bad documents and write them to OUT/rejected.jsonl.")
@click.option("--force", is_flag=True, help="Replace OUT even if it is a folder with other content.")
@as_json
def index(path: Path, out: Path, device: str, skip_bad: bool, force: bool, as_json: bool, **rest: Any) -> None:
    """Build an index over CORPUS: JSON Lines, JSON, CSV, TSV, Parquet, a text (.txt, .md), or a folder of texts.

    Records may be packed (.gz, .zst), except in Parquet. A record has `text` and optionally `id`, `path` and
    `question_hash`. An existing index in OUT stays in use until the new one is complete, and is then kept as
    OUT.replaced for the runs that were created for it.
    """
    _refuse_idle_options(IndexKind(rest["kind"]))
    corpus = _corpus(rest, path)
    refuse_foreign(out, path, force=force)
    chunking = _chunking(rest, path)
    with unfinished(out) as folder, Steps(progress_console()) as steps:
        with (folder / REJECTED).open("w", encoding="utf-8") as rejected:
            gate = DocumentCheck(path, partial(write_rejected_row, rejected) if skip_bad else None)
            documents = gate.good(steps.counted("reading", corpus.documents()))
            stored = store_passages(documents, chunking, folder / PASSAGES, path)
        if not gate.troubles.count:
            (folder / REJECTED).unlink()
        plan = IndexPlan(
            name=distinct_slug(out.resolve().name),
            corpus_digest=stored.digest,
            chunking=chunking,
            counts=stored.counts,
            question_hashes=stored.question_hashes,
            **_search_structure(rest),
        )
        (folder / PLAN).write_text(plan.model_dump_json(), encoding="utf-8")
        _build(folder, device, steps)
        manifest = read_manifest(folder)  # before it is OUT: that may be the current folder, which is another then
    if as_json:
        echo_json(_to_json(out, manifest, corpus, gate.troubles, stored))
    else:
        echo_lines(_lines(out, manifest, corpus, gate.troubles, stored))


def _refuse_idle_options(kind: IndexKind) -> None:
    """Raise UsageError for an option of a search that an index of `kind` has not: `--encoder` needs vectors."""
    context = click.get_current_context()
    for asked, names in _SEARCH_OPTIONS.items():
        for name in names if not can_answer(kind, asked) else ():
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = next(each.opts[0] for each in context.command.params if each.name == name)
                raise click.UsageError(f"{option} has no effect with --kind {kind}.")


def _search_structure(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an IndexPlan that describe the search."""
    found: dict[str, Any] = {"kind": IndexKind(options["kind"])}
    if can_answer(found["kind"], IndexKind.BM25):
        found["bm25"] = _bm25_options(options)
    if can_answer(found["kind"], IndexKind.DENSE):
        dense = DenseOptions(structure=Structure(options["structure"]), precision=Precision(options["precision"]))
        encoder = {name: options[name] for name in ("encoder_id", "query_prompt", "passage_prompt")}
        found |= {"dense": dense, **encoder}
    return found


def _bm25_options(options: Mapping[str, Any]) -> Bm25Options:
    try:
        return Bm25Options(**{name: options[name] for name in Bm25Options.model_fields})
    except ValidationError as trouble:  # NaN is in every range of click's
        wrong = trouble.errors()[0]
        raise click.UsageError(f"--{wrong['loc'][0]}: {wrong['msg']}.") from None


def _corpus(options: Mapping[str, Any], path: Path) -> Corpus:
    if options["mapping"] and is_of_texts(path):
        raise click.UsageError("--map: texts have no fields.")
    encoding = check_encoding(options["encoding"]) if options["encoding"] else ""
    mapping: dict[str, list[str]] = {}
    for part, fields in map_pairs(options["mapping"], PARTS).items():
        mapping[part] = [name.strip() for name in fields.split("+") if name.strip()]
        if not mapping[part]:
            raise InputError(f"--map: {part}= names no field.", hint=f"For example --map {part}=FIELD.")
    return Corpus(path, encoding, mapping)


def _chunking(options: Mapping[str, Any], corpus: Path) -> Chunking:
    tokens = options["tokens"]
    if tokens is None and is_of_texts(corpus):
        tokens = FILE_TOKENS
    try:
        return Chunking(tokens=tokens or None, overlap=options["overlap"], by_heading=options["by_heading"])
    except ValidationError as trouble:
        raise click.UsageError(trouble.errors()[0]["msg"].removeprefix("Value error, ")) from None


def _build(folder: Path, device: str, steps: Steps) -> None:
    """Build the search structure in a separate worker process, which reports its progress as lines of JSON.

    Raises InputError with the error that the process reports.
    """
    command = [sys.executable, "-m", "workers", "index-build", str(folder), "--device", device]
    error = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as child:
        try:
            assert child.stdout is not None
            for line in child.stdout:
                event = json.loads(line)
                error = error or event.get("error", "")
                _show_event(event, steps)
        except BaseException:
            child.terminate()
            raise
    if child.returncode:
        hint = "" if error else "See its own message above."
        raise InputError(error or f"Building the index failed with exit code {child.returncode}.", hint=hint)


def _show_event(event: Mapping[str, Any], steps: Steps) -> None:
    """Show an event of the builder: {step, done, total} or {note}; an {error} is raised once it has ended."""
    if "step" in event:
        steps.show(event["step"], event["done"], event["total"])
    elif "note" in event:
        note(event["note"])


def _to_json(out: Path, manifest: Manifest, corpus: Corpus, troubles: BadRows, stored: Stored) -> dict[str, Any]:
    return {
        "path": str(out),
        "digest": manifest.digest,
        "skipped": troubles.count,
        "skipped_kinds": dict(troubles.kinds.most_common()),
        "repeated": stored.repeated,
        "longest_passage": dict(zip(("id", "characters"), stored.longest, strict=True)),
        "ids_are_hashes": corpus.lacks_ids,
        "fields_left_alone": corpus.left_alone(),
        "files_left_alone": dict(corpus.other_files),
        **manifest.model_dump(mode="json"),
    }


def _lines(out: Path, manifest: Manifest, corpus: Corpus, troubles: BadRows, stored: Stored) -> Lines:
    plan, encoder = manifest.plan, manifest.encoder
    lines = [
        ("index", f"{out} ({plan.kind})"),
        ("passages", f"{plan.counts.passages:,} from {number(plan.counts.documents, 'document')}"),
        ("longest", f"passage {stored.longest[0]} with {number(stored.longest[1], 'character')}"),
        ("digest", manifest.digest),
    ]
    if encoder and plan.dense:
        lines.append(
            ("vectors", f"{encoder.id}, {encoder.dimensions} × {plan.dense.precision}, {plan.dense.structure}")
        )
    if troubles.count:
        kinds = ", ".join(troubles.by_kind())
        lines.append(("skipped", f"{number(troubles.count, 'document')}: {kinds}; see {out / REJECTED}"))
    if stored.repeated:
        what = "with exactly the same text as another: a search that finds one finds both, and each takes a rank"
        if plan.dense and plan.dense.structure is Structure.HNSW:
            what += "; where a text is there dozens of times, the graph also misses others: use --structure exact"
        lines.append(("repeats", f"{number(stored.repeated, 'passage')} {what}"))
    if corpus.lacks_ids:
        what = "hashes of the texts, as there is no field id or _id; if another has them, add --map id=FIELD"
        lines.append(("ids", what))
    if others := corpus.other_files:
        files = ", ".join(number(count, f"{suffix or 'other'} file") for suffix, count in others.most_common())
        lines.append(("ignored", f"{files}: only .txt and .md are read"))
    if left_alone := corpus.left_alone():
        shown = ", ".join(left_alone[:MOST_FIELDS]) + (", …" if len(left_alone) > MOST_FIELDS else "")
        lines.append(("ignored", f"{shown}; add fields to the passages with --map, as in text=title+text"))
    return lines
