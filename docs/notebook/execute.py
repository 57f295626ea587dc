"""Runs the notebook from its first cell to its last and fails with the first cell that does.

    pip install nbclient ipykernel matplotlib target/wheels/paint_tta-*.whl
    python docs/notebook/execute.py --out drift.ipynb

With `--out` the notebook is written with its results; the one in the repository has none.
"""

import argparse
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    args = parser.parse_args()
    notebook = nbformat.read(Path(__file__).with_name("drift.ipynb"), as_version=4)
    NotebookClient(notebook, timeout=1200, kernel_name="python3").execute()
    pictures = sum(
        "image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])
    )
    if pictures != 3:
        raise SystemExit(f"expected 3 pictures, found {pictures}")
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            print(output.get("text", ""), end="")
    if args.out:
        nbformat.write(notebook, args.out)


if __name__ == "__main__":
    main()
