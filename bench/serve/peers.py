"""`paint serve` beside Mosec and LitServe around TENT in PyTorch: same weights, same images, taking turns.

    pip install mosec litserve torch timm safetensors
    cargo build --release -p paint-cli
    python bench/serve/peers.py --seconds 20 --rounds 3 > peers.md

Every server takes a TENT step on the images of each request and answers with its logits. Its capacity is what two
clients get that wait for each answer; then requests leave at 50, 80 and 120 % of it. One server runs at a time.

On a busy machine only CPU seconds can be compared: `--count 20 --threads 1` sends so many requests one after the other
and prints those. With more threads each server also counts the time in which they wait for each other.
"""

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import load

HERE = Path(__file__).parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def commands(args, port, state):
    paint = [args.paint, "serve", "--demo", "--method", "tent", "--mode", "adapt-first", "--no-guard", "--no-stream"]
    paint += ["--threads", str(args.threads), "--no-thumbnails", "--timeout", "120", "--state", state]
    paint += ["--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0"]
    return {
        "paint serve": (paint, load.paint_request),
        "Mosec": (
            [sys.executable, HERE / "mosec_app.py", "--port", str(port), "--timeout", "120000"],
            load.mosec_request,
        ),
        "LitServe": ([sys.executable, HERE / "litserve_app.py", str(port)], load.litserve_request),
    }


def wait_for(port, make, process):
    for _ in range(1200):
        if process.poll() is not None:
            raise SystemExit(f"a server ended with {process.returncode} before it answered")
        if asyncio.run(load.Pool(port).send(make(0))) == 200:
            return
        time.sleep(0.1)
    raise SystemExit("a server did not answer within two minutes")


async def count(name, args, batch, streams, port, make, pid):
    """CPU seconds of requests one after the other, after two that warm it up."""
    pool, statuses = load.Pool(port), []
    for number in range(2):
        await pool.send(make(number % streams))
    before, _ = load.cost(pid)
    for number in range(args.count):
        statuses.append(await pool.send(make(number % streams)))
    after, memory = load.cost(pid)
    assert statuses == [200] * args.count, statuses
    cpu = 1000 * (after - before) / (batch * args.count)
    print(
        f"| {name} | {batch} | {streams} | {args.count} requests "
        f"| {cpu:.2f} | {memory >> 20} | {os.getloadavg()[0]:.1f} |",
        flush=True,
    )


def measure(name, args, batch, streams, round_):
    port = free_port()
    with tempfile.TemporaryDirectory() as state:
        command, request = commands(args, port, state)[name]
        make = lambda stream: request(stream, load.pixels(batch, seed=stream))  # noqa: E731
        env = os.environ | {"THREADS": str(args.threads)}
        log = None if args.verbose else subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=HERE, env=env)
        try:
            wait_for(port, make, process)
            if args.count:
                asyncio.run(count(name, args, batch, streams, port, make, process.pid))
                return
            capacity = asyncio.run(load.closed_loop(port, make, args.seconds / 2, streams))
            for percent in map(int, args.loads.split(",")):
                before, first = load.cost(process.pid)
                outcome = load.open_loop(port, make, max(capacity * percent / 100, 0.05), args.seconds, streams, round_)
                times, statuses, _ = asyncio.run(outcome)
                after, last = load.cost(process.pid)
                images = batch * max(statuses[200], 1)
                p50, p95, p99 = (load.share(times, part) for part in (0.5, 0.95, 0.99))
                counts = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
                print(
                    f"| {name} | {batch} | {streams} | {percent} % | {capacity * batch:.0f} "
                    f"| {p50:.0f} | {p95:.0f} | {p99:.0f} | {1000 * (after - before) / images:.2f} "
                    f"| {first >> 20} -> {last >> 20} | {counts} | {os.getloadavg()[0]:.1f} |",
                    flush=True,
                )
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paint", default="target/release/paint", type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="that compute")
    parser.add_argument("--loads", default="50,80,120")
    parser.add_argument("--cases", default="1:1,1:8,1:200,50:1,50:8,50:200", help="batch:streams, ...")
    parser.add_argument("--servers", default="paint serve,Mosec,LitServe")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    print(f"{load.busy()}, {os.cpu_count()} cores\n")
    if args.count:
        print("| server | batch | streams | sent | CPU s per 1,000 images | MiB | busy |")
        print("|---|---:|---:|---|---:|---:|---:|")
    else:
        print(
            "| server | batch | streams | load | images/s | p50 ms | p95 ms | p99 ms "
            "| CPU s per 1,000 images | MiB | answers | busy |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|")
    for round_ in range(args.rounds):
        for case in args.cases.split(","):
            batch, streams = map(int, case.split(":"))
            for name in args.servers.split(","):
                measure(name, args, batch, streams, round_)


if __name__ == "__main__":
    main()
