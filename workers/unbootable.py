"""What keeps a worker from booting, as far as `workers up` can tell before it starts any."""

from __future__ import annotations

from collections.abc import Sequence

from contract.models import prepared_models
from contract.settings import Settings
from workers.engines.adapters import adapter_folders
from workers.engines.arguments import check_arguments_by_source
from workers.engines.model_files import require_tokenizer
from workers.engines.packaged import PACKAGED, folder_or_hub_id
from workers.host.placement import WorkerPlan

__all__ = ["refuse_unbootable"]


def refuse_unbootable(fleet: Sequence[Settings], plans: Sequence[WorkerPlan]) -> None:
    """Raise the McqueueError with which a planned worker would fail to boot, if that shows quickly.

    Quickly means without importing vLLM, asking a hub or preparing a model.
    """
    served = {plan.serves for plan in plans if not plan.queue}
    for settings in fleet:
        if settings.served_model in served and settings.runs_the_model:
            if settings.hf_model_id in PACKAGED:
                model = str(prepared_models() / settings.hf_model_id)
            else:
                model = folder_or_hub_id(settings.hf_model_id, "hf_model_id", list(PACKAGED))
                require_tokenizer(model, settings.vllm_args)
            adapter_folders(settings.adapters, model)
            check_arguments_by_source(settings.vllm_args)
