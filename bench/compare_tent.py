"""A TENT loop in PyTorch against `paint_tta.adapt(method="tent")`, taking turns in one run: time, memory, agreement.

    pip install torch timm safetensors target/wheels/paint_tta-*.whl
    python bench/compare_tent.py --backbones vit_tiny_patch16_224:50,vit_base_patch16_224:8 --threads 2
    python bench/compare_tent.py --threads 2 --backbones \
        convnext_tiny:8,swin_tiny_patch4_window7_224:8,vit_small_patch14_dinov2@224:8,vit_base_patch16_clip_224:8
    python bench/compare_tent.py --threads 2 --work predict --repeat 50 --forms eager,compile,int8 \
        --precisions f32,int8 --backbones deit_tiny_patch16_224:1                 # the latency of one image
    python bench/compare_tent.py --device cuda --work predict --repeat 200 --forms eager,compile,graphs \
        --torch-precision tf32 --precisions tf32 --backbones deit_tiny_patch16_224:1           # the same on a GPU

A backbone is NAME[@SIZE][:BATCH]: any network of timm whose norms are layer norms, with images of SIZE in place of its
own. Prints a Markdown table: medians over all rounds of wall time and CPU time of one step (or prediction), peak memory
with and without what the imports alone take, ratios (ours / PyTorch's, below 1 is better), and the largest difference
of logits in the first three.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from turns import Worker, require_quiet

SCRIPT = Path(__file__).with_name("tent_step.py")
MIB = 1024 * 1024


def gap(ours, theirs):
    """Of the logits that both printed, over all steps."""
    flat = lambda steps: [x for step in steps for row in step for x in row]  # noqa: E731
    return max(abs(a - b) for a, b in zip(flat(ours), flat(theirs), strict=True))


def medians(worker):
    middle = lambda field: statistics.median(sample[field] for sample in worker.samples)  # noqa: E731
    peak = max(sample["peak_memory_bytes"] for sample in worker.samples)
    return middle("ms_per_step"), middle("cpu_ms_per_step"), peak, peak - worker.ready["imported_bytes"]


def compare(args, backbone, size, batch):
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"]
    env = os.environ | {name: str(args.threads) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--backbone", backbone, "--folder", folder]
        flags += ["--image-size", size] if size else []
        subprocess.run([sys.executable, SCRIPT, "make", *flags], check=True)
        flags += ["--batch", batch, "--repeat", args.repeat]
        flags += ["--work", args.work, "--device", args.device]
        forms = {"eager": [], "compile": ["--compile", "default"], "graphs": ["--compile", "reduce-overhead"]}
        forms = {form: [*which, "--precision", args.torch_precision] for form, which in forms.items()}
        forms["int8"] = ["--precision", "int8"]
        label = lambda form: form if form == "int8" else f"{form} {args.torch_precision}"  # noqa: E731
        programs = {f"PyTorch {label(form)}": ["torch", *forms[form]] for form in args.forms.split(",")}
        precisions = args.precisions.split(",")
        ours = {f"paint_tta {precision}": ["paint", "--precision", precision] for precision in precisions}
        programs |= ours
        workers = {name: Worker(name, SCRIPT, *which, *flags, env=env) for name, which in programs.items()}
        if any(worker.ready is None for worker in workers.values()):
            raise SystemExit(f"{backbone}: all programs are needed")
        for round_ in range(args.rounds):
            for worker in workers.values():
                worker.turn()
            print(f"{backbone}: round {round_ + 1} of {args.rounds}", file=sys.stderr, flush=True)
        for worker in workers.values():
            worker.close()
    found = {name: medians(worker) for name, worker in workers.items()}
    for name, (ms, cpu, peak, beyond) in found.items():
        cells = f"{ms:.2f} | {cpu:.2f} | {peak / MIB:.0f} | {beyond / MIB:.0f}"
        print(f"| {backbone} x{batch} | {name} | {cells} | |")
    for mine, name in itertools.product(ours, [name for name in programs if name not in ours]):
        ratios = " | ".join(f"{a / b:.2f}" for a, b in zip(found[mine], found[name], strict=True))
        difference = gap(*(workers[program].ready["first"] for program in (mine, name)))
        print(f"| {backbone} x{batch} | {mine} of {name} | {ratios} | {difference:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbones", default="vit_tiny_patch16_224:50")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3, help="steps per round")
    parser.add_argument("--work", choices=["step", "predict"], default="step")
    parser.add_argument("--forms", default="eager", help="of PyTorch: eager,compile,graphs,int8 (all linear layers)")
    precisions = ["f32", "tf32", "bf16"]
    parser.add_argument("--torch-precision", choices=precisions, default="f32", help="of PyTorch's forms but int8")
    parser.add_argument("--precisions", default="f32", help="of paint_tta: f32,tf32,bf16,fp8,int8")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    args = parser.parse_args()
    if args.device == "cpu":
        require_quiet()
    print("| network | program | ms | CPU ms | MiB | MiB beyond imports | logits differ by |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for backbone in args.backbones.split(","):
        name, _, batch = backbone.partition(":")
        name, _, size = name.partition("@")
        compare(args, name, size, int(batch or 50))


if __name__ == "__main__":
    main()
