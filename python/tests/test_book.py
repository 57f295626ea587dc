"""The code of the book's chapter on Python, and of the package's own page, is run."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def blocks(text: str, *languages: str) -> list[str]:
    """The blocks of these languages, in order."""
    found = re.findall(r"^```(\S*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [code for language, code in found if language in languages]


@pytest.mark.parametrize("page", ["docs/src/python.md", "python/README.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    code = blocks(text, "python", "python,torch")
    assert code, page
    if blocks(text, "python,torch"):
        pytest.importorskip("torch")
        pytest.importorskip("timm")
    names: dict[str, Any] = {}
    for block in code:
        exec(compile(block, page, "exec"), names)
