"""What vLLM's outputs and errors mean: an answer, the refusal of one request, a lack of memory, or the engine's end."""

from __future__ import annotations

from typing import Any

from contract.errors import EngineDead, RequestRejected, first_line
from workers.engines.prefill import Prefill

__all__ = ["answer_in", "is_elsewhere", "is_out_of_memory", "is_refusal", "or_above", "why"]


def answer_in(output: Any, prefill: Prefill, *, drafts: bool) -> Any:
    """Return `output`, or the reason why it is not an answer although vLLM calls it finished.

    A core process that is asked to stop, for example by Ctrl-C in its terminal, finishes all requests with the text so
    far (`_send_abort_outputs` of vLLM 0.32). Raises EngineDead in that case.

    An engine that `drafts` tokens of texts (`speculative_config`) gives no log-probabilities in steps of its rejection
    sampler, which leaves `logprob_token_ids` out: with vLLM 0.32's model runner V2, the steps that verify drafted
    tokens; with V1 (on a CPU, and for some methods), all.
    """
    reasons = {each.finish_reason for each in output.outputs}
    if "abort" in reasons:
        raise EngineDead("its core process was asked to stop")
    if "error" in reasons:
        return RequestRejected("vLLM could not process it and gave no reason.")
    if prefill.next_ids and not output.outputs[0].logprobs:
        return _unscored(drafts=drafts)
    return output


def _unscored(*, drafts: bool) -> RequestRejected:
    if not drafts:
        return RequestRejected("vLLM gave no log-probabilities for it and no reason.")
    return RequestRejected(
        "With vllm_args.speculative_config, vLLM gives no log-probabilities while it writes texts, and on a CPU never.",
        hint="Ask a worker without it; on a GPU, requeue --failed when no texts are written is enough.",
    )


def is_refusal(trouble: Exception) -> bool:
    """Whether vLLM only rejects this one request, as opposed to being unable to continue.

    Its validation raised ValueError up to 0.26; in 0.32 it raises VLLMValidationError, a VLLMClientError and not a
    ValueError.
    """
    named = {each.__name__ for each in type(trouble).__mro__}
    return isinstance(trouble, ValueError | TypeError | OverflowError) or "VLLMClientError" in named


def is_out_of_memory(trouble: BaseException) -> bool:
    """Whether the requests of a step did not fit; the engine can go on with fewer."""
    return isinstance(trouble, MemoryError) or type(trouble).__name__ == "OutOfMemoryError"


def why(trouble: BaseException) -> str:
    """Return the first line of its message, and where the rest of it is if it is not the cause."""
    return or_above(first_line(trouble))


def or_above(line: str) -> str:
    """Return `line`; with where the cause is if it says that this is elsewhere."""
    return f"{line}, further up in this worker's log" if is_elsewhere(line) else line


def is_elsewhere(line: str) -> bool:
    """Whether this is vLLM's message about a failed core process, which says that the "root cause" is "above"."""
    return "root cause" in line
