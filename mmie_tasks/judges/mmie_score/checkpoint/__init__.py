"""The official checkpoint: found or downloaded, checked without reading weights, then loaded.

Nothing that comes with a checkpoint is ever run, and no pickle is ever opened: JSON is read as
JSON, ``conversation.py`` is parsed as text, weights are safetensors. Loading the weights is in
`mmie_tasks.judges.mmie_score.checkpoint.weights`, which imports torch; nothing here does.
"""

from mmie_tasks.judges.mmie_score.checkpoint.config import Facts
from mmie_tasks.judges.mmie_score.checkpoint.opening import Checkpoint, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.source import DEFAULT_MODEL, Located, locate

__all__ = ["DEFAULT_MODEL", "Checkpoint", "Facts", "Located", "locate", "open_checkpoint"]
