"""Ray with two workers, one of which is killed twice, leaves the bytes of a plain `paint bench`; so do the tasks of an
array.

    python contrib/check_grids.py --paint target/release/paint

Twelve cells of embedded images. Prints what it saw and ends with 0 if every file is the same.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = ["results.jsonl", "summary.json", "results.csv", "results.md", "results.tex", "protocol.toml", "report.html"]
HERE = Path(__file__).parent


def grid(paint, out):
    domains = 'scenario.domains=["fog","snow","contrast"]'
    what = ["--protocol", "embedded", "--methods", "source,tent,eta,paint", "--seeds", "0..2", "--limit", "100"]
    how = ["--set", domains, "--threads", "1", "--checkpoint-every", "1", "--no-timing", "--quiet"]
    return [paint, "bench", *what, *how, "--out", str(out)]


def working():
    """Ray's processes that run a cell, and those of `paint` below them."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = status.read_text().split(" ", 1)
            name, rest = rest.rsplit(") ", 1)
            words = (status.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--cell" in words and b"bench" in words:
            found.append((int(pid), int(rest.split()[1])))
    return found


def kill_a_worker():
    """Ends a worker of Ray in the middle of a cell, and the cell's process with it, as a lost machine does."""
    while True:
        for paint, worker in working():
            time.sleep(0.5)
            try:
                os.kill(worker, signal.SIGKILL)
                os.kill(paint, signal.SIGKILL)
                print(f"killed worker {worker} and its cell", flush=True)
                return
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def compare(whole, parts, name):
    for file in FILES:
        if (whole / file).read_bytes() != (parts / file).read_bytes():
            raise SystemExit(f"{name}: {file} differs")
    print(f"{name}: {len(FILES)} files, byte for byte the same", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paint", required=True)
    parser.add_argument("--skip-ray", action="store_true", help="only the array of jobs")
    args = parser.parse_args()
    paint = str(Path(args.paint).resolve())
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        whole = folder / "whole"
        subprocess.run(grid(paint, whole), check=True, stdout=subprocess.DEVNULL)

        array, plan = folder / "array", str(folder / "array.jsonl")
        subprocess.run([*grid(paint, array), "--plan", plan], check=True)
        path = f"{Path(paint).parent}:{os.environ['PATH']}"
        tasks = [os.environ | {"PATH": path, "SLURM_ARRAY_TASK_ID": str(i), "SLURM_ARRAY_TASK_COUNT": "3",
                               "SLURM_CPUS_PER_TASK": "1"} for i in range(3)]  # fmt: skip
        command = ["bash", str(HERE / "slurm_bench.sh"), plan, str(array)]
        jobs = [subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) for env in tasks]
        if any([job.wait() for job in jobs]):
            raise SystemExit("a task of the array failed")
        subprocess.run(grid(paint, array), check=True, stdout=subprocess.DEVNULL)
        compare(whole, array, "three tasks of an array")

        if not args.skip_ray:
            parts, plan = folder / "ray", str(folder / "ray.jsonl")
            subprocess.run([*grid(paint, parts), "--plan", plan], check=True)
            flags = ["--paint", paint, "--out", str(parts), "--workers", "2"]
            driver = subprocess.Popen([sys.executable, str(HERE / "ray_bench.py"), plan, *flags])
            kill_a_worker()
            kill_a_worker()
            if driver.wait() != 0:
                raise SystemExit("the driver failed")
            subprocess.run(grid(paint, parts), check=True, stdout=subprocess.DEVNULL)
            compare(whole, parts, "Ray on two workers, killed twice")


if __name__ == "__main__":
    main()
