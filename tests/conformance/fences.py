"""Fences where a comparison goes wrong that is not one of whole numbers.

Doubles know no odd number above 2**53 and nothing between 2**63 - 1024 and 2**63; text compares
9 above 10; 32 bits end at 2**31 and 2**32.
"""

from __future__ import annotations

LARGEST = 2**63 - 1

_EDGES = (
    *(10**digits for digits in (1, 2, 3, 9, 15, 16, 17, 18)),
    *(2**bits for bits in (8, 16, 31, 32, 52, 53, 54, 55, 62)),
    1_700_000_000_000_000,
    9_223_372_036_854_774_784,
    9_223_372_036_854_775_295,
)

# (below, above): around every edge, of different lengths, and of one length.
PAIRS: tuple[tuple[int, int], ...] = (
    *((edge - 1, edge) for edge in _EDGES),
    *((edge, edge + 1) for edge in _EDGES),
    *((edge - 1, edge + 1) for edge in _EDGES),
    (1, 2),
    (1, LARGEST),
    (9, 80),
    (99, 1000),
    (2, 10**18),
    (2**53 + 1, 2**53 + 2),
    (2**53, 2**62),
    (LARGEST - 1000, LARGEST - 999),
    (LARGEST - 512, LARGEST),
    (LARGEST - 2, LARGEST - 1),
    (LARGEST - 1, LARGEST),
    (5 * 10**18, LARGEST),
    (999_999_999_999_999_998, 1_000_000_000_000_000_001),
)
