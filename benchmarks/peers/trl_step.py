"""One optimizer step of TRL's GRPOTrainer at a time; runs inside TRL's process.

TRL's defaults stand wherever the comparison does not fix them: same model, prompts, number of attempts,
tokens (stop tokens are suppressed until the limit), number format, LoRA, learning rate.
"""

import hashlib
import json
import tempfile
import time
import zlib


def main(lines, settings):
    """Train, one step for each line; `settings` are posttrain.bench.steps.StepSettings."""
    import torch

    torch.set_num_threads(settings["threads"])
    from transformers import TrainerCallback

    clock = {"sampling": 0.0, "prompts": "", "tokens": 0}

    class OneAtATime(TrainerCallback):
        """Sleep before each optimizer step until asked for it, and say afterwards what it took."""

        def on_train_begin(self, args, state, control, **kwargs):
            lines.answer(facts(trainer))

        def on_step_begin(self, args, state, control, **kwargs):
            if not lines.wait():
                raise SystemExit
            clock.update(sampling=0.0, start=time.perf_counter(), cpu=time.process_time())

        def on_step_end(self, args, state, control, **kwargs):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            lines.answer(
                {
                    "seconds": time.perf_counter() - clock["start"],
                    "cpu_seconds": time.process_time() - clock["cpu"],
                    "sampling_seconds": clock["sampling"],
                    "prompts": clock["prompts"],
                    "num_tokens": clock["tokens"],
                }
            )

    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(settings, folder, OneAtATime())
        watch_sampling(trainer, clock)
        trainer.train()


def make_trainer(settings, folder, callback):
    """Return a trainer whose optimizer step takes all attempts of all prompts, sampled at once."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    rows = len(settings["prompts"]) * settings["attempts"]
    micro_batch = settings["micro_batch"] or min(GRPOConfig.per_device_train_batch_size, rows)
    chosen = {}
    if settings["checkpointing"] is not None:
        chosen["gradient_checkpointing"] = settings["checkpointing"]
    config = GRPOConfig(
        output_dir=folder,
        model_init_kwargs={"dtype": settings["dtype"]},
        bf16=settings["dtype"] == "bfloat16",
        use_cpu=settings["device"] == "cpu",
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=rows // micro_batch,
        num_generations=settings["attempts"],
        max_completion_length=settings["tokens"],
        generation_kwargs={"min_new_tokens": settings["tokens"]},
        loss_type="grpo",
        epsilon_high=0.28,
        learning_rate=settings["learning_rate"],
        max_steps=settings["max_steps"],
        shuffle_dataset=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=settings["seed"],
        **chosen,
    )
    prompts = [[{"role": "user", "content": text}] for text in settings["prompts"]]
    return GRPOTrainer(
        model=settings["model"],
        reward_funcs=checksum,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        peft_config=LoraConfig(
            r=settings["rank"],
            lora_alpha=settings["alpha"],
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
        callbacks=[callback],
    )


def checksum(completions, **columns):
    """Return rewards that differ between almost all texts, so that every group has a signal."""
    return [zlib.crc32(completion[0]["content"].encode()) / 2**32 for completion in completions]


def watch_sampling(trainer, clock):
    """Time the trainer's own sampling, and keep what it sampled after."""
    sample = trainer._generate_single_turn

    def timed(prompt_ids, *arguments, **keywords):
        start = time.perf_counter()
        completion_ids, logprobs = sample(prompt_ids, *arguments, **keywords)
        clock["sampling"] += time.perf_counter() - start
        clock["tokens"] = sum(map(len, completion_ids))
        each = prompt_ids[:: trainer.num_generations]
        clock["prompts"] = hashlib.sha256(json.dumps([list(ids) for ids in each]).encode()).hexdigest()
        return completion_ids, logprobs

    trainer._generate_single_turn = timed


def facts(trainer):
    """Return posttrain.bench.steps.Facts."""
    import torch
    import trl

    args = trainer.args
    return {
        "version": trl.__version__,
        "torch": torch.__version__,
        "num_trainable": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
        "micro_batch": args.per_device_train_batch_size,
        "rows": args.per_device_train_batch_size * args.gradient_accumulation_steps,
        "checkpointing": bool(args.gradient_checkpointing),
        "threads": torch.get_num_threads(),
    }
