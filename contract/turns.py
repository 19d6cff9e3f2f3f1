"""Prompts as chat turns (system, user, assistant). A plain text is a single user turn."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

__all__ = ["Role", "Turn", "Turns", "as_text", "beginning", "begun", "messages", "one_turn", "parted", "readable"]


class Role(StrEnum):
    """The speaker of a turn, named as in chat templates and OpenAI's protocol."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Turn(NamedTuple):
    """One message of a chat."""

    role: Role
    text: str


#: In chronological order. The prompt asks for the assistant turn that follows; if the last turn is the assistant's, for
#: the rest of that.
Turns: TypeAlias = tuple[Turn, ...]


def one_turn(text: str) -> Turns:
    """Return `text` as a single user turn."""
    return (Turn(Role.USER, text),)


def begun(text: str) -> str:
    """Return `text` as the start of an assistant turn: without the white space that would separate it from a prompt.

    White space that the model's chat template puts there itself is added where the template is rendered.
    """
    return text.lstrip()


def beginning(turns: Turns) -> str:
    """Return what the prompt lets the assistant's turn begin with, and what separates that from a plain prompt."""
    return turns[-1].text if turns[-1].role is Role.ASSISTANT else ""


def parted(turns: Turns) -> tuple[Turns, str]:
    """Return the turns before the one that the prompt asks for, and the `beginning` of that."""
    begins = beginning(turns)
    return (turns[:-1] if begins else turns), begins


def as_text(turns: Turns) -> str:
    """Return the plain text to be continued: a single user turn, and the `beginning` behind it, if there is one."""
    return "".join([turn.text for turn in turns])


def readable(turns: Turns) -> str:
    """Return the turns as readable text: a single turn as is, several with the role above each."""
    if len(turns) == 1:
        return turns[0].text
    return "\n\n".join([f"‹{each['role']}›\n{each['content']}" for each in messages(turns)])


def messages(turns: Turns) -> list[dict[str, str]]:
    """Return the turns as the messages of chat templates and OpenAI's protocol."""
    return [
        {"role": turn.role.value, "content": begun(turn.text) if turn.role is Role.ASSISTANT else turn.text}
        for turn in turns
    ]
