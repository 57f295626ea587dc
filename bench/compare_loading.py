"""Loading a folder of JPEGs: ours beside a PyTorch DataLoader, interleaved, on the same processors.

usage: python bench/compare_loading.py FOLDER [--rounds 5] [--workers 2] [--batch 50]   (needs torch and torchvision)

FOLDER holds class subfolders. Both sides decode every image once a round into float batches [B, 3, 224, 224] in [0, 1]:
`plain` as they are (they must be of one size), `resize` with the short side to 256 and a centre crop of 224. PyTorch's
workers are started before its clock (persistent workers, one warm-up round); ours start inside it. Medians over the
rounds.
"""

import argparse
import statistics
import subprocess
import time

import torch
import torchvision
from torchvision import transforms

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--batch", type=int, default=50)
args = parser.parse_args()

TRANSFORMS = {
    "plain": transforms.ToTensor(),
    "resize": transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]),
}
build = ["cargo", "build", "--release", "-q", "-p", "paint-data", "--example", "load", "--message-format=json"]
messages = subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True).stdout
binary = next(m.split('"')[0] for m in messages.split('"executable":"')[1:])


def theirs(loader):
    start, images, total = time.perf_counter(), 0, 0.0
    for batch, _ in loader:
        images += len(batch)
        total += batch[0, 0, 0, 0].item()
    return images / (time.perf_counter() - start)


def ours(name):
    out = subprocess.run(
        [binary, args.folder, str(args.batch), str(args.workers), name], check=True, stdout=subprocess.PIPE
    )
    images, seconds, _ = out.stdout.split()
    return int(images) / float(seconds)


print(
    f"torch {torch.__version__}, {args.workers} workers, batch {args.batch}; images a second, median of {args.rounds}"
)
for name, transform in TRANSFORMS.items():
    data = torchvision.datasets.ImageFolder(args.folder, transform)
    loader = torch.utils.data.DataLoader(data, args.batch, num_workers=args.workers, persistent_workers=True)
    theirs(loader), ours(name)
    rounds = [(theirs(loader), ours(name)) for _ in range(args.rounds)]
    t, o = (statistics.median(side) for side in zip(*rounds))
    ratios = [round(b / a, 2) for a, b in rounds]
    print(f"{name:7} DataLoader {t:8.0f}   paint {o:8.0f}   ratio {o / t:.2f}   rounds {ratios}")
    del loader
