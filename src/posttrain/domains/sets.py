"""What is known about the sets of reasoning-gym 0.1.25: which are sound, which are not and why.

Literal tables, apart from the domain that reads them, because each entry is an audited fact about a
foreign package: all its sets, up to 24 items each, at defaults and the easiest level, in two processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "composite": "it mixes other sets; use one domain for each of them",
        "game_of_life_halting": "its scoring pays full marks for any text",
        "puzzle24": "its scoring does not check which numbers were used",
        "simple_integration": "its answers can only be judged by executing them",
        "intermediate_integration": "its answers can only be judged by executing them",
        "polynomial_multiplication": "its tasks differ from one Python process to the next",
        "isomorphic_strings": "its tasks differ from one Python process to the next",
        "ransom_note": "its tasks differ from one Python process to the next",
        "word_ladder": "its tasks differ from one Python process to the next",
        "sokoban": "making one easy task can take longer than a training step",
    }
)
"""Sets that are not offered, with the reason."""

NO_GOLD: tuple[str, ...] = ("boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour")
"""Sets without a gold answer: only their own scoring judges, and they give no demonstrations."""

OWN_SCORING: Mapping[str, str] = MappingProxyType(
    {
        "boxnet": r"[\w\s\[\]{}\"',.:()-]+",
        "complex_arithmetic": r"[-+0-9.ij() ]+",
        "countdown": r"(?!.*(?:\*\s*\*|/\s*/))[-+*/() 0-9]{1,200}",
        "cryptarithm": r"[A-Z0-9=, ]+",
        "fraction_simplification": r"\$?(?:\\d?frac\{[0-9]+\}\{[0-9]+\}|[0-9]+/[0-9]+)\$?",
        "graph_color": r"[\s0-9{}:,\"]+",
        "jugs": r"[\w\s\[\]\",>-]+",
        "kakurasu": r"[01 \n]+",
        "knight_swap": r"[\w\s\[\]\",]+",
        "knights_knaves": r"[A-Za-z ,.]+",
        "n_queens": r"[_Q \n]+",
        "palindrome_generation": r"[a-z]+",
        "power_function": r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?",
        "propositional_logic": r"[A-Z()\s\u2227\u2228\u00ac\u2192\u2194&|~^>-]{1,200}",
        "quantum_lock": r"[A-C,→> -]+",
        "rubiks_cube": r"[A-Za-z0-9' ]+",
        "rush_hour": r"[A-Z0-9+ -]+",
        "shortest_path": r"(?:up|down|left|right|\s)+",
        "tower_of_hanoi": r"[A-Za-z0-9 \n]+",
    }
)
"""Sets where other answers than the gold one are right, each with the form an answer must have.

Some of these scorers evaluate the answer as an expression, so nothing else may reach them.
"""

NOISY: tuple[str, ...] = ("bf", "codeio", "list_functions", "pool_matrix")
"""Sets that print, or draw from the process's global random generators, while making a task."""

EVALUATES_ANSWERS: tuple[str, ...] = ("binary_matrix", "spiral_matrix", "string_insertion")
"""Sound sets whose own scoring would execute an answer: only the exact match judges."""

SEEDED_WHEN_BUILT: tuple[str, ...] = ("acre", "gsm_symbolic", "list_functions", "survo")
"""Sets that read their seed at construction: each task needs a new one."""

EASY: tuple[str, ...] = (
    "basic_arithmetic",
    "calendar_arithmetic",
    "chain_sum",
    "count_bits",
    "count_primes",
    "family_relationships",
    "fraction_simplification",
    "gcd",
    "lcm",
    "leg_counting",
    "letter_counting",
    "number_filtering",
    "number_sequence",
    "products",
    "simple_equations",
    "spell_backward",
    "syllogism",
    "time_intervals",
    "word_sequence_reversal",
)
"""Sound sets with short questions and answers, fit for a small model with an easy configuration."""

SOUND: tuple[str, ...] = (
    "ab",
    "acre",
    "advanced_geometry",
    "aiw",
    "arc_1d",
    "arc_agi",
    "base_conversion",
    "basic_arithmetic",
    "bf",
    "binary_alternation",
    "binary_matrix",
    "bitwise_arithmetic",
    "caesar_cipher",
    "calendar_arithmetic",
    "chain_sum",
    "circuit_logic",
    "codeio",
    "coin_flip",
    "color_cube_rotation",
    "complex_arithmetic",
    "count_bits",
    "count_primes",
    "countdown",
    "course_schedule",
    "cryptarithm",
    "decimal_arithmetic",
    "decimal_chain_sum",
    "dice",
    "emoji_mystery",
    "family_relationships",
    "figlet_font",
    "fraction_simplification",
    "futoshiki",
    "game_of_life",
    "gcd",
    "group_anagrams",
    "gsm_symbolic",
    "jugs",
    "kakurasu",
    "knight_swap",
    "knights_knaves",
    "largest_island",
    "lcm",
    "leg_counting",
    "letter_counting",
    "letter_jumble",
    "list_functions",
    "mahjong_puzzle",
    "manipulate_matrix",
    "maze",
    "mini_sudoku",
    "modulo_grid",
    "n_queens",
    "needle_haystack",
    "number_filtering",
    "number_format",
    "number_sequence",
    "number_sorting",
    "palindrome_generation",
    "palindrome_partitioning",
    "path_star",
    "polynomial_equations",
    "pool_matrix",
    "power_function",
    "prime_factorization",
    "products",
    "quantum_lock",
    "rearc",
    "rectangle_count",
    "rotate_matrix",
    "rotten_oranges",
    "self_reference",
    "sentence_reordering",
    "shortest_path",
    "simple_equations",
    "simple_geometry",
    "spell_backward",
    "spiral_matrix",
    "string_insertion",
    "string_manipulation",
    "string_splitting",
    "string_synthesis",
    "sudoku",
    "survo",
    "syllogism",
    "time_intervals",
    "tower_of_hanoi",
    "tsumego",
    "word_sequence_reversal",
    "word_sorting",
    "zebra_puzzles",
)
"""Every set that is offered with a gold answer; all pass the domain contract."""
