"""Commands that messages suggest: repeated with the options of this one that say which Redis, and which deploy file.

Without them, a suggestion that is pasted looks in another Redis: it would not find the run that it names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from contract import address

__all__ = ["as_called", "repeat"]

#: A command, unless it takes no such options, or needs no Redis, or is said to need another deploy file.
_SUGGESTION = re.compile(r"\bpython -m (producer|workers) (?!-|prepare\b|index\b)([a-z-]+)\b(?! with a deploy file)")
#: Where the contexts of one invocation share what was given.
_DEPLOY, _REDIS = f"{__name__}.deploy", f"{__name__}.redis"
#: How `--set` of workers starts that says which Redis.
_REDIS_SETTING = "redis_url="


def repeat(deploy: Path | None, redis_url: str | None = None, overrides: Sequence[str] = ()) -> None:
    """Have the running command's suggestions repeat these options; of a worker's `--set`, Redis' URL alone."""
    urls = [each.removeprefix(_REDIS_SETTING) for each in overrides if each.startswith(_REDIS_SETTING)]
    meta = click.get_current_context().meta
    meta[_DEPLOY] = deploy
    meta[_REDIS] = redis_url or (urls[-1] if urls else None)


def as_called(text: str) -> str:
    """Return `text` with the options in each command that it suggests.

    A URL with a password, which a log may keep, is left to be filled in.
    """
    ctx = click.get_current_context(silent=True)
    deploy, url = (ctx.meta.get(_DEPLOY), ctx.meta.get(_REDIS)) if ctx else (None, None)
    if not deploy and not url:
        return text
    redis = (url if address.is_public(url) else "URL") if url else ""

    def completed(found: re.Match[str]) -> str:
        program, command = found.groups()
        if program == "producer":
            options = _words("--redis", redis) + _words("--deploy", deploy)
            return " ".join(("python -m producer", *options, command))
        options = _words("--config", deploy) + _words("--set", redis and _REDIS_SETTING + redis)
        return " ".join((found[0], *options))

    return _SUGGESTION.sub(completed, text)


def _words(option: str, value: Path | str | None) -> tuple[str, ...]:
    return (option, shlex.quote(str(value))) if value else ()
