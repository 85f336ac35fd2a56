"""Models: everything with a method `complete`. Each needs another library (torch, vLLM, aiohttp)."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.models.batching import BatchLimits as BatchLimits
    from mars_env.models.hf import HFModel as HFModel
    from mars_env.models.http import HTTPModel as HTTPModel
    from mars_env.models.scripted import ScriptedModel as ScriptedModel
    from mars_env.models.tiny import tiny_model as tiny_model
    from mars_env.models.vllm import VLLMModel as VLLMModel

__getattr__, __dir__, __all__ = lazy_names(__name__)
