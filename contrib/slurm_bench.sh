#!/usr/bin/env bash
#SBATCH --job-name=paint-bench
#SBATCH --array=0-15
#SBATCH --requeue
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-task=1
#SBATCH --time=12:00:00
# Runs a plan of `paint bench --plan` as an array of jobs: task I of N runs shard I/N.
#
#   paint bench ... --device cuda:0 --out OUT --plan plan.jsonl
#   sbatch --array=0-15 contrib/slurm_bench.sh plan.jsonl OUT
#   paint bench ... --device cuda:0 --out OUT
#
# Number the array from 0 without gaps. A requeued task continues from its checkpoints. OUT, the data and the weights
# must be on storage that every node sees under the same path, and that has locks: without them `paint` refuses to
# work.
set -euo pipefail

plan=$1
out=$2
exec paint bench --plan "$plan" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --out "$out" \
    --threads "${SLURM_CPUS_PER_TASK:-0}"
