"""Commands that messages suggest work as they are printed."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from contract.commands import Commands, note, tell
from contract.errors import InputError
from contract.suggested import as_called, repeat
from workers.commands.options import settings_options


@click.group(cls=Commands)
@click.option("--redis")
@click.option("--deploy", type=click.Path(path_type=Path))
def producer(redis: str | None, deploy: Path | None) -> None:
    repeat(deploy, redis)


@producer.command("say")
@click.argument("words")
def say_to_users(words: str) -> None:
    tell(words)
    note(words)
    raise InputError(words)


@click.group(cls=Commands)
def workers() -> None:
    pass


@workers.command("say")
@settings_options
@click.argument("words")
def say_to_operators(config: Path | None, overrides: tuple[str, ...], words: str) -> None:
    tell(words)
    note(words)
    raise InputError(words, hint=f"Read {config} and {len(overrides)} overrides.")


def told(group: click.Group, *arguments: str) -> list[str]:
    """The three lines of one `say`: a result, a remark, an error."""
    result = CliRunner().invoke(group, arguments)
    assert result.exit_code == 1
    return result.output.splitlines()


def said_by_producer(words: str) -> str:
    return told(producer, "--redis", HERE, "--deploy", "lab.yaml", "say", words)[0]


HERE = "redis://10.0.0.5:6379/2"


@pytest.mark.parametrize(
    ("options", "suggested"),
    [
        ((), "python -m producer watch last"),
        (("--redis", HERE), f"python -m producer --redis {HERE} watch last"),
        (("--deploy", "my lab.yaml"), "python -m producer --deploy 'my lab.yaml' watch last"),
        (
            ("--deploy", "lab.yaml", "--redis", HERE),
            f"python -m producer --redis {HERE} --deploy lab.yaml watch last",
        ),
    ],
)
def test_a_suggestion_of_a_producer_command_repeats_its_redis_and_its_deploy_file(
    options: tuple[str, ...], suggested: str
) -> None:
    result, remark, error = told(producer, *options, "say", "next: python -m producer watch last")

    assert (result, remark, error) == (f"next: {suggested}", f"next: {suggested}", f"error: next: {suggested}")


def test_a_suggestion_of_a_worker_command_repeats_its_deploy_file_and_its_redis_but_no_other_setting() -> None:
    given = ("--config", "lab.yaml", "--set", "batch_size=8", "--set", f"redis_url={HERE}")
    result, remark, error = told(workers, "say", *given, "python -m workers restart gpu0")

    assert result == remark == f"python -m workers restart --config lab.yaml --set redis_url={HERE} gpu0"
    assert error == f"error: {result} Read lab.yaml and 2 overrides."


def test_each_side_suggests_commands_of_the_other_with_the_options_of_that_side() -> None:
    for_workers = told(producer, "--redis", HERE, "--deploy", "lab.yaml", "say", "`python -m workers up` does")
    for_producers = told(workers, "say", "--config", "lab.yaml", "python -m producer compare a b")

    assert for_workers[0] == f"`python -m workers up --config lab.yaml --set redis_url={HERE}` does"
    assert for_producers[0] == "python -m producer --deploy lab.yaml compare a b"


@pytest.mark.parametrize("url", ["redis://:secret@10.0.0.5/0", "rediss://10.0.0.5?ssl_certfile=c", "redis://h:port"])
def test_a_suggestion_repeats_no_password_and_nothing_it_cannot_read(url: str) -> None:
    assert told(producer, "--redis", url, "say", "python -m producer runs")[0] == "python -m producer --redis URL runs"


@pytest.mark.parametrize(
    "said",
    [
        "python -m workers prepare",
        "Build the index again with python -m producer index.",
        "python -m workers up with a deploy file that serves m",
        "python -m producer --redis redis://h watch last",
    ],
)
def test_a_command_that_takes_no_such_option_or_needs_another_is_suggested_as_it_is(said: str) -> None:
    assert said_by_producer(said) == said


def test_words_that_suggest_nothing_and_those_outside_a_command_are_left_alone() -> None:
    assert told(producer, "--redis", HERE, "say", "producer python -m")[0] == "producer python -m"
    assert as_called("python -m producer runs") == "python -m producer runs"
