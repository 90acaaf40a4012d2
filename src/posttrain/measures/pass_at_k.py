"""Success of several attempts at one task: at least one of k (pass@k), all of k (pass^k)."""

from __future__ import annotations

from math import comb


def pass_at_k(num_attempts: int, num_successes: int, k: int) -> float:
    """Return the unbiased chance that at least one of k attempts succeeds.

    1 - C(n - c, k) / C(n, k): Chen et al. 2021, arXiv:2107.03374, eq. 1, in exact integers.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    _check(num_attempts, num_successes, k)
    return 1.0 - comb(num_attempts - num_successes, k) / comb(num_attempts, k)


def pass_hat_k(num_attempts: int, num_successes: int, k: int) -> float:
    """Return the unbiased chance that all of k attempts succeed.

    C(c, k) / C(n, k): Yao et al. 2024 (tau-bench), arXiv:2406.12045, section 4.

    >>> pass_hat_k(4, 2, 2) == 1 / 6
    True
    """
    _check(num_attempts, num_successes, k)
    return comb(num_successes, k) / comb(num_attempts, k)


def _check(num_attempts: int, num_successes: int, k: int) -> None:
    if not 1 <= k <= num_attempts:
        raise ValueError(f"k = {k}: expected 1 … {num_attempts}, the number of judged attempts")
    if not 0 <= num_successes <= num_attempts:
        raise ValueError(f"num_successes = {num_successes}: expected 0 … {num_attempts}")
