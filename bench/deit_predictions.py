"""Predictions of a timm ViT over ImageNet crops, and their agreement with ours.

    python bench/deit_predictions.py --weights W.safetensors --images A.tar B.tar --out torch.csv
    python bench/deit_predictions.py --out torch.csv --compare ours.csv

The CSV has the columns file, class_index, confidence (probability of that class). A path such as
`007/ILSVRC2012_val_00000123.JPEG` whose folder is a number gives the true class, and top-1 is printed.
"""

import argparse
import csv
import io
import json
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures"))
from gaps import largest  # noqa: E402

SUFFIXES = (".jpeg", ".jpg", ".png", ".webp")


def pictures(sources):
    """(name, bytes) of every image in folders and tar files, sorted by name."""
    found = {}
    for source in map(Path, sources):
        if source.is_dir():
            for path in source.rglob("*"):
                if path.name.lower().endswith(SUFFIXES):
                    found[str(path.relative_to(source))] = path.read_bytes()
        else:
            with tarfile.open(source) as tar:
                for member in tar:
                    if member.isfile() and member.name.lower().endswith(SUFFIXES):
                        found[member.name.removeprefix("./")] = tar.extractfile(member).read()
    if not found:
        raise SystemExit(f"no images in {sources}")
    return sorted(found.items())


def true_class(name):
    folder = Path(name).parent.name
    return int(folder) if folder.isdigit() else None


def predict(a):
    import timm
    import torch
    from PIL import Image
    from safetensors.torch import load_file
    from torchvision.transforms import functional as TF

    torch.set_num_threads(a.threads)
    config = json.loads(Path(a.weights).with_name("config.json").read_text())
    model = timm.create_model(config["architecture"], pretrained=False, num_classes=config["num_classes"]).eval()
    model.load_state_dict(load_file(a.weights))
    preprocess = config["pretrained_cfg"]
    height, width = preprocess["input_size"][1:]

    def load(data, name):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        if image.size != (width, height):
            raise SystemExit(f"expected {width}x{height} crops, got {image.size[0]}x{image.size[1]}: {name}")
        return TF.normalize(TF.to_tensor(image), preprocess["mean"], preprocess["std"])

    items = pictures(a.images)[: a.limit]
    right = known = 0
    with open(a.out, "w", newline="") as handle, torch.inference_mode():
        out = csv.writer(handle, lineterminator="\n")
        out.writerow(["file", "class_index", "confidence"])
        for start in range(0, len(items), a.batch):
            batch = items[start : start + a.batch]
            p = model(torch.stack([load(data, name) for name, data in batch])).softmax(dim=1)
            best, classes = p.max(dim=1)
            for (name, _), c, confidence in zip(batch, classes.tolist(), best.tolist()):
                out.writerow([name, c, f"{confidence:.6f}"])
                known += true_class(name) is not None
                right += true_class(name) == c
            print(f"\r{start + len(batch)} of {len(items)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{len(items)} images" + (f", top-1 {100 * right / known:.2f} %" if known else ""))


def read(path):
    with open(path, newline="") as handle:
        rows = {
            r["file"].removeprefix("./"): (int(r["class_index"]), float(r["confidence"]))
            for r in csv.DictReader(handle)
        }
    # Programs may name a file from different folders on; the last two parts are enough.
    return {"/".join(Path(name).parts[-2:]): row for name, row in rows.items()}


def compare(a):
    ours, theirs = read(a.compare), read(a.out)
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        raise SystemExit(f"no file name is in both {a.compare} and {a.out}")
    other = [f for f in both if ours[f][0] != theirs[f][0]]
    agreed = [f for f in both if ours[f][0] == theirs[f][0]]
    gap = largest((abs(ours[f][1] - theirs[f][1]) for f in agreed), default=float("nan"))
    print(f"same class: {len(agreed)} of {len(both)} ({100 * len(agreed) / len(both):.2f} %)")
    print(f"largest difference of confidence where the class is the same: {gap:.2e}")
    print(f"in one file only: {len(ours.keys() ^ theirs.keys())}")
    for title, rows in (("ours", ours), ("PyTorch", theirs)):
        known = [f for f in both if true_class(f) is not None]
        if known:
            right = sum(rows[f][0] == true_class(f) for f in known)
            print(f"top-1 {title}: {100 * right / len(known):.2f} % of {len(known)}")
    for f in other[:20]:
        print(f"differs: {f}: ours {ours[f][0]} ({ours[f][1]:.4f}), PyTorch {theirs[f][0]} ({theirs[f][1]:.4f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", help="timm names, config.json beside it")
    parser.add_argument("--images", nargs="+", help="folders or tar files of crops at the input size")
    parser.add_argument("--out", default="torch.csv", help="PyTorch's predictions")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, help="only the first N images by name")
    parser.add_argument("--compare", metavar="OURS", help="our predictions")
    a = parser.parse_args()
    if a.weights and a.images:
        predict(a)
    elif not a.compare:
        parser.error("give --weights and --images, or --compare")
    if a.compare:
        compare(a)


if __name__ == "__main__":
    main()
