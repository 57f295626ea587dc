"""NVIDIA's client against `paint serve --demo`.

Usage:
    pip install 'tritonclient[http]' pillow
    PAINT=target/release/paint python crates/paint-serve/clients/test_triton.py
"""

import io
import os
import socket
import subprocess
import tempfile
import time
import unittest

import numpy as np
import tritonclient.http as triton
from PIL import Image
from tritonclient.utils import InferenceServerException

PAINT = os.environ.get("PAINT", "target/release/paint")
MODEL = "paint"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def images(count, seed=0):
    """[count, 32, 32, 3], smooth enough for a network to have an opinion."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
    return np.ascontiguousarray(small.repeat(8, 1).repeat(8, 2))


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.ports = free_port(), free_port()
        listen, admin = (f"127.0.0.1:{port}" for port in cls.ports)
        command = [PAINT, "serve", "--demo", "--method", "tent", "--state", cls.folder.name]
        command += ["--listen", listen, "--admin", admin, "--no-stream", "--no-guard", "--max-queue", "300"]
        cls.server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        cls.client = triton.InferenceServerClient(listen, concurrency=8)
        for _ in range(200):
            try:
                if cls.client.is_server_ready():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError("the server did not become ready")

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.terminate()
        assert cls.server.wait(30) == 0
        cls.folder.cleanup()

    def infer(self, pixels, binary=True, outputs=None, datatype="UINT8", **more):
        tensor = triton.InferInput("images", list(pixels.shape), datatype)
        tensor.set_data_from_numpy(pixels, binary_data=binary)
        outputs = outputs or [triton.InferRequestedOutput("logits", binary_data=binary)]
        return self.client.infer(MODEL, [tensor], outputs=outputs, **more)

    def test_server_and_model_are_described(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_model_ready(MODEL))
        self.assertTrue(self.client.is_model_ready(MODEL, "1"))
        self.assertIn("binary_tensor_data", self.client.get_server_metadata()["extensions"])
        self.assertEqual(self.client.get_model_metadata(MODEL)["inputs"][0]["shape"], [-1, 32, 32, 3])
        self.assertEqual(self.client.get_model_config(MODEL)["max_batch_size"], 256)
        before = self.client.get_inference_statistics(MODEL)["model_stats"][0]["inference_count"]
        self.infer(images(3))
        after = self.client.get_inference_statistics(MODEL)["model_stats"][0]["inference_count"]
        self.assertEqual(after - before, 3)

    def test_binary_and_json_say_the_same(self):
        asked = {"parameters": {"adapt": False}, "sequence_id": "same"}
        raw = self.infer(images(5), **asked).as_numpy("logits")
        text = self.infer(images(5), binary=False, **asked).as_numpy("logits")
        self.assertEqual(raw.shape, (5, 10))
        np.testing.assert_array_equal(raw, text)
        chw = (images(5).transpose(0, 3, 1, 2) / np.float32(255)).astype(np.float32)
        np.testing.assert_array_equal(self.infer(chw, datatype="FP32", **asked).as_numpy("logits"), raw)

    def test_files_are_decoded(self):
        def png(pixels):
            out = io.BytesIO()
            Image.fromarray(pixels).save(out, "PNG")
            return out.getvalue()

        asked = {"parameters": {"adapt": False}, "sequence_id": "files"}
        files = np.array([png(image) for image in images(4)], dtype=np.object_)
        logits = self.infer(files, datatype="BYTES", **asked).as_numpy("logits")
        np.testing.assert_array_equal(logits, self.infer(images(4), **asked).as_numpy("logits"))

    def test_classification(self):
        outputs = [triton.InferRequestedOutput("probabilities", class_count=2)]
        best = self.infer(images(3), outputs=outputs, parameters={"adapt": False}).as_numpy("probabilities")
        self.assertEqual(best.shape, (3, 2))
        value, index, label = best[0][0].decode().split(":")
        self.assertTrue(0 <= float(value) <= 1 and 0 <= int(index) < 10 and label)

    def test_sequences_learn_apart(self):
        adapt = {"parameters": {"mode": "adapt-first"}}
        batch = images(10, seed=1)
        first = [self.infer(batch, sequence_id=7, sequence_start=step == 0, **adapt) for step in range(3)]
        again = [self.infer(batch, sequence_id="seven", **adapt) for _ in range(3)]
        for one, two in zip(first, again):
            np.testing.assert_array_equal(one.as_numpy("logits"), two.as_numpy("logits"))
        facts = [answer.get_response()["parameters"] for answer in first]
        self.assertEqual([fact["step"] for fact in facts], [1, 2, 3])
        self.assertEqual(facts[0]["stream"], "7")
        self.assertFalse(np.array_equal(first[0].as_numpy("logits"), first[2].as_numpy("logits")))
        anew = self.infer(batch, sequence_id=7, sequence_start=True, sequence_end=True, **adapt)
        np.testing.assert_array_equal(anew.as_numpy("logits"), first[0].as_numpy("logits"))

    def test_errors_are_the_clients_own(self):
        with self.assertRaisesRegex(InferenceServerException, "expected"):
            self.client.get_model_metadata("other")
        with self.assertRaisesRegex(InferenceServerException, r"\[B, H, W, 3\]"):
            self.infer(images(1)[0])
        with self.assertRaisesRegex(InferenceServerException, "1 to 256"):
            self.infer(images(257))
        with self.assertRaisesRegex(InferenceServerException, "predict-first or adapt-first"):
            self.infer(images(1), parameters={"mode": "later"})
        with self.assertRaisesRegex(InferenceServerException, "deadline"):
            self.infer(images(64), timeout=1, sequence_id="late")

    def test_many_at_once_are_answered_or_refused(self):
        tensor = triton.InferInput("images", [64, 32, 32, 3], "UINT8")
        tensor.set_data_from_numpy(images(64))
        asked = [self.client.async_infer(MODEL, [tensor], sequence_id=f"s{n % 3}") for n in range(24)]
        answered = refused = 0
        for request in asked:
            try:
                request.get_result()
                answered += 1
            except InferenceServerException as error:
                self.assertIn("queue", str(error))
                refused += 1
        self.assertEqual(answered + refused, 24)
        self.assertGreater(answered, 0)
        self.infer(images(1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
