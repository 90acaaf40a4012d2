"""What a run leaves behind: metrics, groups, ledger, events, checkpoints, and progress on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from posttrain.assembly import Parts
from posttrain.curriculum.mixture import Mixture
from posttrain.errors import RunFailed
from posttrain.models.adapter import save_adapter, save_merged
from posttrain.policy.policy import Policy
from posttrain.records import checkpoint
from posttrain.records.checkpoint import Checkpoint
from posttrain.records.environment import describe_environment
from posttrain.records.ledger import Disposition, Ledger
from posttrain.records.retention import prune
from posttrain.records.run_folder import RunFolder
from posttrain.rollouts.judge import enough_judged, trainable
from posttrain.train.progress import Progress
from posttrain.train.summary import Keeps, StepRecord, domain_metrics, step_metrics
from posttrain.types import Group, Unjudged


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
    _unjudged: dict[str, str] = field(default_factory=dict)

    @property
    def success(self) -> Mapping[str, float]:
        """Return each domain's threshold of success."""
        return {entry.domain.name: entry.domain.success for entry in self.parts.entries}

    def record(self, record: StepRecord, alarms: list[str]) -> None:
        """Append one finished step to the run folder and show it; new `alarms` become events."""
        groups = record.harvest.groups
        for domain, started in record.harvest.started.items():
            self.ledger.start(started, domain)
        for group in groups:
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
        self._check_nothing_lost(saved)
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

    def why_nothing_trained(self) -> str:
        """Say in plain words why a finished run has not trained on a single attempt."""
        unjudged, started = self.ledger.count("unjudged"), self.ledger.started
        if unjudged:
            first = next(iter(self._unjudged.values()), "see groups/")
            return (
                f"no step carried a training signal: {unjudged} of {started} attempts got no verdict. "
                f"The first: {first}. Mend the domain's verify; its errors are in {self.folder.path}/groups."
            )
        return (
            f"none of {self.parts.config.run.steps} steps carried a training signal: all attempts at a task "
            "earned the same. Choose easier levels, a longer warm-up (`posttrain sft`), or more attempts; "
            "see domains.jsonl."
        )

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
            return "trained" if record.stats is not None and record.stats.num_steps > 0 else "skipped"
        return "filtered" if enough_judged(trainable(group)) else "dropped"

    def _check_nothing_lost(self, saved: Checkpoint | None) -> None:
        """Refuse to begin again where a checkpoint must have been: that would throw training away."""
        metrics = self.folder.path / "metrics.jsonl"
        steps = len(metrics.read_bytes().splitlines()) if metrics.is_file() else 0
        if saved is None and steps > self.parts.config.run.checkpoint_every:
            raise RunFailed(
                f"{self.folder.path}: {steps} steps are recorded but the checkpoints are gone. "
                "Restore checkpoints/ from a copy, or start again in another run folder."
            )

    def _record_events(self, record: StepRecord, alarms: list[str]) -> None:
        for group in record.harvest.groups:
            missing = next((v for v in group.verdicts if isinstance(v, Unjudged)), None)
            if missing is not None and group.task.domain not in self._unjudged:
                reason = missing.detail.strip().splitlines()[-1] if missing.detail.strip() else ""
                self._unjudged[group.task.domain] = f"{group.task.domain}: {missing.kind}: {reason}"
                self._event(
                    "unjudged",
                    f"step {record.step}: an attempt got no verdict: {group.task.domain}: {reason}",
                )
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
