"""Times `paint bench step` against the same step in PyTorch, taking turns, and compares the numbers.

    python bench/compare_torch.py --paint target/release/paint --threads 1,2

Prints two Markdown tables. The first has medians over all rounds of wall time, CPU time and peak memory, their ratios
(ours / PyTorch's, below 1 is better) and, on the CPU, both programs' rate of one and the same product; the second, the
agreement of logits and gradients. On the CPU it does not start while other work runs. This program imports nothing but
the standard library: a child's peak memory would otherwise include its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from turns import Worker, require_quiet

WORKER = Path(__file__).with_name("paint_step_torch.py")
BATCH = {"vit_tiny_patch4_32": 50, "vit_base_patch16_224": 8, "vit_large_patch16_224": 8}
# Not among `paint list backbones`: ours reads the weights that PyTorch wrote.
FROM_WEIGHTS = {"vit_small_patch14_dinov2": 8, "vit_large_patch14_dinov2": 8, "vit_base_patch16_clip_quickgelu_224": 8}
DEFAULT = "vit_tiny_patch4_32,vit_base_patch16_224"
OURS = {"cpu": "cpu", "cuda": "cuda:0"}
MIB = 1024 * 1024


def note(text):
    print(text, file=sys.stderr, flush=True)


def environment(threads):
    """Both programs get the same thread count by every way they listen to."""
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"]
    return os.environ | {n: str(threads) for n in names}


def torch_worker(args, backbone, batch, threads, mode):
    form, _, precision = mode.partition(":")
    precision = precision or (args.precision if args.device == "cuda" else "f32")
    flags = ["time", "--backbone", backbone, "--batch", batch, "--threads", threads]
    flags += ["--repeat", args.repeat, "--mode", form]
    flags += ["--device", args.device, "--precision", precision]
    name = f"PyTorch {mode} of {backbone} with {threads} threads"
    return Worker(name, WORKER, *flags, env=environment(threads))


def run_paint(args, backbone, batch, threads, folder):
    """One run of our binary; its peak memory is read from the operating system."""
    network = ["--weights", f"{folder}/weights.safetensors"] if backbone in FROM_WEIGHTS else ["--backbone", backbone]
    command = [args.paint, "bench", "step", *network, "--batch-size", str(batch), "--threads", str(threads)]
    command += ["--repeat", str(args.repeat), "--device", OURS[args.device], "--precision", args.precision, "--json"]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, env=environment(threads))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"exit code {process.returncode} of: {' '.join(command)}")
        out.seek(0)
        sample = json.loads(out.read())
    if args.device == "cpu":
        sample["peak_memory_bytes"] = usage.ru_maxrss * 1024
    return sample


def median(samples, field):
    found = [s[field] for s in samples if s.get(field) is not None]
    return statistics.median(found) if found else float("nan")


def spread(samples):
    times = [s["ms_per_step"] for s in samples]
    return f"{min(times):.1f}-{max(times):.1f}"


def row(name, samples, base, extra=""):
    ms, cpu = median(samples, "ms_per_step"), median(samples, "cpu_ms_per_step")
    memory = max(s["peak_memory_bytes"] for s in samples)
    ratios = "| | |"
    if base:
        b_memory = max(s["peak_memory_bytes"] for s in base)
        time = f"{ms / median(base, 'ms_per_step'):.2f} | {cpu / median(base, 'cpu_ms_per_step'):.2f}"
        ratios = f"| {time} | {memory / b_memory:.2f}"
    return f"| {name} | {ms:.1f} | {spread(samples)} | {cpu:.1f} | {memory / MIB:.0f} {ratios} | {extra} |"


def make(backbone, batch, folder, *flags):
    """Weights, inputs and PyTorch's values."""
    command = ["make", "--backbone", backbone, "--batch", str(batch), "--threads", "2", "--folder", folder]
    subprocess.run([sys.executable, str(WORKER), *command, *flags], check=True)


def compare_speed(args, backbone, batch, threads, folder):
    """Rounds of ours, eager, compiled, ours, ..."""
    workers = {mode: torch_worker(args, backbone, batch, threads, mode) for mode in args.modes.split(",")}
    ours = []
    for r in range(args.rounds):
        if args.paint:
            ours.append(run_paint(args, backbone, batch, threads, folder))
        for worker in workers.values():
            worker.turn()
        note(f"{backbone}, {threads} threads: round {r + 1} of {args.rounds}")
    for worker in workers.values():
        worker.close()
    eager = workers["eager"].samples if "eager" in workers else []
    label = f"{backbone} x{batch}, {threads} thr"
    for mode, worker in workers.items():
        if worker.samples:
            extra = f"{worker.ready['imported_bytes'] / MIB:.0f} MiB of it after imports"
            if args.device == "cpu":
                extra += f"; a product that fits the caches at {worker.ready['product_gflops']:.0f} GFLOP/s"
            print(row(f"{label}: PyTorch {mode}", worker.samples, eager if mode != "eager" else [], extra))
    if ours:
        extra = f"{median(ours, 'matmul_peak_fraction'):.2f} of the rate of a product that fits the caches, "
        extra += f"{median(ours, 'matmul_peak_gflops'):.0f} GFLOP/s"
        if eager and args.device == "cpu":
            beyond = max(s["peak_memory_bytes"] for s in eager) - workers["eager"].ready["imported_bytes"]
            extra += f"; {max(s['peak_memory_bytes'] for s in ours) / beyond:.2f} of eager's memory less its imports"
        print(row(f"{label}: paint", ours, eager, extra))
    sys.stdout.flush()


def compare_numbers(args, backbone, batch):
    """Same weights and inputs through both; lines for the second table."""
    with tempfile.TemporaryDirectory() as folder:
        make(backbone, batch, folder, *(["--double"] if args.double else []))
        check = ["check", "--folder", folder]
        if args.paint:
            command = [args.paint, "bench", "step", "--batch-size", str(batch), "--repeat", "1"]
            command += ["--weights", f"{folder}/weights.safetensors", "--images", f"{folder}/inputs.safetensors"]
            command += [
                "--device",
                OURS[args.device],
                "--precision",
                args.precision,
                "--dump",
                f"{folder}/ours.safetensors",
                "--json",
            ]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            check += ["--dump", f"{folder}/ours.safetensors"]
        found = subprocess.run([sys.executable, str(WORKER), *check], check=True, capture_output=True, text=True).stdout
    for line in found.splitlines():
        d = json.loads(line)
        print(
            f"| {backbone} | {d['against']} | {d['logits_max_abs']:.1e} | {100 * d['same_class']:.1f} % | "
            f"{d['grad_max_rel']:.1e} ({d['worst']}) | {d['prompt_rel']:.1e} | {d['key_bias_max_abs']:.1e} |"
        )
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = BATCH | FROM_WEIGHTS
    parser.add_argument("--paint", help="our binary; without it only PyTorch is measured")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--backbones", default=DEFAULT, help=f"of {', '.join(known)}, each with an optional :BATCH")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3, help="steps per round")
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--device", choices=sorted(OURS), default="cpu")
    parser.add_argument(
        "--precision", choices=["f32", "tf32", "bf16"], default="f32", help="ours; PyTorch's too on a GPU"
    )
    parser.add_argument("--double", action="store_true", help="also show PyTorch's own float64 gap")
    parser.add_argument("--only", choices=["speed", "numbers"])
    args = parser.parse_args()
    chosen = []
    for item in args.backbones.split(","):
        name, _, batch = item.partition(":")
        if name not in known:
            parser.error(f"unknown backbone {name!r}, known: {', '.join(known)}")
        chosen.append((name, int(batch) if batch else known[name]))
    if args.only != "numbers":
        if args.device == "cpu":
            require_quiet()
        print("| program | ms/step | range | CPU ms/step | peak MiB | time ratio | CPU ratio | memory ratio | |")
        print("|---|---|---|---|---|---|---|---|---|")
        for name, batch in chosen:
            with tempfile.TemporaryDirectory() as folder:
                if name in FROM_WEIGHTS:
                    make(name, batch, folder)
                for threads in args.threads.split(","):
                    compare_speed(args, name, batch, int(threads), folder)
        print()
    if args.only != "speed":
        print(
            "| backbone | compared | logits max abs | same class | gradients max rel (worst) | prompt grad rel "
            "| key bias abs |"
        )
        print("|---|---|---|---|---|---|---|")
        for name, batch in chosen:
            compare_numbers(args, name, batch)


if __name__ == "__main__":
    main()
