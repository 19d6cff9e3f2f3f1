"""What a model is asked, as turns of a chat: the system's, the user's, the model's own. A text is one turn."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

__all__ = ["Role", "Turn", "Turns", "begun", "messages", "one_turn", "readable"]


class Role(StrEnum):
    """Who speaks, in the words of chat templates and of OpenAI's protocol."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Turn(NamedTuple):
    """What one of them says."""

    role: Role
    text: str


#: In the order in which they are said; the model's next one is what is asked for.
Turns: TypeAlias = tuple[Turn, ...]


def one_turn(text: str) -> Turns:
    """`text` as a single turn of the user."""
    return (Turn(Role.USER, text),)


def begun(text: str) -> str:
    """`text` as the beginning of a turn of the model: without the white space that would part it from a prompt."""
    return text.lstrip()


def readable(turns: Turns) -> str:
    """One turn as its text; of several, each below the name of who speaks."""
    if len(turns) == 1:
        return turns[0].text
    return "\n\n".join([f"‹{turn.role}›\n{turn.text}" for turn in turns])


def messages(turns: Turns) -> list[dict[str, str]]:
    """As chat templates and OpenAI's protocol want them."""
    return [{"role": turn.role.value, "content": turn.text} for turn in turns]
