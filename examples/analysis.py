"""Reads a saved run of MMIE as pandas tables, then asks a judge without a run.

python analysis.py RUN JUDGE        # for example: python analysis.py out openai:gpt-4o-2024-11-20
"""

import sys
from pathlib import Path

from mmie_tasks import judge, load_run

PICTURE = Path(__file__).parent / "mmie" / "data" / "images" / "kite-in-tree.png"

if __name__ == "__main__":
    run = load_run(sys.argv[1])
    samples = run.samples("mmie")
    print(samples.groupby("category")["official"].agg(["mean", "count"]))
    print(samples[samples["differ"]][["id", "official", "robust", "reply"]])
    scores = run.scores()
    print(
        scores[scores["group"] == "headline"][
            ["task", "metric", "percent", "low", "high", "scored", "total"]
        ]
    )

    results = judge(
        sys.argv[2],
        [("What does the picture show?", PICTURE), "Reply with the number 5."],
        max_tokens=50,
    )
    for result in results:
        print(result.reply.text if result.reply else result.failure)
