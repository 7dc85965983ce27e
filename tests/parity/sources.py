"""The public artefacts that the parity table compares with; the user fetches them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A repository at a commit.

    Attributes:
        variable: Names its folder, as an argument and to ``make parity``.
        repository: On GitHub.
        commit: The first seven hex digits.
        size: Of its files at that commit.
        licence: Of what is used of it.
        files: Path in the folder to the SHA-256 of the file, of files that must be there.
        part: The folders that are enough; empty for all.
    """

    variable: str
    repository: str
    commit: str
    size: str
    licence: str
    files: Mapping[str, str]
    part: tuple[str, ...] = ()

    def check(self, folder: Path) -> None:
        """Check that a folder has the files of this commit.

        Raises:
            SystemExit: A file is missing, or of another version.
        """
        for name, sha256 in self.files.items():
            path = folder / name
            where = f"{self.variable}: `{folder}`, not a clone of {self.repository}"
            if not path.is_file():
                raise SystemExit(f"{where}: it has no `{name}`.")
            if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                raise SystemExit(f"{where} at {self.commit}: `{name}` is another version.")

    @property
    def commands(self) -> Sequence[str]:
        """The shell commands that fetch it into the working folder."""
        folder = self.repository.partition("/")[2]
        url = f"https://github.com/{self.repository}"
        sparse = [f"git -C {folder} sparse-checkout set {' '.join(self.part)}"] if self.part else []
        return [
            f"git clone {'--filter=blob:none --sparse ' if self.part else ''}{url}",
            *sparse,
            f"git -C {folder} checkout {self.commit}",
        ]


ANSWERS = "eval/milebench/milebench"
"""Folder of the models' answers in V2PE."""

SOURCES = (
    Source(
        variable="OPENING_FOLDER",
        repository="LanceZPF/OpenING",
        commit="56b663b",
        size="47 MB",
        licence="none stated",
        files={
            "Interleaved_Arena/gpt-score_results.json": (
                "6009021d0fc9e6854d42f08c45d6d8b93db61b5b35dbfab493e14be3b2fd1928"
            ),
            "Interleaved_Arena/model_score_summaries.csv": (
                "2e4973e9029158336b7f0163c5942ded1f8a75e6914898f01ebf09f9773320eb"
            ),
            "Interleaved_Arena/judge_modelAB_results.json": (
                "2bf58594c7b7dac19f468f7dab855ebeb28375927188df64a258cf4239b2fff4"
            ),
            "Interleaved_Arena/gpt-judge_modelAB_results.json": (
                "e3e7dba0df7f29a9ae24a13b89f0c601e6659886145e72bffa7cd540d0745dd8"
            ),
            "Interleaved_Arena/intjudge_rag-judge_modelAB_results.json": (
                "44fe2b968b7256d36dc4f07eb051817b9375ab45975c09d831cbf5fef72d67a2"
            ),
            "GPT_score_A.py": ("5fd5e58defa8b3d1226dd25a4d980baca781943045e142e5e256c9ba893a47c5"),
            "prompts/detailed_score_system.txt": (
                "5aa8a5ccfab72ce731a8c53c942845569b1cdaa2777b6f6f126bf38cff4d3c13"
            ),
            "summarize_GPT_scores.py": (
                "3ba53de4433e02d81669db70a5aae788df6af062593eb901937bbeffcb196c49"
            ),
        },
    ),
    Source(
        variable="V2PE_FOLDER",
        repository="NipElement/V2PE",
        commit="cba1b13",
        size="over 2.9 GB, of which the answers used are some 50 MB",
        licence="MIT",
        files={
            "eval/milebench/evaluate.py": (
                "59a925f6e1fd5279f993f7373231063d3074a9ba9c54e35612d6d2ebb905bd15"
            ),
            f"{ANSWERS}/internvl2_2b/ALFRED/pred.json": (
                "01d850b83f636b48115b3bfc41879b1c54b29e5c61c181ef22a67407074f314a"
            ),
            f"{ANSWERS}/internvl2_5_8b/ALFRED/pred.json": (
                "c44103ef712cd6edbd3bdd3ceea824fe8418ec9aee76b3a4ca131fd7e3c8342f"
            ),
        },
        part=(f"{ANSWERS}/internvl2_2b", f"{ANSWERS}/internvl2_5_8b"),
    ),
    Source(
        variable="MILEBENCH_FOLDER",
        repository="MileBench/MileBench",
        commit="9583e1f",
        size="1.9 MB",
        licence="Apache-2.0 (code)",
        files={"evaluate.py": "f6a38263eb109ba5b5a8e322df4e0dd4e36354aa1aac6f8f3867d00bea0f468d"},
    ),
    Source(
        variable="MMIE_FOLDER",
        repository="Lillianwei-h/MMIE",
        commit="eb0fd6e",
        size="31 kB",
        licence="MIT",
        files={
            "prompts.py": "ed1e1a14a4e356755c249eebbab53c6c2ff27850c3a741639eff06c1c57cfb0b",
            "main.py": "d23bfa1d0bcf93304bdc096a4eef265cbcbd0248fc82c764785a15f71cf8d714",
            "dataset.py": "ad758a9a194954f60f2de03ecd05d5e6704f4d032089e3273881a0bafe7ce1a9",
        },
    ),
    Source(
        variable="MIA_FOLDER",
        repository="apple/ml-mia-bench",
        commit="5422852",
        size="3.3 MB",
        licence="Apple's sample code licence",
        files={
            "evaluation.ipynb": (
                "790964af82f87e88bd2b2d4d638332a9cdeabd490976aec305117eba53d08244"
            ),
            "instruction_benchmark_all.json": (
                "f75671cde32c84ee1791eda74994f15eaf48530333a65f3b732006a1c7d055d2"
            ),
        },
    ),
    Source(
        variable="MMRB2_FOLDER",
        repository="facebookresearch/MMRB2",
        commit="7ff0552",
        size="17 MB",
        licence="CC BY-NC 4.0",
        files={
            "evaluate/compute_scores/compute_accuracy.py": (
                "5fc4d9b65a9de0dc20a1e8fd83d1ab8a22db1404c249b42f9b465fddbd558beb"
            ),
            "benchmark/interleaved_response_only.json": (
                "8f71e0d699814715dc271bd83ee75eabedea3e9c420cb11dc98e4f7c591fa6f1"
            ),
            "evaluate/generate_judgements/outputs/sample_task3_interleaved.json": (
                "103ac4494170729e48291b66ab5055c6d0d25a1507e1c0efa193cd86953fd715"
            ),
        },
    ),
)


def sources_text() -> str:
    """Repository, commit, size and licence of each source, and the commands that fetch it."""
    blocks = []
    for source in SOURCES:
        head = f"{source.repository} at {source.commit}: {source.size}, "
        head += f"licence: {source.licence}; give it as {source.variable}"
        part = [f"  (enough of it: {', '.join(source.part)})"] if source.part else []
        blocks.append("\n".join([head, *part, *(f"  {line}" for line in source.commands)]))
    return "\n\n".join(blocks)
