"""Takes docs/pictures/: what a browser shows of `make demo`, a report of both runs and Flower's list of batches.

    make demo ARGS='--fresh --stay'                           in another terminal
    python -m producer report DEMO DEMO_RAG                   with MCQUEUE_REDIS_URL as the demo printed it
    python -m scripts.pictures FLOWER REPORT                  Flower's URL, and the file that `report` named

Needs Chromium, which `make tools` installs.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize

from tests.browser import chromium

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SIZE: ViewportSize = {"width": 1200, "height": 760}
#: As many as the pages have; all 16 million would make the files four times as large.
COLOURS = 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flower", metavar="FLOWER", help="Flower's URL")
    parser.add_argument("report", metavar="REPORT", type=Path, help="a report.html")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE)
        take(page, options.report.resolve().as_uri(), "report")
        take(page, f"{options.flower}/tasks", "flower")
    return 0


def take(page: Page, url: str, name: str) -> None:
    """Save what is first seen of `url` as docs/pictures/`name`.png."""
    page.goto(url, wait_until="networkidle")
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    picture.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
