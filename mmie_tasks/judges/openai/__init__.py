"""Judges behind an OpenAI-compatible server: OpenAI, Azure, vLLM, SGLang, LMDeploy, gateways."""

from mmie_tasks.judges.openai.settings import open_judge

__all__ = ["open_judge"]
