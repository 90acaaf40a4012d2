"""A unit imports only from lower floors, never sideways; ARCHITECTURE.md explains the floors."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "posttrain"

FLOORS = (
    {"__init__", "types", "batch", "protocols", "errors", "config"},
    {"models", "chat", "records"},
    {"sandbox", "engines", "policy", "algorithms", "rewards", "runtime"},
    {"domains", "curriculum", "rollouts", "measures", "contracts"},
    {"assembly"},
    {"train", "evaluate", "flywheel", "serve", "dashboard"},
    {"doctor", "bench", "demo", "check", "scaffold", "mine"},
    {"cli", "__main__"},
)
FLOOR = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: import by the full name"
            whole_package = node.module == "posttrain"
            yield from (f"posttrain.{a.name}" for a in node.names) if whole_package else [node.module or ""]


def violations(unit: str, source: str) -> list[str]:
    """List what a module of `unit` imports from its own floor or above."""
    found = []
    for name in imports(ast.parse(source)):
        package, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        # A name that is no unit comes from the package itself, such as posttrain.Task.
        if other not in FLOOR and not (other and (SOURCE / other).is_dir()):
            other = "__init__"
        same_words = FLOOR[unit] == FLOOR.get(other) == 0
        if package == "posttrain" and other != unit and not same_words and FLOOR[other] >= FLOOR[unit]:
            found.append(f"{unit} (floor {FLOOR[unit]}) imports {name} (floor {FLOOR[other]})")
    return found


def unit_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def runtime_imports(source: str) -> set[str]:
    """List the packages that a module imports when it runs, type-checking blocks left out."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return {name.partition(".")[0] for name in imports(tree)}


def test_every_unit_stands_on_a_floor() -> None:
    units = {unit_of(path) for path in SOURCE.rglob("*.py")}
    assert units - FLOOR.keys() == set(), "add the new unit to the table of floors"


def test_no_module_imports_sideways_or_upward() -> None:
    found = [v for path in SOURCE.rglob("*.py") for v in violations(unit_of(path), path.read_text())]
    assert found == []


def test_of_the_lowest_floor_only_the_batch_loads_torch() -> None:
    paths = [path for path in SOURCE.rglob("*.py") if FLOOR[unit_of(path)] == 0]
    loading = {unit_of(path) for path in paths if "torch" in runtime_imports(path.read_text())}
    assert loading == {"batch"}


def test_a_planted_sideways_or_upward_import_is_found() -> None:
    assert violations("rollouts", "import posttrain.curriculum.mixture")
    assert violations("models", "def late():\n    from posttrain.engines.torch import TorchEngine")
    assert violations("domains", "from posttrain import train")
    assert violations("types", "from posttrain.config import build") == []
    assert violations("rollouts", "from posttrain.chat.template import render\nimport posttrain.types") == []
    assert "torch" in runtime_imports("def f():\n    import torch.nn")
    assert "torch" not in runtime_imports("if TYPE_CHECKING:\n    import torch\n")
