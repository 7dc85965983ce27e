#!/usr/bin/env bash
# `make demo`: scores the bundled answers of all four benchmarks with lmms-eval, into out/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
mmie_tasks=${1:-mmie-tasks}
mmie=examples/mmie opening=examples/opening milebench=examples/milebench mia=examples/mia_bench
export HF_HUB_OFFLINE=1 MMIE_DATA=$mmie/data MILEBENCH_DATA=$milebench/data
export MIA_BENCH_DATA=$mia/data OPENING_DATA=$opening/data

rm -rf out/demo
mkdir -p out
echo 'MMIE, MIA-Bench and OpenING are judged with recorded replies that we made up; no judge is called.'
echo "The judge's words of MMIE and OpenING are ours: the papers' may not be shipped."
"$mmie_tasks" score $mmie/answers $milebench/answers $mia/answers $opening/answers \
  --tasks mmie,milebench,mia_bench,opening --images $mmie/answers --model demo -o out/demo \
  --judge mmie=replay:path=$mmie/replies.jsonl,prompts=$mmie/prompts.json \
  --judge mia_bench=replay:path=$mia/replies.jsonl \
  --judge opening=replay:path=$opening/replies.jsonl,prompts=$opening/prompts.json 2>&1 | tee out/demo.log
