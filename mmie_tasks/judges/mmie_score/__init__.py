"""MMIE-Score in this process: the judge of the MMIE paper, on this process's GPU or a CPU.

* ``judge``: the judge and its options
* ``checkpoint``: finds, checks and loads the official files, without running any of their code
* ``tokenizer``, ``prompt``, ``inputs``: the model's inputs, as in the official code
* ``engine``: many requests at once over a paged key/value cache
* ``loading``, ``devices``: what fits on which device
"""
