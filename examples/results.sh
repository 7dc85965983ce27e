#!/usr/bin/env bash
# `make results`: the results commands on made-up models, judges and people, in out/results.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:+$1/}
mmie=examples/mmie milebench=examples/milebench mia=examples/mia_bench results=examples/results
runs=out/results prompts=prompts=$mmie/prompts.json
export HF_HUB_OFFLINE=1 MMIE_DATA=$mmie/data MILEBENCH_DATA=$milebench/data MIA_BENCH_DATA=$mia/data

# A command with its output in a file, which is shown if it fails.
logged() { "${@:2}" > "$1" 2>&1 || { cat "$1"; exit 1; }; }
shown() { echo "mmie-tasks $*"; "${bin}mmie-tasks" "$@"; }

rm -rf $runs
mkdir -p $runs
echo "Models, judges and people are made up; no judge is called. Tables: $runs/*.log"
logged $runs/model-a.log "${bin}mmie-tasks" score $mmie/answers $milebench/answers $mia/answers \
  --images $mmie/answers --tasks mmie,milebench,mia_bench -o $runs/model-a --judge_args $prompts \
  --judge mmie=replay:path=$mmie/replies.jsonl --judge mia_bench=replay:path=$mia/replies.jsonl
logged $runs/model-b.log "${bin}mmie-tasks" score $results/answers --tasks mmie,milebench,mia_bench \
  -o $runs/model-b --judge replay:path=$results/replies.jsonl --judge_args $prompts
logged $runs/other-judge.log "${bin}mmie-tasks" score $mmie/answers --tasks mmie \
  -o $runs/other-judge --judge replay:path=$results/other_judge.jsonl --judge_args $prompts
MMIE_TASKS_CACHE=$runs/cache logged $runs/drawn.log "${bin}python" examples/interleaved/servers.py \
  "${bin}mmie-tasks" score examples/interleaved/texts.json --tasks mmie_step --model scripted-writer \
  --t2i "images:sketch,base_url={url},size=512x512" -o $runs/drawn \
  --judge openai:scripted-judge --judge_args "base_url={url},$prompts"

shown report A=$runs/model-a B=$runs/model-b -o $runs/report.html
shown report drawn=$runs/drawn -o $runs/drawn.html
shown table A=$runs/model-a B=$runs/model-b drawn=$runs/drawn --published
shown agreement people=$results/people.csv judge=$runs/model-a other=$runs/other-judge --task mmie
shown compare A=$runs/model-a B=$runs/model-b --task mmie
