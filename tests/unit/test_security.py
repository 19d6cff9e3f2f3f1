"""What is so by default, and what is nowhere in the code."""

from __future__ import annotations

import ast

from contract.queue import make_celery
from contract.settings import Settings
from tests.support import ROOT

PACKAGES = ("contract", "producer", "workers", "demo", "scripts")
#: Modules that turn bytes into code or objects of any kind.
DANGEROUS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "os.system", "torch.load"}


def test_only_json_is_read_and_written_on_the_wire() -> None:
    conf = make_celery(Settings()).conf
    assert list(conf.accept_content) == ["json"]
    assert conf.result_accept_content is None, "the same as accept_content"
    assert {conf.task_serializer, conf.result_serializer, conf.event_serializer} == {"json"}


def test_nothing_unpickles_evaluates_or_loads_arbitrary_yaml() -> None:
    found = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [each.name for each in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                elif isinstance(node, ast.Call):
                    names = [ast.unparse(node.func)]
                found += [where for each in names if each in CALLS or each.partition(".")[0] in DANGEROUS]
    assert found == []


def test_code_that_comes_with_a_model_is_not_run_unless_somebody_says_so() -> None:
    assert "trust_remote_code" not in Settings().vllm_args
    for path in (ROOT / "configs").rglob("*.yaml"):
        assert "trust_remote_code: true" not in path.read_text(), path


def test_nobody_is_the_default_user_who_may_read_the_append_only_file() -> None:
    """Redis 7.0 reads it as that user: without rights, a restarted server had lost every run."""
    first, *named = (ROOT / "configs" / "users.acl").read_text(encoding="utf-8").splitlines()
    assert first == "user default off ~* &* +@all"
    assert all("+@all" not in user for user in named)
