"""An open-loop generator for servers of any kind: requests leave at random moments of a given rate, whether or not the
server keeps up, and a time counts from the moment at which its request was due.
"""

import asyncio
import base64
import json
import os
import random
import time
from collections import Counter

import numpy as np

SIDE = 32
# More requests than this at a time wait in the client, and their time counts.
CONNECTIONS = 64


def pixels(batch, seed=0, side=SIDE):
    """Smooth enough for a network to have an opinion."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (batch, 4, 4, 3), dtype=np.uint8)
    return np.ascontiguousarray(small.repeat(side // 4, 1).repeat(side // 4, 2)).tobytes()


def http(path, body, *headers):
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def paint_request(stream, images, mode="adapt-first", side=SIDE, **parameters):
    tensor = {"name": "images", "datatype": "UINT8", "shape": [len(images) // (3 * side * side), side, side, 3]}
    tensor["parameters"] = {"binary_data_size": len(images)}
    text = json.dumps(
        {"inputs": [tensor], "parameters": {"binary_data_output": True, "mode": mode, **parameters}}
    ).encode()
    length = f"Inference-Header-Content-Length: {len(text)}"
    return http("/v2/models/paint/infer", text + images, length, f"X-Paint-Stream: load-{stream}")


def mosec_request(stream, images):
    return http("/inference", stream.to_bytes(4, "little") + images)


def litserve_request(stream, images):
    body = json.dumps({"stream": stream, "images": base64.b64encode(images).decode()}).encode()
    return http("/predict", body, "Content-Type: application/json")


class Pool:
    """Connections that are kept."""

    def __init__(self, port):
        self.port, self.idle, self.room = port, [], asyncio.Semaphore(CONNECTIONS)

    async def send(self, request):
        """The status; 0 if the connection broke."""
        async with self.room:
            try:
                # A server may close what is idle.
                while self.idle and self.idle[-1][0].at_eof():
                    self.idle.pop()
                reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").lower().split("\r\n")
                length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
                await reader.readexactly(length)
                self.idle.append((reader, writer))
                return int(lines[0].split(" ")[1])
            except (OSError, asyncio.IncompleteReadError):
                return 0


async def open_loop(port, make, rate, seconds, streams, seed=0):
    """Times in ms of good answers, and counts of all statuses."""
    pool, rng, times, statuses = Pool(port), random.Random(seed), [], Counter()
    requests = [make(stream) for stream in range(streams)]

    async def one(due, stream):
        status = await pool.send(requests[stream])
        statuses[status] += 1
        if status == 200:
            times.append(1e3 * (time.perf_counter() - due))

    begun, at, tasks, number = time.perf_counter(), 0.0, [], 0
    while at < seconds:
        at += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, begun + at - time.perf_counter()))
        tasks.append(asyncio.create_task(one(begun + at, number % streams)))
        number += 1
    await asyncio.gather(*tasks)
    return times, statuses, time.perf_counter() - begun


async def closed_loop(port, make, seconds, streams, clients=2):
    """Good answers per second of clients that wait for each answer."""
    pool, requests, good = Pool(port), [make(stream) for stream in range(streams)], 0
    begun = time.perf_counter()

    async def client(first):
        nonlocal good
        number = first
        while time.perf_counter() - begun < seconds:
            status = await pool.send(requests[number % streams])
            good += status == 200
            number += clients

    await asyncio.gather(*(client(first) for first in range(clients)))
    return good / (time.perf_counter() - begun)


def share(times, part):
    return float(np.percentile(times, 100 * part)) if times else float("nan")


def family(pid):
    """A process and all that it started."""
    found, children = [pid], {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    for process in found:
        found += children.get(process, [])
    return found


def cost(pid):
    """CPU seconds so far, and bytes of memory (shared pages counted once per sharer's part)."""
    cpu, memory, tick = 0.0, 0, os.sysconf("SC_CLK_TCK")
    for process in family(pid):
        try:
            with open(f"/proc/{process}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            cpu += (int(fields[11]) + int(fields[12])) / tick
            with open(f"/proc/{process}/smaps_rollup") as file:
                memory += next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return cpu, memory


def busy():
    """What else the machine does."""
    return "load average " + " ".join(f"{value:.1f}" for value in os.getloadavg())
