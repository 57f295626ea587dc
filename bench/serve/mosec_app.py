"""TENT behind Mosec: four bytes of stream number and raw pixels in, raw logits out.

Usage:
    python bench/serve/mosec_app.py --port 8005
"""

from mosec import Server, Worker
from tent import Streams


class Tent(Worker):
    def __init__(self):
        self.streams = Streams()

    def deserialize(self, data):
        return int.from_bytes(data[:4], "little"), data[4:]

    def forward(self, data):
        return self.streams.step(*data)

    def serialize(self, data):
        return data.tobytes()


if __name__ == "__main__":
    server = Server()
    server.append_worker(Tent, num=1)
    server.run()
