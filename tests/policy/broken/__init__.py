"""Policies with something wrong in each folder, and in `expected.txt` what is said of it.

`python -m tests.policy.broken` writes what is said now; then look at `git diff`. Whoever reads
only the message should know what to do.
"""

from __future__ import annotations

from pathlib import Path

from fencegate.policy import Outside, check

SECRET = "s3cret"  # stands in many of the files, and in no message
ENVIRON = {"PAYMENTS_KEY": SECRET, "EMPTY": "", "LINES": f"{SECRET}\n{SECRET}"}
HERE = Path(__file__).parent
FOLDERS = sorted(path for path in HERE.iterdir() if path.is_dir() and path.name[0] not in "._")


def said(folder: Path) -> str:
    """All problems of a folder, as people read them; `.` is the folder."""
    problems = check(folder, Outside(ENVIRON)).problems
    text = "\n\n".join(map(str, problems))
    return text.replace(f"{folder}/", "").replace(str(folder), ".") + "\n"
