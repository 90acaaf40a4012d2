"""Whole training runs of TRL's GRPOTrainer, one for each line; runs inside TRL's process."""

import tempfile


def main(lines, settings):
    """Answer each line with the rewards of a run; `settings` are posttrain.bench.curves.CurveSettings."""
    import torch

    torch.set_num_threads(settings["threads"])
    import trl  # noqa: F401 (imported before the first run, so that no run pays for it)

    lines.answer({})
    seed = settings["seed"]
    while lines.wait():
        lines.answer({"rewards": rewards(settings, seed)})
        seed += 1


def rewards(settings, seed):
    """Train once and return each step's mean reward."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    means, places, wanted = [], settings["places"], set(settings["wanted"])

    def share_of_tokens(completion_ids, **columns):
        values = [sum(token in wanted for token in ids[:places]) / places for ids in completion_ids]
        means.append(sum(values) / len(values))
        return values

    rows = settings["groups"] * settings["attempts"]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            bf16=False,
            use_cpu=True,
            per_device_train_batch_size=rows,
            gradient_checkpointing=False,
            num_generations=settings["attempts"],
            max_completion_length=settings["tokens"],
            loss_type="grpo",
            epsilon_high=0.28,
            learning_rate=settings["learning_rate"],
            lr_scheduler_type="constant",
            max_steps=settings["steps"],
            shuffle_dataset=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=seed,
        )
        prompts = [[{"role": "user", "content": text}] for text in settings["prompts"]]
        trainer = GRPOTrainer(
            model=settings["model"],
            reward_funcs=share_of_tokens,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            peft_config=LoraConfig(
                r=settings["rank"],
                lora_alpha=settings["alpha"],
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
        )
        trainer.train()
    assert len(means) == settings["steps"], f"{len(means)} batches were sampled for {settings['steps']} steps"
    return means
