"""Two servers on one folder of states behind nginx; one of them is killed or paused again and again. No stream may
fork.

    PAINT=target/release/paint NGINX_PROGRAM=nginx python crates/paint-serve/clients/replicas.py [rounds]

Each stream has one client behind nginx, which hashes X-Paint-Stream, and one that goes to the second server past nginx,
so that both servers are asked for every stream. An answer names the step that it is. For each stream the steps that
were answered must grow, over both clients, and never come twice: a fork would answer the same step at both servers.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from kill import PAINT, Client, free_port

NGINX = os.environ.get("NGINX_PROGRAM", "nginx")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
STREAMS = 4
# No lease, no server behind nginx, about to end.
EXPECTED = (409, 502, 503, 504)
CONF = os.path.join(os.path.dirname(__file__), "..", "..", "..", "contrib", "serve", "nginx.conf")


class Watched(Client):
    """Notes what was answered, for both clients of a stream."""

    def __init__(self, port, stream, steps):
        super().__init__(port, stream, EXPECTED)
        self.steps = steps

    def send(self, payload, length):
        done = super().send(payload, length)
        if done:
            self.steps.append(self.last)
        time.sleep(0.05)
        return done


def nginx(folder, front, ports):
    text = open(CONF).read().replace("listen 8080;", f"listen 127.0.0.1:{front};")
    for old, new in zip(("8010", "8020"), ports):
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    conf = os.path.join(folder, "nginx.conf")
    with open(conf, "w") as file:
        file.write(
            f"daemon off; pid {folder}/pid; error_log /dev/null; events {{}} http {{ access_log off; {paths} {text} }}"
        )
    return subprocess.Popen([NGINX, "-c", conf, "-p", folder, "-e", "/dev/null"])


def serve(port, state):
    command = [PAINT, "serve", "--demo", "--method", "tent", "--mode", "adapt-first", "--checkpoint-every", "1"]
    command += ["--lease", "1", "--no-guard", "--no-stream", "--state", state]
    command += ["--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def main():
    rng = random.Random(0)
    front, ports = free_port(), [free_port(), free_port()]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as state:
        proxy = nginx(folder, front, ports)
        servers = [serve(port, state) for port in ports]
        steps = {f"s{number}": [] for number in range(STREAMS)}
        clients = [Watched(port, name, steps[name]) for name in steps for port in (front, ports[1])]
        for client in clients:
            client.start()
        killed = paused = 0
        for _ in range(ROUNDS):
            time.sleep(1 + 2 * rng.random())
            place = rng.randrange(2)
            if rng.random() < 0.5:
                servers[place].kill()
                servers[place].wait()
                time.sleep(2 * rng.random())
                servers[place] = serve(ports[place], state)
                killed += 1
            else:
                servers[place].send_signal(signal.SIGSTOP)
                time.sleep(1 + 2 * rng.random())
                servers[place].send_signal(signal.SIGCONT)
                paused += 1
        time.sleep(3)
        for client in clients:
            client.done = True
        for client in clients:
            client.join(60)
        statuses = [server.send_signal(signal.SIGTERM) or server.wait(60) for server in servers]
        proxy.terminate()
        proxy.wait(30)
    forks = {name: len(all_) - len(set(all_)) for name, all_ in steps.items()}
    # Each client sees only its part of the steps, so that jumps are no faults; everything else is.
    faults = [fault for client in clients for fault in client.faults if fault[0] != "step"]
    answers = sum(map(len, steps.values()))
    print(
        f"{killed} kills and {paused} pauses, {answers} answers of {STREAMS} streams, last steps "
        f"{[max(all_, default=0) for all_ in steps.values()]}, {sum(forks.values())} steps answered twice, "
        f"{len(faults)} faults, last exits {statuses}"
    )
    for fault in faults[:10]:
        print(fault)
    sys.exit(bool(sum(forks.values()) or faults or any(statuses)))


if __name__ == "__main__":
    main()
