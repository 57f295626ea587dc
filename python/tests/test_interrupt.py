"""Ctrl-C ends what takes long, and nothing is lost."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import paint_tta as pt
import pytest

CONFIG = {
    "model": {"weights": "embedded"},
    "data": {"name": "embedded", "corrupt": {"table": "cifar"}},
    "scenario": {"domains": ["fog", "snow"], "limit": 200, "batch_size": 10},
    "method": {"name": "tent"},
}

PROGRAM = """
import json, signal, sys
import paint_tta as pt
# A shell that starts its children in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
config, call = json.loads(sys.argv[1]), sys.argv[2]
def tell(event):
    if event["event"] == "batch_done":
        print("batch", flush=True)
try:
    if call == "run":
        pt.run(config, on_event=tell)
    elif call == "bench":
        pt.bench(protocol="embedded", methods=["tent"], limit=200, batch_size=10, out=config["out"], on_event=tell)
    else:
        adapter, images = pt.adapt("embedded", method="tent"), pt.embedded_images(50)
        for _ in range(100):
            adapter(images)
            print("batch", flush=True)
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(7)
"""


@pytest.mark.parametrize("call", ["run", "bench", "adapt"])
def test_ctrl_c_raises_keyboard_interrupt_after_the_batch(call: str, tmp_path: Path) -> None:
    config = {**CONFIG, "out": str(tmp_path / "out")}
    command = [sys.executable, "-c", PROGRAM, json.dumps(config), call]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "batch\n"
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        rest = process.stdout.read()
        assert process.wait(60) == 7, rest
    assert rest.endswith("interrupted\n")
    assert rest.count("batch") < 30, "of 40 or more"
    assert time.monotonic() - begun < 30
    if call == "run":
        whole = pt.run({**config, "out": str(tmp_path / "whole")})
        resumed = pt.run(config, earlier="resume")
        assert resumed["logits_hash"] == whole["logits_hash"]


def test_ctrl_c_ends_the_command_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "paint_tta", "run", "--dataset", "embedded", "--weights", "embedded"]
    command += ["--method", "tent", "--out", str(tmp_path / "out"), "--set", "data.corrupt.table=cifar"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out" / "events.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(60) == 130, said
    assert "SIGINT" in said
