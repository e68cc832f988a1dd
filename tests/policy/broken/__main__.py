"""Writes what is said now into every `expected.txt`."""

from __future__ import annotations

from tests.policy.broken import FOLDERS, said

for folder in FOLDERS:
    (folder / "expected.txt").write_text(said(folder), encoding="utf-8")
