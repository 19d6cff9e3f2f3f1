"""Who may import whom. The whole code is read, function bodies included; only the last tests run any."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import pytest

from tests.support import ROOT

PACKAGES = ("contract", "producer", "workers")
#: From the bottom up: a module imports only what stands before it.
CONTRACT_ORDER = (
    "errors",
    "variables",
    "sanitize",
    "wording",
    "tables",
    "address",
    "suggested",
    "commands",
    "engine_info",
    "models",
    "logs",
    "question",
    "turns",
    "mode",
    "spec",
    "names",
    "verdict",
    "relevance",
    "yaml_files",
    "layers",
    "explain",
    "index",
    "settings.fields",
    "settings.loading",
    "settings",
    "keys",
    "choice_order",
    "prompts",
    "marking",
    "priority",
    "chunks",
    "connection",
    "process",
    "locks",
    "ledger.run",
    "ledger.base",
    "ledger.redis",
    "ledger.memory",
    "ledger",
    "prefix_order",
    "queue.messages",
    "queue.app",
    "queue.sending",
    "queue.backlog",
    "queue.restoring",
    "queue",
    "held",
    "fleet",
    "pace",
    "metrics",
    "sender_lock",
    "fair_share",
    "audit",
)
BROKER = {"celery", "kombu", "redis"}
FREE_OF_BROKER = (
    "workers.scoring",
    "workers.pipeline",
    "workers.verdicts",
    "workers.messages.batching",
    "workers.stages",
    "workers.engines",
    "workers.retrieval",
    "workers.gpus.groups",
)
HEAVY = {"vllm", "torch", "transformers", "sentence_transformers", "faiss", "bm25s"}
HEAVY_AT = {
    f"workers.engines.{name}"
    for name in (
        "engine_thread",
        "engine_boot",
        "cpu_norm",
        "cpu_sampling",
        "sampling_params",
        "packaged",
        "arguments",
        "installed",
        "vllm_plugin",
        "mig_instance",
        "model_files",
        "model_tokenizer",
    )
} | {f"workers.retrieval.{name}" for name in ("bm25", "build", "dense", "encoder", "sentence_models")}


class Import(NamedTuple):
    """One imported module, as named, and where."""

    target: str
    #: Not inside a function: it happens when the module is imported.
    at_import: bool
    #: Only for the type checker.
    typing_only: bool = False


def imports_of(source: str, modules: frozenset[str] = frozenset()) -> list[Import]:
    """Every import in `source`; `from package import name` means the submodule where `modules` has one."""
    return list(_walk(ast.parse(source), modules, at_import=True, typing_only=False))


def _walk(node: ast.AST, modules: frozenset[str], *, at_import: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(each.name, at_import, typing_only) for each in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: relative imports are not used here"
            for each in child.names:
                submodule = f"{child.module}.{each.name}"
                yield Import(submodule if submodule in modules else str(child.module), at_import, typing_only)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            guard = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
            yield from _walk(child, modules, at_import=at_import and not function, typing_only=typing_only or guard)


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Every module of ours with its text."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


@lru_cache(maxsize=1)
def house() -> dict[str, list[Import]]:
    """Every module of ours with its imports."""
    modules = frozenset(sources())
    return {name: imports_of(source, modules) for name, source in sources().items()}


@cache
def offered(module: str) -> frozenset[str]:
    """What is in the `__all__` of a module of ours."""
    for node in ast.parse(sources()[module]).body:
        if isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == ["__all__"]:
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def inside(module: str, packages: tuple[str, ...] | set[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


def offenders(importers: tuple[str, ...], forbidden: set[str]) -> list[str]:
    """`importer → target` for each import that must not be."""
    return [
        f"{name} → {each.target}"
        for name, imported in house().items()
        if inside(name, importers)
        for each in imported
        if inside(each.target, forbidden)
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b, c", [Import("a.b", True), Import("c", True)]),
        ("from a import b", [Import("a.b", True)]),
        ("from a import other", [Import("a", True)]),
        ("try:\n  import a\nexcept ImportError:\n  import c", [Import("a", True), Import("c", True)]),
        ("class A:\n  import a", [Import("a", True)]),
        ("def f():\n  if x:\n    import a", [Import("a", False)]),
        ("class A:\n  async def f(self):\n    from a import b", [Import("a.b", False)]),
        ("if TYPE_CHECKING:\n  import a", [Import("a", True, True)]),
        ("if typing.TYPE_CHECKING:\n  from a import b", [Import("a.b", True, True)]),
    ],
)
def test_the_walk_finds_every_import_and_knows_when_it_happens(source: str, expected: list[Import]) -> None:
    assert imports_of(source, frozenset({"a", "a.b", "c"})) == expected


def test_the_walk_reads_the_whole_house() -> None:
    assert {"contract", "contract.ledger", "producer.cli", "workers.app", "workers.engines.vllm"} <= house().keys()
    assert Import("contract.errors", at_import=True) in house()["contract.ledger.redis"]


def test_a_name_that_another_module_imports_is_in_the_all_of_its_own() -> None:
    """Who changes a module sees there what others rely on."""
    kept_back = [
        f"{name} → {node.module}.{each.name}"
        for name, source in sources().items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module in sources()
        for each in node.names
        if f"{node.module}.{each.name}" not in sources() and each.name not in offered(node.module)
    ]
    assert kept_back == []


def test_producer_and_workers_never_import_each_other() -> None:
    assert offenders(("producer",), {"workers"}) + offenders(("workers",), {"producer"}) == []


def test_the_contract_imports_neither_side() -> None:
    assert offenders(("contract",), {"producer", "workers"}) == []


def test_no_package_imports_tests_demo_or_benchmarks() -> None:
    assert offenders(PACKAGES, {"tests", "demo", "benchmarks", "scripts"}) == []


@pytest.mark.parametrize("module", FREE_OF_BROKER)
def test_stages_scoring_and_engines_know_neither_celery_nor_redis(module: str) -> None:
    assert [name for name in house() if inside(name, (module,))], "the rule speaks of a module that is gone"
    assert offenders((module,), BROKER) == []


def test_the_benchmarks_import_nothing_of_the_tests() -> None:
    programs = list((ROOT / "benchmarks").rglob("*.py"))
    imported = {path: imports_of(path.read_text(encoding="utf-8")) for path in programs}
    found = [
        f"{path.name} → {each.target}"
        for path in programs
        for each in imported[path]
        if inside(each.target, ("tests",))
    ]
    assert (len(programs) > 20, found) == (True, [])


def test_the_heavy_libraries_are_imported_in_few_modules_and_only_inside_functions() -> None:
    found = [(name, each) for name, imported in house().items() for each in imported if inside(each.target, HEAVY)]
    assert {name for name, _ in found} == HEAVY_AT
    assert [f"{name} → {each.target}" for name, each in found if each.at_import and not each.typing_only] == []


def test_tests_import_the_heavy_libraries_when_they_run_as_every_process_collects_them_all() -> None:
    found = {path: imports_of(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    assert len(found) > 200
    assert [
        f"{path.name} → {each.target}"
        for path, imported in found.items()
        for each in imported
        if each.at_import and inside(each.target, HEAVY)
    ] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_of_a_package_import_each_other_in_a_circle_not_even_late_or_for_types(package: str) -> None:
    graph = {
        name: {each.target for each in imported if inside(each.target, (package,)) and each.target != name}
        for name, imported in house().items()
        if inside(name, (package,))
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as trouble:
        pytest.fail(" → ".join(reversed(trouble.args[1])))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folders_of_a_package_import_each_other_in_a_circle(package: str) -> None:
    folders = {name for name in house() if any(inside(other, (name,)) for other in house() if other != name)}

    def folder_of(module: str) -> str:
        """The folder right in the package that the module is in; the module itself where it is in none."""
        outermost = ".".join(module.split(".")[:2])
        return outermost if outermost in folders else module

    graph: dict[str, set[str]] = {}
    for name, imported in house().items():
        if inside(name, (package,)) and name != package:
            here = folder_of(name)
            there = {folder_of(each.target) for each in imported if inside(each.target, (package,))}
            graph.setdefault(here, set()).update(there - {here, package})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as trouble:
        pytest.fail(" → ".join(reversed(trouble.args[1])))


def test_inside_the_contract_nothing_imports_what_is_built_upon_it() -> None:
    modules = {name.removeprefix("contract.") for name in house() if name.startswith("contract.")}
    assert modules == set(CONTRACT_ORDER), "a new module needs its place in CONTRACT_ORDER"
    upward = []
    for height, module in enumerate(CONTRACT_ORDER):
        below = {f"contract.{each}" for each in CONTRACT_ORDER[:height]}
        targets = {each.target for each in house()[f"contract.{module}"] if inside(each.target, ("contract",))}
        upward += [f"{module} → {each}" for each in sorted(targets - below)]
    assert upward == []


def test_both_sides_can_be_imported_without_the_heavy_libraries() -> None:
    heavy = HEAVY | {"numba"}
    code = (
        "import sys, contract, producer.cli, workers.app, workers.cli; "
        "producer.cli.main.all_commands(); workers.cli.main.all_commands(); "
        f"print(*{heavy!r} & set(sys.modules))"
    )
    fresh = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (fresh.returncode, fresh.stdout.strip()) == (0, ""), fresh.stderr


def test_a_worker_starts_without_what_only_some_workers_need() -> None:
    unneeded = {"numpy", "openai"}
    code = "import sys, workers.app; print(*sys.modules)"
    fresh = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not unneeded & set(fresh.stdout.split())


@pytest.mark.parametrize("command", ["status", "watch", "export", "runs", "show", "pause"])
def test_a_command_about_a_run_starts_without_the_readers_of_question_files_and_the_http_server(command: str) -> None:
    unneeded = ["producer.readers", "producer.intake.survey", "producer.http", "producer.suite", "producer.report"]
    assert not set(unneeded) & modules_of(command)


@pytest.mark.parametrize("command", ["export", "report", "compare", "runs", "show", "inspect", "index"])
def test_a_command_that_sends_no_questions_starts_without_celery(command: str) -> None:
    assert not {"celery", "kombu"} & modules_of(command)


def test_a_command_that_sends_questions_needs_celery() -> None:
    assert "celery" in modules_of("enqueue")


def test_a_launcher_starts_without_what_only_its_workers_and_other_commands_need() -> None:
    unneeded = {"celery", "kombu", "numpy", "openai", "workers.scoring", "workers.tuning", "workers.recheck.rescoring"}
    assert not unneeded & modules_of("up", "workers")


@lru_cache
def modules_of(command: str, package: str = "producer") -> frozenset[str]:
    """The modules that a new process has once it has shown the command's help."""
    code = f"import sys; from {package}.cli import main; main(['{command}', '--help'], standalone_mode=False)"
    code += "; print(*sys.modules, file=sys.stderr)"
    fresh = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert fresh.returncode == 0, fresh.stderr
    assert f"{command} [OPTIONS]" in fresh.stdout
    return frozenset(fresh.stderr.split())
