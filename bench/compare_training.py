"""Times `paint train` against the same training in PyTorch, taking turns, in one run.

    python bench/compare_training.py --paint target/release/paint --data CIFAR_FOLDER
    python bench/compare_training.py --paint target/release/paint --device cpu --precision f32 --batch 8 --steps 2 \\
        --modes eager

ViT-Tiny/4 on 32x32 images: the recipe `vit` with jitter of colours beside its augmentations, made on the device by
both. Prints a Markdown table of images a second, the median over the rounds, and our ratio to each way of running
PyTorch (above 1 is faster). Without `--data` ours trains on the images inside the program, which costs the same.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from turns import Worker

WORKER = Path(__file__).with_name("training_torch.py")
NAMES = {
    "eager": "PyTorch, eager",
    "compile": "PyTorch, torch.compile",
    "graphs": "PyTorch, torch.compile with CUDA graphs",
}

# On top of the recipe, as PyTorch's side has them.
COLOURS = {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3}


def torch_worker(args, mode):
    flags = ["--mode", mode, "--device", args.device, "--precision", args.precision, "--batch", args.batch]
    return Worker(NAMES[mode], WORKER, *flags, "--steps", args.steps, "--images", args.images)


def ours(args):
    dataset = "npy" if args.data and args.data.endswith(".npy") else "cifar10"
    data = ["--dataset", dataset, "--data", args.data] if args.data else ["--dataset", "embedded"]
    command = [args.paint, "train", "--backbone", "vit_tiny_patch4_32", "--batch-size", str(args.batch), *data]
    for key, value in COLOURS.items():
        command += ["--set", f"augment.{key}={value}"]
    command += ["--device", args.device, "--precision", args.precision, "--steps", str(args.steps), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paint", required=True)
    parser.add_argument("--data", help="folder of CIFAR-10, or an array of images beside labels.npy")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--precision", default="bf16", choices=["f32", "tf32", "bf16"])
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--images", type=int, default=50000, help="random images that PyTorch draws from")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modes", default="eager,compile")
    args = parser.parse_args()
    workers = {mode: torch_worker(args, mode) for mode in args.modes.split(",")}
    mine = []
    for number in range(args.rounds):
        mine.append(ours(args))
        for worker in workers.values():
            worker.turn()
        rates = [f"{mine[-1]['images_per_second']:.0f}"]
        rates += [f"{w.samples[-1]['images_per_second']:.0f}" if w.samples else "-" for w in workers.values()]
        print(f"round {number + 1}: {', '.join(rates)} images/s", file=sys.stderr, flush=True)
    middle = lambda samples: statistics.median(s["images_per_second"] for s in samples)
    rate = middle(mine)
    print(
        f"\nViT-Tiny/4, batch {args.batch}, {args.precision}, {args.device}, "
        f"median of {args.rounds} x {args.steps} steps\n"
    )
    print("| | images/s | ms per step | paint is faster by |\n|---|---|---|---|")
    print(f"| paint train | {rate:.0f} | {1e3 * args.batch / rate:.2f} | |")
    for mode, worker in workers.items():
        if worker.samples:
            theirs = middle(worker.samples)
            print(f"| {NAMES[mode]} | {theirs:.0f} | {1e3 * args.batch / theirs:.2f} | {rate / theirs:.2f} |")
        worker.close()


if __name__ == "__main__":
    main()
