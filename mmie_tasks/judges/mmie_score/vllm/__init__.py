"""MMIE-Score in ``vllm serve``: the plugin, the model and the chat front.

vLLM is imported by `model` and `front` only, which its own processes import.
"""

NAME = "mmie_score"
"""Name of the plugin, of its configuration format, and of its tokenizer mode."""
