"""`import posttrain` stays light: programs that only read or list must start at once."""

import subprocess
import sys
from pathlib import Path

import posttrain

HEAVY = {"torch", "transformers", "peft", "numpy", "pydantic", "reasoning_gym", "rich"}


def loaded_by(statement: str) -> set[str]:
    """List the top-level modules that a fresh interpreter has after a statement."""
    source = Path(posttrain.__file__).parent.parent
    program = f"import sys; sys.path.insert(0, {str(source)!r}); {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_package_and_its_words_load_nothing_heavy() -> None:
    words = "import posttrain, posttrain.types, posttrain.protocols, posttrain.errors, posttrain.config"
    loaded = loaded_by(words)
    assert "posttrain" in loaded
    assert loaded & HEAVY == set()


def test_the_command_line_loads_no_torch() -> None:
    assert loaded_by("import posttrain.cli") & {"torch", "transformers", "peft"} == set()


def test_the_check_would_see_a_heavy_module() -> None:
    assert "numpy" in loaded_by("import numpy")


def test_the_public_names_are_there() -> None:
    assert posttrain.__version__
    assert all(hasattr(posttrain, name) for name in posttrain.__all__)
