"""A model's tokenizer with the rules of its own `tokenizer.json`.

transformers 5 takes only the vocabulary from that file where `tokenizer_config.json`, or the model's type, leads to a
class with rules of its own, such as `LlamaTokenizer`. Models exist whose file has other rules. With deepseek-math,
which is one, every space of a prompt is lost; models of Qwen2's type may split numbers otherwise. Nothing tells of it,
and scores are wrong (huggingface/transformers, issues 45488 and 48206; 5.19 corrects some models, by their hub ids).

Nor does it read `chat_template.json`, where models that also see images, such as LLaVA, have their chat template: only
their processors do. The model would be asked outside a chat, as if it had no template.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__all__ = ["correct_vllm", "load_tokenizer"]

log = logging.getLogger(__name__)

#: Lines, words, spaces, numbers, punctuation and scripts as any question may have them. Without a special token, behind
#: which Llama 2's class differs from its file, and other programs use the class.
ORDINARY = "\nIn 2023, what didn't 14,325 people\tknow of Москва?\n\n    A. café (ÀÉ)\n    B. 東京 🙂...\nAnswer: it's"
#: Options of `AutoTokenizer` that choose the class.
CHOOSING = frozenset({"config", "mistral_format", "trust_remote_code"})


def load_tokenizer(source: Any, *args: Any, **options: Any) -> Any:
    """Load a tokenizer as `AutoTokenizer.from_pretrained` does, but by the rules of the model's `tokenizer.json`.

    What transformers has loaded is kept if it makes the same tokens of ordinary text. If it has found no chat template,
    the tokenizer gets that of the model's `chat_template.json`.
    """
    from transformers import PythonBackend, TokenizersBackend

    loaded = _by_own_rules(source, *args, **options)
    if isinstance(loaded, PythonBackend | TokenizersBackend) and not loaded.chat_template:
        loaded.chat_template = _processors_template(source, options)
    return loaded


def _by_own_rules(source: Any, *args: Any, **options: Any) -> Any:
    from transformers import AutoTokenizer, TokenizersBackend

    loaded = AutoTokenizer.from_pretrained(source, *args, **options)
    # The general class follows the file, and code that comes with a model is what its makers want.
    has_own_rules = isinstance(loaded, TokenizersBackend) and type(loaded).__module__.startswith("transformers.models.")
    if not has_own_rules or _is_as_written(loaded, source, options):
        return loaded
    log.info(
        "the tokenizer of %s is loaded by the rules of its tokenizer.json: those of the class %s make other tokens",
        source,
        type(loaded).__name__,
    )
    kept = {name: value for name, value in options.items() if name not in CHOOSING}
    return TokenizersBackend.from_pretrained(source, *args, **kept)


def _is_as_written(loaded: Any, source: Any, options: dict[str, Any]) -> bool:
    from tokenizers import Tokenizer

    file = _file(source, "tokenizer.json", options)
    if file is None:  # made of other files
        return True
    written = Tokenizer.from_file(file)
    written.no_truncation()
    written.no_padding()
    (ids,) = loaded([ORDINARY], add_special_tokens=False)["input_ids"]
    expected = written.encode(ORDINARY, add_special_tokens=False).ids
    # Whether a space is put before a text, `add_prefix_space` in tokenizer_config.json decides: the file may be older.
    behind_start = min(len(ids), len(expected)) - 1
    return bool(ids[-behind_start:] == expected[-behind_start:])


def _processors_template(source: Any, options: dict[str, Any]) -> str | None:
    file = _file(source, "chat_template.json", options)
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8")) if file else None
    except (OSError, ValueError):  # the model's processor could not read it either
        return None
    found = content.get("chat_template") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def _file(source: Any, name: str, options: dict[str, Any]) -> str | None:
    """Return where the model's file of this name is, downloaded if necessary; None if it has none."""
    from transformers.utils import cached_file

    where = {option: value for option, value in options.items() if option in {"revision", "cache_dir", "token"}}
    tolerant = {f"_raise_exceptions_for_{trouble}": False for trouble in ("missing_entries", "connection_errors")}
    found: str | None = cached_file(source, name, **tolerant, **where)
    return found


def correct_vllm() -> None:
    """Have vLLM in this process load tokenizers by `load_tokenizer`."""
    from vllm.tokenizers import hf

    hf.AutoTokenizer = SimpleNamespace(from_pretrained=load_tokenizer)
