"""Config → live parts: the settings of a run, and the one place that opens and closes its components."""

from posttrain.assembly.parts import Parts, algorithm, domains, opened
from posttrain.assembly.settings import Config, Evaluation, Run, Sft, read

__all__ = ["Config", "Evaluation", "Parts", "Run", "Sft", "algorithm", "domains", "opened", "read"]
