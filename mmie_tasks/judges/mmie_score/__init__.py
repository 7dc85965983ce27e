"""MMIE-Score, the judge of the MMIE paper: in this process, or on vLLM's server.

* ``judge``: the judge, its options, and which way it computes
* ``transformers_engine`` with ``native_model``: in this process; ``devices``, ``exact``: its device
  and exact arithmetic on it
* ``server``: the server that a run starts; ``served``: the judge on a server; ``serve``: the
  command ``mmie-tasks serve``; ``vllm``: the plugin of vLLM
* ``inputs``, ``tiles``: the model's inputs, as in the official code
* ``checkpoint``: finds, checks and describes the official files without running their code; the
  tokenizer

Torch and transformers are imported when they are used: a run with another judge needs neither.
"""

DEFAULT_MODEL = "MMIE/MMIE-Score"
MODEL_VARIABLE = "MMIE_SCORE_MODEL"
