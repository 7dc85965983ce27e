"""MMIE-Score in this process: the judge of the MMIE paper, on this process's GPU or a CPU.

* ``judge``: the judge and its options; ``local``: the same on one device
* ``checkpoint``: finds, checks and describes the official files, without running any of their code;
  its tokenizer
* ``inputs``, ``tiles``: the model's inputs, as in the official code; ``request_queue`` prepares
  them ahead
* ``engine``: many requests at once over a paged key/value cache
* ``devices``, ``memory``: the device, its dtype and its memory; ``exact``: exact arithmetic on it
* ``loading``: the weights on the device
* ``ray_engines``: the judge on several GPUs
* ``vllm_engine``: an engine by vLLM, whose processes find ``vllm_model`` by ``vllm_plugin``; the
  judge does not use it yet

Torch, transformers, vLLM and Ray are imported when they are used: a run with another judge needs
none.
"""
