"""What `paint serve` promises, measured: the server's own time for 1.2 MB, predictions beside steps, 120 % load.

Usage:
    cargo build --release -p paint-cli
    python bench/serve/bars.py [--seconds 20]
"""

import argparse
import asyncio
import os
import re
import subprocess
import tempfile
import time
import urllib.request

import load
from peers import free_port, wait_for


class Served:
    def __init__(self, paint, *flags):
        self.port, self.admin, self.state = free_port(), free_port(), tempfile.TemporaryDirectory()
        command = [paint, "serve", "--demo", "--no-guard", "--no-stream", "--no-thumbnails", "--state", self.state.name]
        command += ["--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self):
        wait_for(self.port, lambda stream: load.paint_request(stream, load.pixels(1), adapt=False), self.process)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.state.cleanup()

    def total(self, name):
        """Count and seconds of one of the server's times."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as answer:
            text = answer.read().decode()
        value = lambda part: float(re.search(rf"^paint_{name}_seconds_{part}\S* (\S+)$", text, re.M)[1])  # noqa: E731
        return value("count"), value("sum")


def overhead(args):
    """The time of a request less the time of its prediction: reading, checking, converting, queueing, writing."""
    with Served(args.paint, "--method", "source", "--max-images", "400", "--max-queue", "400") as server:
        request = load.paint_request(0, load.pixels(400), mode="predict-first", adapt=False)
        ask = lambda: asyncio.run(load.Pool(server.port).send(request))  # noqa: E731
        ask()
        before = [server.total(name) for name in ("request", "predict")]
        for _ in range(args.requests):
            assert ask() == 200
        after = [server.total(name) for name in ("request", "predict")]
    whole, predict = ((b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(before, after))
    print(
        f"overhead of a request of {len(request) / 1e6:.2f} MB: {1e3 * (whole - predict):.2f} ms "
        f"(mean of {args.requests}; request {1e3 * whole:.1f} ms, prediction {1e3 * predict:.1f} ms)"
    )


async def predictions(server, seconds, beside):
    """Times of single predictions of one stream, alone or while another one takes steps without a pause."""
    look = load.paint_request(0, load.pixels(1), mode="predict-first", adapt=False)
    step = load.paint_request(1, load.pixels(50, seed=1))
    pool, times, done = load.Pool(server.port), [], False

    async def steps():
        while not done:
            await pool.send(step)

    other = asyncio.create_task(steps()) if beside else None
    await asyncio.sleep(1)
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        at = time.perf_counter()
        assert await pool.send(look) == 200
        times.append(1e3 * (time.perf_counter() - at))
        await asyncio.sleep(0.01)
    done = True
    if other:
        await other
    return times


def beside_steps(args):
    with Served(args.paint, "--method", args.method) as server:
        for beside in (False, True, False, True):
            times = asyncio.run(predictions(server, args.seconds, beside))
            p50, p99 = load.share(times, 0.5), load.share(times, 0.99)
            print(
                f"one image {'beside steps of ' + args.method if beside else 'alone'}: "
                f"p50 {p50:.1f} ms, p99 {p99:.1f} ms ({len(times)} requests)",
                flush=True,
            )


def overload(args):
    with Served(args.paint, "--method", "tent", "--max-queue", "256") as server:
        make = lambda stream: load.paint_request(stream, load.pixels(50, seed=stream))  # noqa: E731
        capacity = asyncio.run(load.closed_loop(server.port, make, args.seconds / 2, 8))
        for part in range(3):
            first = load.cost(server.process.pid)[1]
            times, statuses, _ = asyncio.run(load.open_loop(server.port, make, 1.2 * capacity, args.seconds, 8, part))
            last = load.cost(server.process.pid)[1]
            print(
                f"120 % of {capacity * 50:.0f} images/s: {dict(statuses)}, p99 {load.share(times, 0.99):.0f} ms, "
                f"memory {first >> 20} -> {last >> 20} MiB",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paint", default="target/release/paint", type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--method", default="tent")
    parser.add_argument("--only", default="overhead,beside_steps,overload")
    args = parser.parse_args()
    for name in args.only.split(","):
        print(load.busy(), flush=True)
        {"overhead": overhead, "beside_steps": beside_steps, "overload": overload}[name](args)


if __name__ == "__main__":
    main()
