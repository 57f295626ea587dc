"""Our decoding and resizing against Pillow's, on a folder of real images.

usage: python bench/compare_images.py FOLDER [--limit N]      (needs numpy and pillow)

Decodes every image as it is, then re-encoded in the ways JPEGs come (chroma subsampling, progressive, odd sizes, grey,
CMYK, restart markers), then as PNG, WebP and BMP; then resizes. Prints the mean, 99.9th percentile and largest
difference in grey levels, and ends with status 1 if decoding is not equal or resizing differs by more than 1. Pillow 13
orders the two passes of some resizes differently; use Pillow 12 or older to see equality.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import PIL
from PIL import Image

ENCODINGS = {
    "jpeg 4:2:0 baseline q75": (".jpg", "RGB", dict(quality=75, subsampling=2)),
    "jpeg 4:2:0 optimised q85": (".jpg", "RGB", dict(quality=85, subsampling=2, optimize=True)),
    "jpeg 4:2:0 progressive q90": (".jpg", "RGB", dict(quality=90, subsampling=2, progressive=True)),
    "jpeg 4:2:0 restarts q85": (".jpg", "RGB", dict(quality=85, subsampling=2, restart_marker_blocks=5)),
    "jpeg 4:2:0 odd sizes q80": (".jpg", "odd", dict(quality=80, subsampling=2)),
    "jpeg 4:2:0 progressive odd sizes": (".jpg", "odd", dict(quality=80, subsampling=2, progressive=True)),
    "jpeg 4:2:2 baseline q85": (".jpg", "RGB", dict(quality=85, subsampling=1)),
    "jpeg 4:2:2 odd sizes q80": (".jpg", "odd", dict(quality=80, subsampling=1)),
    "jpeg 4:4:4 progressive q85": (".jpg", "RGB", dict(quality=85, subsampling=0, progressive=True)),
    "jpeg grey q85": (".jpg", "L", dict(quality=85)),
    "jpeg grey progressive q85": (".jpg", "L", dict(quality=85, progressive=True)),
    "jpeg cmyk q90": (".jpg", "CMYK", dict(quality=90)),
    "png rgb": (".png", "RGB", {}),
    "png palette": (".png", "P", {}),
    "png grey + alpha": (".png", "LA", {}),
    "webp lossless": (".webp", "RGB", dict(lossless=True)),
    "webp lossy q80": (".webp", "RGB", dict(quality=80)),
    "bmp": (".bmp", "RGB", {}),
}
SIZES = [(256, 256), (224, 224), (32, 32), (37, 91), (511, 129), (1, 300), (448, 448)]
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def ours(lines):
    cargo = ["cargo", "run", "--release", "-q", "-p", "paint-data", "--example", "pixels"]
    out = subprocess.run(cargo, input="\n".join(lines).encode(), stdout=subprocess.PIPE, check=True).stdout
    images, at = [], 0
    for _ in lines:
        w, h = np.frombuffer(out, "<u4", 2, at)
        images.append(np.frombuffer(out, np.uint8, int(w) * int(h) * 3, at + 8).reshape(h, w, 3))
        at += 8 + int(w) * int(h) * 3
    assert at == len(out)
    return images


def row(name, pairs):
    counts, refused = np.zeros(256, np.int64), 0
    for a, b in pairs:
        if a.shape != b.shape:
            refused += 1
            continue
        counts += np.bincount(np.abs(a.astype(np.int16) - b).ravel(), minlength=256)
    total = max(counts.sum(), 1)
    mean = (counts * np.arange(256)).sum() / total
    p999 = int(np.searchsorted(counts.cumsum(), 0.999 * total))
    top = int(np.flatnonzero(counts).max(initial=0))
    print(f"{name:34} {len(pairs):6} images  mean {mean:7.4f}  p99.9 {p999:3}  max {top:3}  refused {refused}")
    return mean, p999, top, refused


def pillow(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=100, help="images to re-encode and resize")
    args = parser.parse_args()
    paths = sorted(p for p in args.folder.rglob("*") if p.suffix.lower() in {".jpg", ".jpeg", ".png", ".webp", ".bmp"})
    few = paths[:: max(1, len(paths) // args.limit)]
    rng, bad = np.random.default_rng(0), False

    def decode(name, files):
        _, _, top, refused = row(name, list(zip(ours([str(p) for p in files]), map(pillow, files))))
        return top > 0 or refused > 0

    print("Pillow", PIL.__version__)
    bad |= decode("as they are", paths)
    with tempfile.TemporaryDirectory() as folder:
        for k, (name, (suffix, mode, options)) in enumerate(ENCODINGS.items()):
            files = []
            for i, path in enumerate(few):
                image = Image.open(path).convert("RGB")
                if mode == "odd":
                    image = image.crop((0, 0, *(int(rng.integers(17, n)) for n in image.size)))
                else:
                    image = image.convert(mode)
                files.append(pathlib.Path(folder) / f"{k}_{i}{suffix}")
                image.save(files[-1], **options)
            bad |= decode(name, files)
        # Resizing is compared on lossless copies, so that decoding has no part in it.
        for filter_name, filter in FILTERS.items():
            for w, h in SIZES:
                lines, expected = [], []
                for i, path in enumerate(few[:20]):
                    image = Image.open(path).convert("RGB")
                    lossless = pathlib.Path(folder) / f"resize_{i}.png"
                    image.save(lossless)
                    lines.append(f"{lossless}\t{w}\t{h}\t{filter_name}")
                    expected.append(np.asarray(image.resize((w, h), filter)))
                bad |= row(f"resize {filter_name} to {w}x{h}", list(zip(ours(lines), expected)))[2] > 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
