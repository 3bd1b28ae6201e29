"""`python tests/fuzz.py MINUTES`: drawn inputs that no other run has seen, until the time is over.

Every pass of pytest has a new seed. The second pass tests the rules, all others test files and replies. The program
ends at the first failure, with the command that repeats it, and prints how many examples of each kind were tried.
More words, such as -n 2, go to pytest.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
RULES = ("tests/test_everything.py", "tests/test_rules.py", "tests/test_geometry.py")
HOSTILE = ("tests/test_fuzz_files.py", "tests/test_fuzz_replies.py")


def main(minutes: float, *options: str) -> int:
    """Run passes until the time is over or one fails; return the exit code."""
    until = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        counts.touch()
        os.environ |= {"HYPOTHESIS_PROFILE": "fuzz", "HOLDFAST_FUZZ_COUNTS": str(counts), "GLOO_SOCKET_IFNAME": "lo"}
        code, passes = 0, 0
        while code == 0 and (passes == 0 or time.monotonic() < until):
            words = [
                *options,
                "-q",
                f"--hypothesis-seed={secrets.randbelow(2**32)}",
                *(RULES if passes == 1 else HOSTILE),
            ]
            print("pytest", *words, flush=True)
            code = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT).returncode
            passes += 1
        for kind, many in sorted(Counter(counts.read_text().splitlines()).items()):
            print(f"{many:8,} {kind}")
    print(f"{passes} passes, {'no failure' if code == 0 else 'the last one failed; repeat it by its command above'}")
    return code


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *sys.argv[2:]))
