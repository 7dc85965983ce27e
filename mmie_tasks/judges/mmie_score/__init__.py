"""MMIE-Score in this process: the judge of the MMIE paper, on this process's GPU or a CPU.

* ``judge``: the judge and its options; ``local``: on one device; ``ray_engines``: on several GPUs
* ``checkpoint``: finds, checks and describes the official files without running their code; the
  tokenizer
* ``inputs``, ``tiles``: the model's inputs, as in the official code; ``request_queue`` prepares
  them in advance
* ``generation``: what an engine takes and returns; ``transformers_engine``; ``vllm_engine``, whose
  processes find ``vllm_model`` through ``vllm_plugin``
* ``devices``, ``memory``, ``exact``: the device, its dtype, its memory, and exact arithmetic on it

Torch, transformers, vLLM and Ray are imported when they are used: a run with another judge needs
none of them.
"""
