"""Speed of our official scorer and of the official script, on the same answers in one run.

``make bench MILEBENCH_EVALUATE=path/to/evaluate.py`` (from MileBench/MileBench at 9583e1f; it is
not part of this repository). Without it only our own speed is measured. Every score is compared.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmie_tasks.benchmarks.milebench.official import score_choice, score_rouge
from mmie_tasks.benchmarks.milebench.robust import read_choice, read_rouge
from mmie_tasks.benchmarks.milebench.sample import ScoringRule
from mmie_tasks.core.verdict import Scored

PINNED = "f6a38263eb109ba5b5a8e322df4e0dd4e36354aa1aac6f8f3867d00bea0f468d"
VOCABULARY = [f"word{i}" for i in range(400)] + ["the", "a", "of", "red", "on"] * 40
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Pair:
    gold: str
    answer: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    rule: ScoringRule
    pairs: list[Pair]


def text(rng: random.Random, low: int, high: int) -> str:
    return " ".join(rng.choice(VOCABULARY) for _ in range(rng.randint(low, high)))


def retrieval(rng: random.Random, n_options: int, style: str) -> Pair:
    choices = tuple(f"image{k}" for k in range(1, n_options + 1))
    gold = rng.choice(choices)
    answers = {"text": rng.choice(choices), "letter": "B", "none": "I cannot tell them apart."}
    return Pair(gold, answers[style], choices)


def sentences(rng: random.Random, n_options: int) -> Pair:
    choices = tuple(text(rng, 6, 12) for _ in range(n_options))
    return Pair(rng.choice(choices), rng.choice(choices), choices)


def rouge(rng: random.Random, gold: tuple[int, int], answer: tuple[int, int]) -> Pair:
    return Pair(text(rng, *gold), text(rng, *answer))


def cases(n: int) -> list[Case]:
    rng = random.Random(20_241_121)  # noqa: S311 - a benchmark, not a secret
    make: list[tuple[str, ScoringRule, Callable[[], Pair]]] = [
        ("GPR1200, 63 options, text", "choice", lambda: retrieval(rng, 63, "text")),
        ("GPR1200, 63 options, no match", "choice", lambda: retrieval(rng, 63, "none")),
        ("100 options, letter", "choice", lambda: retrieval(rng, 100, "letter")),
        ("100 sentence options", "choice", lambda: sentences(rng, 100)),
        ("4 options, text", "choice", lambda: sentences(rng, 4)),
        ("ROUGE 10-20 x 10-30 words", "rouge", lambda: rouge(rng, (10, 20), (10, 30))),
        ("ROUGE 10-20 x 100-300 words", "rouge", lambda: rouge(rng, (10, 20), (100, 300))),
        ("ROUGE 60-100 x 100-300 words", "rouge", lambda: rouge(rng, (60, 100), (100, 300))),
    ]
    return [Case(name, rule, [one() for _ in range(n)]) for name, rule, one in make]


def ours(case: Case, *, is_robust: bool = False) -> list[float]:
    if case.rule == "choice":
        choose = read_choice if is_robust else score_choice
        verdicts = [choose(pair.gold, pair.answer, pair.choices) for pair in case.pairs]
    else:
        overlap = read_rouge if is_robust else score_rouge
        verdicts = [overlap(pair.gold, pair.answer) for pair in case.pairs]
    return [v.points if isinstance(v, Scored) else float("nan") for v in verdicts]


def theirs(scorer: Any, case: Case) -> list[float]:
    predictions = [
        {"sample_id": i, "gt_response": pair.gold, "pred_response": pair.answer}
        for i, pair in enumerate(case.pairs)
    ]
    core = {
        "data": [
            {
                "sample_id": i,
                "image_quantity_level": "Few",
                "task_instance": {"images_path": [], "choice_list": list(pair.choices)},
            }
            for i, pair in enumerate(case.pairs)
        ]
    }
    if case.rule == "choice":
        _, _, entries = scorer.evaluate_multichoice(predictions, core)
    else:
        _, entries = scorer.evaluate_rouge(predictions, core)
    return [float(entry["score"]) for entry in entries]


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def load(path: Path) -> Any:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != PINNED:
        raise SystemExit(f"{path} is not evaluate.py of MileBench at 9583e1f (sha256 {digest})")
    spec = importlib.util.spec_from_file_location("milebench_evaluate", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Eval()


def differing(one: Sequence[float], other: Sequence[float]) -> int:
    """Scores that differ in the three decimals the official script writes."""
    return sum(round(a, 3) != round(b, 3) for a, b in zip(one, other, strict=True))


def compare(scorer: Any, case: Case) -> tuple[float, float, int]:
    """Samples per second of the official script and of ours, and scores that differ."""
    their = statistics.median(seconds(lambda: theirs(scorer, case)) for _ in range(ROUNDS))
    our = statistics.median(seconds(lambda: ours(case)) for _ in range(ROUNDS))
    n = len(case.pairs)
    return n / their, n / our, differing(theirs(scorer, case), ours(case))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluate", type=Path, help="the official evaluate.py")
    parser.add_argument("-n", type=int, default=300, help="answers per case")
    options = parser.parse_args()
    scorer = load(options.evaluate) if options.evaluate else None
    print(f"{'case':<32}{'official/s':>11}{'ours/s':>9}{'ratio':>8}{'differ':>8}{'robust/s':>10}")
    for case in cases(options.n):
        robust_rate = len(case.pairs) / seconds(lambda case=case: ours(case, is_robust=True))
        if scorer is None:
            rate = len(case.pairs) / seconds(lambda case=case: ours(case))
            print(f"{case.name:<32}{'not run':>11}{rate:>9.0f}{'':>16}{robust_rate:>10.0f}")
            continue
        their, our, differ = compare(scorer, case)
        ratio = our / their
        print(
            f"{case.name:<32}{their:>11.0f}{our:>9.0f}{ratio:>7.1f}x{differ:>8}{robust_rate:>10.0f}"
        )


if __name__ == "__main__":
    main()
