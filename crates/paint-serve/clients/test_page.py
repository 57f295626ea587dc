"""The page in a real browser: a stream drifts, and somebody rolls it back.

Usage:
    pip install playwright                       # and Chromium from the system
    PAINT=target/release/paint python crates/paint-serve/clients/test_page.py [folder for screenshots]
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    sync_playwright = None

PAINT = os.environ.get("PAINT", "target/release/paint")
NAMES = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"]
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
SHOTS = sys.argv.pop(1) if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else None
PATIENCE = 120_000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipUnless(sync_playwright, "SKIPPED: Playwright is not installed")
@unittest.skipUnless(BROWSER, f"SKIPPED: none of {', '.join(NAMES)} is installed")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.url = f"http://127.0.0.1:{free_port()}/"
        command = [PAINT, "serve", "--demo", "--replay", "--replay-rate", "200", "--state", cls.folder.name]
        command += [
            "--listen",
            f"127.0.0.1:{free_port()}",
            "--admin",
            cls.url[7:-1],
            *os.environ.get("FLAGS", "").split(),
        ]
        cls.server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.server.terminate()
        assert cls.server.wait(60) == 0
        cls.folder.cleanup()

    def open(self, width, scheme):
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        self.complaints = []
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        for _ in range(100):
            try:
                page.goto(self.url)
                break
            except Exception:  # the server may still be starting
                page.wait_for_timeout(100)
        page.wait_for_selector("#conditions tr", timeout=PATIENCE)
        return page

    def shoot(self, page, name):
        if SHOTS:
            page.screenshot(path=os.path.join(SHOTS, name + ".png"), full_page=True)

    def test_a_stream_drifts_and_is_rolled_back(self):
        page = self.open(1240, "light")
        steps = lambda: int(page.inner_text("#steps").replace(",", ""))

        def wait_for(least):
            for _ in range(PATIENCE // 200):
                if steps() >= least:
                    return
                page.wait_for_timeout(200)
            self.fail(f"expected {least} steps, found {steps()}")

        wait_for(3)
        page.click("#snapshot")
        expect(page.locator("#said")).to_contain_text("snapshot: now at step", timeout=PATIENCE)
        kept = int(page.inner_text("#said").split("step ")[1].split(",")[0])
        page.click("#kept button")
        expect(page.locator("#said")).to_contain_text("pin: now at step", timeout=PATIENCE)
        expect(page.locator("#kept button")).to_have_text("Unpin", timeout=PATIENCE)
        wait_for(kept + 2)
        page.click("#freeze")
        expect(page.locator("#state")).to_have_text("frozen", timeout=PATIENCE)
        frozen = steps()
        self.shoot(page, "desk-light-frozen")
        page.click("#rollback")
        page.wait_for_selector("#confirm[open]")
        self.shoot(page, "desk-light-confirm")
        page.click("#confirm button[value=no]")
        self.assertEqual(steps(), frozen, "no is no")
        page.click("#rollback")
        page.wait_for_selector("#confirm[open]")
        page.select_option("#snapshots", str(kept))
        page.click("#confirm-yes")
        expect(page.locator("#said")).to_contain_text(
            f"rollback: now at step {kept}, version 1.{kept}", timeout=PATIENCE
        )
        expect(page.locator("#steps")).to_have_text(str(kept), timeout=PATIENCE)
        page.click("#freeze")
        expect(page.locator("#state")).not_to_have_text("frozen", timeout=PATIENCE)
        actions = page.locator("#audit").inner_text()
        for action in ["snapshot", "pin", "freeze", "rollback", "resume"]:
            self.assertIn(action, actions)
        with urllib.request.urlopen(self.url + "metrics") as answer:
            self.assertIn(b"paint_steps_total", answer.read())
        self.shoot(page, "desk-light")
        self.assertEqual(self.complaints, [])

    def test_it_fits_a_phone_and_the_dark(self):
        page = self.open(390, "dark")
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
        colour = "getComputedStyle(document.body).backgroundColor"
        luma = colour + ".match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)"
        self.assertLess(page.evaluate(luma), 150)
        self.shoot(page, "phone-dark")
        page.click("#theme")
        self.assertGreater(page.evaluate(luma), 600)
        self.assertEqual(self.complaints, [])
        page.set_viewport_size({"width": 1240, "height": 900})
        page.click("#theme")
        page.wait_for_timeout(500)
        self.shoot(page, "desk-dark")


if __name__ == "__main__":
    unittest.main(verbosity=2)
