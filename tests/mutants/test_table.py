"""The mutants still fit the source: each text stands where its mutant expects it."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import ROOT, apply, copy
from tests.mutants.table import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_the_source_into_other_valid_source(
    mutant: Mutant, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = tmp_path_factory.mktemp("tree")
    copy(tree)
    apply(mutant, tree)
    for change in mutant.changes:
        mutated = (tree / change.file).read_text()
        ast.parse(mutated)
        assert mutated != (ROOT / change.file).read_text()
