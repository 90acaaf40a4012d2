"""One torch thread for every test, no module of one seen by another, GPU tests only where there is a GPU."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

# Before torch is loaded: busy threads of several processes spin against each other on few cores.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


@pytest.fixture(autouse=True)
def modules_written_by_a_test_go_with_it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget modules that were loaded from temporary folders, and the folders: names may come again."""
    yield
    root = tmp_path_factory.getbasetemp()
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(root):
            del sys.modules[name]
    sys.path[:] = [place for place in sys.path if not Path(place).is_relative_to(root)]
