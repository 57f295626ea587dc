"""Runs and benchmarks from Python are those of the command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import paint_tta as pt
import pytest

CONFIG: dict[str, Any] = {
    "model": {"weights": "embedded"},
    "data": {"name": "embedded", "corrupt": {"table": "cifar"}},
    "scenario": {"domains": ["fog", "snow"], "limit": 20, "batch_size": 10},
    "method": {"name": "tent"},
}


def test_a_run_tells_its_batches_and_leaves_its_files(tmp_path: Path) -> None:
    events: list[str] = []
    out = tmp_path / "out"
    summary = pt.run(
        CONFIG, set={"out": str(out), "method.lr": 0.01}, on_event=lambda event: events.append(event["event"])
    )
    assert [domain["name"] for domain in summary["domains"]] == ["fog", "snow"]
    assert events.count("batch_done") == 4 and events[-1] == "run_done"
    again = pt.run(out / "config.toml", earlier="overwrite")
    assert again["logits_hash"] == summary["logits_hash"]
    with pytest.raises(pt.RequestError, match="holds an earlier run"):
        pt.run(out / "config.toml")


def test_an_exception_of_the_listener_ends_the_run(tmp_path: Path) -> None:
    told = 0

    def listener(event: dict[str, Any]) -> None:
        nonlocal told
        told += 1
        raise ZeroDivisionError("of the listener")

    with pytest.raises(ZeroDivisionError, match="of the listener"):
        pt.run({**CONFIG, "out": str(tmp_path / "out")}, on_event=listener)
    assert told <= 3, "the run ends after the batch"


def test_a_benchmark_leaves_the_bytes_of_the_command(tmp_path: Path, paint: Callable[..., Any]) -> None:
    flags = {"protocol": "embedded", "methods": ["source", "tent"], "limit": 10, "no_timing": True}
    results = pt.bench(**flags, set=["scenario.domains=['fog']"], out=tmp_path / "python")
    assert [row["label"] for row in results["rows"]] == ["source", "tent"]
    words = ["--protocol", "embedded", "--methods", "source,tent", "--limit", 10, "--no-timing"]
    ran = paint("bench", *words, "--set", "scenario.domains=['fog']", "--out", tmp_path / "command")
    assert ran.returncode == 0, ran.stderr
    for name in ("results.jsonl", "summary.json", "results.csv", "report.html", "protocol.toml"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name


def test_a_search_makes_the_choice_of_the_command_and_its_settings_adapt(
    tmp_path: Path, paint: Callable[..., Any]
) -> None:
    flags = {"method": "tent", "dataset": "embedded", "candidates": 4, "limit": 10, "seeds": "0,1", "batch_size": 5}
    tuned = pt.tune(**flags, corruptions=["saturate"], search=["lr=1e-4..1e-1"], out=tmp_path / "python")
    words = ["--method", "tent", "--dataset", "embedded", "--candidates", 4, "--limit", 10, "--seeds", "0,1"]
    words += ["--batch-size", 5, "--corruptions", "saturate", "--search", "lr=1e-4..1e-1"]
    ran = paint("tune", *words, "--out", tmp_path / "command")
    assert ran.returncode == 0, ran.stderr
    for name in ("preset.toml", "tune.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name
    adapter = pt.adapt("embedded", tuned["method"], **tuned["settings"])
    assert adapter(pt.embedded_images(4)).shape == (4, 10)
    with pytest.raises(pt.RequestError, match='got "fog"'):
        pt.tune(**flags, corruptions=["fog"], out=tmp_path / "fog")


def test_the_command_has_its_own_exit_codes(paint: Callable[..., Any]) -> None:
    listed = paint("list", "methods")
    assert listed.returncode == 0 and listed.stdout.startswith("source")
    wrong = paint("list", "colours")
    assert wrong.returncode == 2 and "colours" in wrong.stderr
    assert paint("--version").stdout.startswith("paint ")
