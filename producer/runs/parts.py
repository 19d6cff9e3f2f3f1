"""Parts of a run configuration that read what they name: examples, the judge's template, and an index's manifest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from contract.errors import InputError, QuestionFileError, RunConfigError
from contract.explain import explain
from contract.index import can_answer, highest_score, read_manifest
from contract.mode import Mode
from contract.prompts import variables_of
from contract.question import Question
from contract.settings import refuse_no_server
from contract.spec import ExampleSelection, FewShot, IndexKind, Judge, Query, Retrieval
from contract.yaml_files import LONGEST
from producer.readers import HowToRead, Row, Source, opened, understand
from producer.runs.templates import load_prompt

__all__ = ["FewShotConfig", "FileName", "JudgeConfig", "RagConfig"]


def _can_be_a_path(value: str) -> str:
    if "\0" in value or any(len(part.encode()) > 255 for part in Path(value).parts):
        raise ValueError("not a valid file name")
    return value


#: A path, or anything else that `enqueue` accepts as FILE.
FileName = Annotated[str, AfterValidator(_can_be_a_path)]


class FewShotConfig(BaseModel):
    """Few-shot examples before each question; none if k = 0."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    #: Examples before each question.
    k: int = Field(default=0, ge=0, le=64)
    #: Question file, folder or dataset that the examples are taken from; not the questions that are asked.
    file: FileName = ""
    #: The split of a folder or dataset that they are taken from.
    split: str = ""
    #: The first k for all, k drawn per question by the run's seed, or the first k of the question's own subject.
    selection: ExampleSelection = ExampleSelection.FIXED
    #: Field of the examples that holds the reasoning to show before their answer (`generate` and `vote` only).
    rationale: str = ""

    @model_validator(mode="after")
    def _examples_come_from_a_file(self) -> Self:
        if self.k and not self.file:
            raise ValueError("k needs a file with examples: set few_shot.file")
        idle = sorted(self.model_fields_set - {"k"})
        if idle and "k" not in self.model_fields_set:
            raise ValueError(f"{', '.join(idle)} alone has no effect: set few_shot.k to the number of examples")
        return self

    def load(self, asked: Source | None = None) -> tuple[FewShot | None, str]:
        """Load the examples with their pool, for the questions of `asked`, and say how their file was read.

        Raises RunConfigError for a file that cannot be read, a bad row or one without a key, and too few examples.
        """
        if not self.k:
            return None, ""
        try:
            pool, read = self._read(asked)
        except InputError as trouble:  # the questions' file may be called alike
            raise RunConfigError(f"few_shot.file: {_of_examples(str(trouble))}") from trouble
        try:
            few_shot = FewShot(k=self.k, selection=self.selection, rationale=self.rationale, pool=pool)
        except ValidationError as trouble:
            raise RunConfigError(explain(trouble, FewShot, f"few_shot, examples from {self.file}")) from None
        return few_shot, read

    def _read(self, asked: Source | None) -> tuple[tuple[Question, ...], str]:
        """Return the examples, and how their file was read. Raises InputError."""
        pool = []
        with opened(self.file, HowToRead(split=self.split)) as source:
            file = understand(source, understand(asked) if asked else None)
            for row in file.rows():
                if row.trouble is not None:
                    raise row.trouble
                if row.question is not None:
                    if row.question.answer is None:
                        raise _unsolved(row, row.question.id)
                    pool.append(row.question)
        return tuple(pool), f"{self.file} as {file.title}, answers {file.way.value}"


def _of_examples(told: str) -> str:
    """Return what is `told` of a question file with the setting by which an example file's split is chosen.

    >>> _of_examples("data: contains several splits. Choose one with --split NAME.")
    'data: contains several splits. Choose one with few_shot.split=NAME.'
    """
    return re.sub(r"--split (?=\S)", "few_shot.split=", told).replace("--split", "few_shot.split")


def _unsolved(row: Row, question_id: str) -> QuestionFileError:
    called = "an example" if row.content_id else f"example {question_id}"  # a hash would not be found in the file
    hint = "Add its key, or leave it out of the file."
    return QuestionFileError(f"{called} has no answer.", path=row.file, line=row.line, hint=hint)


class JudgeConfig(BaseModel):
    """How free-form answers are graded (`judge` only)."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    #: Grading template, by name or path.
    prompt: FileName = "grade"
    #: Maximum number of tokens in the judge's answer.
    max_tokens: int = Field(default=256, ge=1)
    #: Number of retries after an answer that is not the requested JSON.
    retries: int = Field(default=2, ge=0, le=10)
    #: Base URL of an OpenAI-compatible server that grades; empty: the model under test grades itself.
    server: str = ""
    #: The model's name on that server.
    model: str = ""
    #: How much it reasons before it grades, in its own words (`minimal`, `low`, `medium`, `high`); empty: as the server
    #: has it. A model that grades itself does with `sampling.reasoning_effort`.
    reasoning_effort: str = ""

    @field_validator("server")
    @classmethod
    def _is_a_url_without_secrets(cls, value: str) -> str:
        refuse_no_server(value, "judge_api_key in the workers' settings")
        return value

    def load(self) -> Judge:
        """Load the judge with its template's text. Raises RunConfigError."""
        prompt = load_prompt(self.prompt, Mode.JUDGE, grades=True)
        if "response" not in variables_of(prompt):
            raise RunConfigError(
                f"judge.prompt {prompt.name!r} does not show the answer that is to be graded.",
                hint="Show {{ response }} in the template, as the prompt grade does.",
            )
        try:
            return Judge.model_validate({**self.model_dump(), "prompt": prompt})
        except ValidationError as trouble:
            raise RunConfigError(explain(trouble, Judge, "judge")) from None


class RagConfig(BaseModel):
    """Where the context of a prompt comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    #: Whether passages are retrieved.
    enabled: bool = False
    #: Folder of the index; the manifest is read here, the passages on the machines of the retrieval workers.
    index: FileName = ""
    #: How to search the index; null: by its own kind.
    kind: IndexKind | None = None
    #: Number of passages retrieved per question.
    retrieval_top_k: int = Field(default=5, ge=1, le=1000)
    #: Passages with a lower score are dropped; null: none. The scale is that of the kind, or of the reranker.
    retrieval_score_threshold: float | None = Field(default=None, allow_inf_nan=False)
    #: What is searched for: the question alone, or with its choices.
    query: Query = Query.QUESTION
    #: Use a question's own `context`, if it has one, instead of retrieving. Works without an index too.
    use_context_field: bool = False
    #: Maximum number of tokens of all passages together; null: as many as fit in the model's context.
    max_context_tokens: int | None = Field(default=None, ge=1)
    #: Cross-encoder that reranks the `rerank_from` best passages, by id or path; empty: no reranking.
    reranker: str = ""
    #: Number of candidate passages passed to the reranker.
    rerank_from: int = Field(default=50, ge=1, le=1000)

    @model_validator(mode="after")
    def _says_whether_it_retrieves(self) -> Self:
        idle = sorted(self.model_fields_set - {"enabled", "use_context_field"})
        if idle and "enabled" not in self.model_fields_set:
            raise ValueError(
                f"{', '.join(idle)} alone has no effect: set rag.enabled to true, or to false for closed book"
            )
        return self

    @model_validator(mode="after")
    def _reranks_by_something(self) -> Self:
        if self.enabled and "rerank_from" in self.model_fields_set and not self.reranker:
            raise ValueError("rerank_from has no effect without rag.reranker: set both, or neither")
        return self

    @model_validator(mode="after")
    def _retrieval_has_an_index(self) -> Self:
        if self.enabled and not self.index:
            raise ValueError("retrieval needs an index: set rag.index to a folder built by `producer index`")
        return self

    def load(self) -> Retrieval | None:
        """Load the retrieval spec, reading the index's manifest. Raises IndexUnusable, RunConfigError."""
        if not self.enabled:
            return None
        manifest = read_manifest(Path(self.index))
        kind = self.kind or manifest.plan.kind
        if not can_answer(manifest.plan.kind, kind):
            raise RunConfigError(
                f"rag.kind: {self.index} is a {manifest.plan.kind} index and cannot be searched as {kind}.",
                hint="Leave rag.kind out, or build a hybrid index.",
            )
        threshold, highest = self.retrieval_score_threshold, highest_score(kind)
        if not self.reranker and threshold is not None and highest is not None and threshold > highest:
            raise RunConfigError(
                f"rag.retrieval_score_threshold: {threshold:g} drops every passage: {kind} scores are at most"
                f" {highest:.3g}.",
                hint="docs/retrieval.md describes the scale of each kind.",
            )
        asked = self.model_dump(exclude={"enabled", "index", "kind", "use_context_field"})
        plan = manifest.plan
        return Retrieval(
            index=plan.name,
            index_digest=manifest.digest,
            kind=kind,
            question_hashes=plan.question_hashes,
            **asked,
        )
