"""The `train` and `sft` commands: from a config file to a finished run folder."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from posttrain import assembly
from posttrain.assembly import Config, Parts
from posttrain.config import to_plain, to_toml
from posttrain.errors import InputError, RunFailed, RunFolderError
from posttrain.models.adapter import save_adapter, save_merged
from posttrain.models.dtype import DtypeName
from posttrain.records.checkpoint import Checkpoint
from posttrain.records.environment import compare_environments, describe_environment
from posttrain.records.identity import check_resume
from posttrain.records.manifest import manifest_names, step_of
from posttrain.records.run_folder import RunFolder
from posttrain.train.interrupts import interruptible
from posttrain.train.progress import Progress
from posttrain.train.recorder import Recorder
from posttrain.train.rl import Loop, keeps, train
from posttrain.train.sft import SftStep, warm_up

INTERRUPTED = 130
IDENTITY_KEYS = (
    "model", "system", "engine", "sampling", "algorithm", "learner", "domains", "run.seed", "run.groups",
    "run.attempts", "run.max_refills", "run.max_staleness",
)  # fmt: skip


def resolved(path: Path, overrides: Sequence[str]) -> str:
    """Return the complete configuration as TOML, defaults included, checked as far as without a model."""
    config = assembly.read(path, overrides)
    assembly.algorithm(config, str(path))
    return to_toml(to_plain(config))


def new_folder(path: Path | None, name: str) -> Path:
    """Return the folder asked for, or runs/<name>-<local time>."""
    return path if path is not None else Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def train_command(
    path: Path | None,
    overrides: Sequence[str],
    run: Path | None,
    resume: Path | None,
    allow_changed: bool = False,
    dry_run: bool = False,
) -> int:
    """Train as the config says, or go on with the run in `resume`; return the exit code."""
    if resume is None:
        if path is None:
            raise InputError(
                "no config given. Name a TOML file (see configs/), or continue with --resume RUN."
            )
        if dry_run:
            print(resolved(path, overrides))
            return 0
        config = assembly.read(path, overrides)
        return asyncio.run(_start(config, new_folder(run, path.stem), str(path.resolve())))
    if dry_run:
        raise InputError("--dry-run and --resume exclude each other: a resumed run has its config. Drop one.")
    if run is not None:
        raise InputError(
            "--run and --resume exclude each other: a resumed run stays in its folder. Drop --run."
        )
    return asyncio.run(_resume(resume, path, overrides, allow_changed))


async def _start(config: Config, path: Path, source: str) -> int:
    async with assembly.opened(config, source) as parts:
        with new_run(parts, path, source, "train") as folder:
            return await run_steps(parts, folder)


def new_run(parts: Parts, path: Path, source: str, program: str) -> RunFolder:
    """Make the run folder of `program` (train or sft), pinned to this machine, versions and config file."""
    model = parts.model
    environment = describe_environment(str(model.device), str(model.dtype)) | {
        "config_source": source,
        "program": program,
    }
    deterministic = all(entry.domain.deterministic for entry in parts.entries)
    exactness = "run-exact" if deterministic and model.device.type == "cpu" else "state-exact"
    # `auto` was decided by a probe: what it chose belongs to the run.
    chosen: DtypeName = "bfloat16" if model.dtype == torch.bfloat16 else "float32"
    pinned = replace(parts.config, model=replace(parts.config.model, dtype=chosen))
    folder = RunFolder.create(path, to_plain(pinned), environment | {"exactness": exactness})
    folder.claim()
    return folder


async def run_steps(
    parts: Parts, folder: RunFolder, resume: bool = False, changes: Sequence[str] = ()
) -> int:
    """Run the loop to its last step inside `folder`; return 0, or 130 after an interrupt.

    `changes` are the settings that differ from the run's own: they become its own once it is restored.
    """
    total = parts.config.run.steps
    with Progress("step", total) as progress, interruptible() as interrupted:
        recorder = Recorder(parts, folder, progress, lambda group: keeps(parts.algorithm, group))
        loop, first = Loop.of(parts, recorder), 1
        if resume:
            saved = recorder.resume(loop.policy, loop.curriculum)
            first = 1 if saved is None else saved.step + 1
            for line in changes:
                folder.record_event("changed", line)
                progress.say(line)
            if changes:
                folder.replace_config(to_plain(parts.config))
            for line in [] if saved is None else _environment_changes(parts, saved):
                folder.record_event("environment", line)
                progress.say(f"! {line}")
        done = await train(loop, range(first, total + 1), parts, interrupted)
        recorder.finish()
    if done < total:
        progress.say(
            f"stopped after step {done} of {total}; continue with: posttrain train --resume {folder.path}"
        )
        return INTERRUPTED
    if recorder.ledger.count(disposition="trained") == 0:
        raise RunFailed(recorder.why_nothing_trained())
    progress.say(f"done: {total} steps; run folder {folder.path}")
    return 0


def _config_source(folder: RunFolder) -> str:
    found = folder.run["identity"].get("config_source")
    if not isinstance(found, str):
        raise RunFolderError(
            f"{folder.path / 'run.json'}: no identity.config_source. Use train CONFIG --resume RUN."
        )
    return found


def _environment_changes(parts: Parts, saved: Checkpoint) -> list[str]:
    """Say what differs from the machine and versions of the checkpoint: exactness is lost with it."""
    model = parts.model
    now = describe_environment(str(model.device), str(model.dtype))
    changes = compare_environments(saved.manifest.environment, now)
    return [f"not the same as before, so resume is state-exact only: {change}" for change in changes]


async def _resume(path: Path, given: Path | None, overrides: Sequence[str], allow_changed: bool) -> int:
    with contextlib.closing(RunFolder.resume(path)) as folder:
        # The original file's folder is where a user's own domains are looked for.
        program = folder.run.get("identity", {}).get("program")
        if program != "train":
            raise RunFolderError(
                f"{path}: a folder of `posttrain {program}`, which is not resumed. "
                f"Start from its adapter: posttrain train CONFIG model.adapter={path / 'adapter'}"
            )
        source = str(given or _config_source(folder))
        config = assembly.read(given or folder.path / "config.json", overrides)
        if config.model.dtype == "auto":
            config = replace(config, model=replace(config.model, dtype=folder.config["model"]["dtype"]))
        newest = max(map(step_of, manifest_names(folder.checkpoints)), default=0)
        if config.run.steps < newest:
            raise InputError(
                f"{path}: already at step {newest}, past run.steps = {config.run.steps}. Raise run.steps."
            )
        changes = check_resume(folder.config, to_plain(config), allow_changed, IDENTITY_KEYS)
        async with assembly.opened(config, source) as parts:
            return await run_steps(parts, folder, resume=True, changes=changes)


def sft_command(path: Path, overrides: Sequence[str], run: Path | None) -> int:
    """Warm up as the config says and write the adapter; return the exit code."""
    config = assembly.read(path, overrides)
    return asyncio.run(_sft(config, new_folder(run, f"{path.stem}-sft"), str(path.resolve())))


async def _sft(config: Config, path: Path, source: str) -> int:
    async with assembly.opened(config, source) as parts:
        with new_run(parts, path, source, "sft") as folder, interruptible() as interrupted:
            with Progress("warm-up", config.sft.steps) as progress:
                done = await warm_up_into(parts, folder, progress, interrupted)
            return 0 if done == config.sft.steps else INTERRUPTED


async def warm_up_into(
    parts: Parts, folder: RunFolder, progress: Progress, interrupted: asyncio.Event
) -> int:
    """Warm up, record each step in `folder`, save the adapter there; return the number of steps done."""
    done = 0

    def report(step: SftStep) -> None:
        nonlocal done
        done = step.step
        row = {
            "step": step.step,
            "loss": step.stats.loss,
            "grad_norm": step.stats.gradient_norm,
            "learning_rate": step.stats.learning_rate,
            "tokens_trained": step.stats.num_tokens,
            "seconds_step": step.seconds,
        }
        folder.record_step(row)
        progress.step(row)

    policy = await warm_up(parts, report, interrupted)
    await parts.engine.load(policy.weights(), version=0)
    lora = parts.config.model.lora
    if lora is None:
        save_merged(parts.model, folder.path / "model")
    else:
        save_adapter(parts.model.module, lora, folder.adapter, parts.model.source)
    progress.say(f"written to {folder.adapter if lora is not None else folder.path / 'model'}")
    return done
