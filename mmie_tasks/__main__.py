"""``python -m mmie_tasks`` is ``mmie-tasks``."""

from __future__ import annotations

from mmie_tasks.cli import main

if __name__ == "__main__":
    main()
