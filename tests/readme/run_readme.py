#!/usr/bin/env python3
"""Runs every ```sh block of README.md, in order, from the repository's root.

./run_tests.sh itself is left out: it runs this. Blocks in ```console are for
the reader's own data.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 600


def main():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)
    if not blocks:
        print("README.md has no sh block")
        return 1
    for block in blocks:
        lines = [line for line in block.splitlines()
                 if not line.startswith("./run_tests.sh")]
        script = "set -euo pipefail\n" + "\n".join(lines)
        print("--", block.strip(), flush=True)
        if subprocess.run(["bash", "-c", script], cwd=ROOT,
                          timeout=LIMIT_SECONDS).returncode != 0:
            print("failed")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
