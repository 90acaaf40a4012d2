"""What a run leaves behind: metrics, groups, ledger, events, checkpoints, and progress on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from posttrain.assembly import Parts
from posttrain.curriculum.mixture import Mixture
from posttrain.models.adapter import save_adapter, save_merged
from posttrain.policy.policy import Policy
from posttrain.records import checkpoint
from posttrain.records.checkpoint import Checkpoint
from posttrain.records.environment import describe_environment
from posttrain.records.ledger import Disposition, Ledger
from posttrain.records.retention import prune
from posttrain.records.run_folder import RunFolder
from posttrain.train.progress import Progress
from posttrain.train.summary import Keeps, StepRecord, domain_metrics, step_metrics
from posttrain.types import Group


@dataclass(slots=True)
class Recorder:
    """Write one run's records; `keeps` tells which groups train."""

    parts: Parts
    folder: RunFolder
    progress: Progress
    keeps: Keeps
    ledger: Ledger = field(default_factory=Ledger)
    _parent: str | None = None
    _num_alarms: int = 0

    @property
    def success(self) -> Mapping[str, float]:
        """Return each domain's threshold of success."""
        return {entry.domain.name: entry.domain.success for entry in self.parts.entries}

    def record(self, record: StepRecord, alarms: list[str]) -> None:
        """Append one finished step to the run folder and show it; new `alarms` become events."""
        groups = record.harvest.groups
        for group in groups:
            self.ledger.start(len(group.trajectories), group.task.domain)
            self.ledger.settle_group(group, self._disposition(record, group))
        self.ledger.reconcile(pending=0)
        row = step_metrics(record, self.success, self.keeps)
        rows = domain_metrics(record, self.success, self.keeps)
        self.folder.record_groups(record.step, groups)
        self.folder.record_step(row)
        self.folder.record_domains(rows)
        self.folder.record_ledger(self.ledger.line(record.step))
        self.progress.step(row, rows)
        self._record_events(record, alarms)

    def checkpoint(self, step: int, policy: Policy, curriculum: Mixture) -> None:
        """Commit everything that the next step depends on, then drop checkpoints no longer needed."""
        tensors, numbers = policy.state_dict()
        state = {
            "policy": numbers,
            "curriculum": curriculum.state_dict(),
            "ledger": self.ledger.state_dict(),
            "positions": self.folder.positions(),
        }
        model = self.parts.model
        environment = describe_environment(str(model.device), str(model.dtype))
        self._parent = checkpoint.save(
            self.folder.checkpoints, step, tensors, state, self._parent, environment,
            run_id=self.folder.run_id, writer=self.folder.writer,
        )  # fmt: skip
        prune(self.folder.checkpoints, self.folder.run_id, self.parts.config.run.keep_checkpoints)

    def resume(self, policy: Policy, curriculum: Mixture) -> Checkpoint | None:
        """Go back to the newest whole checkpoint and return it; None: to the beginning, for none was saved.

        Records beyond it move to superseded/. Raises RunFailed where checkpoints exist but none is whole.
        """
        saved = checkpoint.latest(self.folder.checkpoints, self.folder.run_id, self.progress.say)
        self.folder.claim(-1 if saved is None else saved.step)
        for line in self.folder.rewind({} if saved is None else saved.state["positions"]):
            self.progress.say(line)
        if saved is not None:
            self._restore(saved, policy, curriculum)
        return saved

    def _restore(self, saved: Checkpoint, policy: Policy, curriculum: Mixture) -> None:
        policy.load_state_dict(saved.tensors, saved.state["policy"])
        curriculum.load_state_dict(saved.state["curriculum"])
        self.ledger.load_state_dict(saved.state["ledger"])
        self._parent = saved.name

    def finish(self) -> None:
        """Write what was trained where other programs look for it: a PEFT adapter, or the whole model."""
        model, lora = self.parts.model, self.parts.config.model.lora
        if lora is None:
            save_merged(model, self.folder.path / "model")
        else:
            save_adapter(model.module, lora, self.folder.adapter, model.source)
        self.folder.sync()

    def _disposition(self, record: StepRecord, group: Group) -> Disposition:
        if self.keeps(group):
            trained = record.stats is not None and not record.stats.skipped
            return "trained" if trained else "skipped"
        return "filtered" if len(group.judged) == len(group.trajectories) else "dropped"

    def _record_events(self, record: StepRecord, alarms: list[str]) -> None:
        for draw in record.harvest.too_long:
            text = f"step {record.step}: the prompt of task {draw.task.id} fills the context; left out"
            self._event("too_long", text)
        if record.stats is not None and record.stats.skipped:
            self._event("skipped", f"step {record.step}: no update: {record.stats.skipped}")
        for alarm in alarms[self._num_alarms :]:
            self._event("alarm", alarm)
        self._num_alarms = len(alarms)

    def _event(self, kind: str, text: str) -> None:
        self.folder.record_event(kind, text)
        self.progress.say(f"! {text}")
