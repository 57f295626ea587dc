"""Runs a plan of `paint bench --plan` as tasks of Ray, one for each cell.

    paint bench --protocol cifar10-c --methods source,tent,paint --seeds 0..4 ... --out OUT --plan plan.jsonl
    python contrib/ray_bench.py plan.jsonl --paint "$(which paint)" --out OUT --workers 2
    paint bench --protocol cifar10-c --methods source,tent,paint --seeds 0..4 ... --out OUT

The last command, the first without `--plan`, collects. A task is one process of `paint` on one cell; the folder of a
cell is its name, so a task that died with its machine is started again elsewhere and continues from the checkpoint. The
folder, the data and the weights must have the same paths on every machine, and the file system must have locks: without
them `paint` refuses to work.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

import ray


def planned(path):
    """Name and expected cost of each cell, the longest first, so that none is left over at the end."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    cost = lambda line: line["seconds"] if line["seconds"] is not None else line["images"]  # noqa: E731
    return sorted(lines, key=cost, reverse=True)


@ray.remote
def run(paint, plan, cell, out):
    """One cell; an error of `paint` is told with its own message, and is not worth a second attempt."""
    command = [paint, "bench", "--plan", plan, "--cell", cell, "--out", out, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stderr.strip()}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("--paint", default="paint", help="the program, at the same place on every machine")
    parser.add_argument("--out", required=True, help="the folder of the results, which every machine sees")
    parser.add_argument("--workers", type=int, help="cells at a time; as many as Ray has room for by default")
    parser.add_argument("--cpus", type=float, default=1, help="CPUs of a cell")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of a cell; plan with --device cuda:0")
    parser.add_argument("--retries", type=int, default=5, help="how often a cell may lose its machine")
    parser.add_argument("--address", help="of a running cluster; one on this machine by default")
    args = parser.parse_args()

    if args.address:
        ray.init(address=args.address)
    else:
        ray.init(num_cpus=args.workers, include_dashboard=False, logging_level="warning")
    paint, plan, out = args.paint, str(Path(args.plan).resolve()), str(Path(args.out).resolve())
    task = run.options(num_cpus=args.cpus, num_gpus=args.gpus, max_retries=args.retries)
    cells = planned(plan)
    waiting = {task.remote(paint, plan, line["cell"], out): line for line in cells}
    begun, failed = time.monotonic(), []
    while waiting:
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        line = waiting.pop(ready)
        try:
            error = ray.get(ready)
        except ray.exceptions.RayError as lost:
            error = f"lost {args.retries + 1} times: {type(lost).__name__}"
        failed += [line] if error else []
        name = f"{line['label']} {line.get('order') or ''} seed {line['config']['seed']}".replace("  ", " ")
        state = error or "done"
        print(
            f"[{len(cells) - len(waiting)}/{len(cells)} {time.monotonic() - begun:.0f} s] {name}: {state}", flush=True
        )
    raise SystemExit(f"{len(failed)} of {len(cells)} cells failed" if failed else 0)


if __name__ == "__main__":
    main()
