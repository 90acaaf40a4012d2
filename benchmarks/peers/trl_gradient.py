"""Loss and gradient of TRL's GRPOTrainer on one injected batch; runs inside TRL's process.

The batch takes the place of what the trainer samples and scores. All that follows is the trainer's own:
shuffling, splitting into micro-batches, the loss, accumulation. Clipping is off, so the gradient is the
loss's.
"""

import json
import pathlib
import tempfile


def main(lines, settings):
    """Take one step on the batch in `settings["rows"]`; write the gradient and answer with the loss."""
    import torch
    from safetensors.torch import save_file
    from transformers import TrainerCallback

    torch.set_num_threads(settings["threads"])
    losses = []

    class Reader(TrainerCallback):
        """Write the accumulated gradient to a file before the optimizer uses it."""

        def on_train_begin(self, args, state, control, **kwargs):
            lines.answer({})

        def on_step_begin(self, args, state, control, **kwargs):
            if not lines.wait():
                raise SystemExit

        def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
            named = model.named_parameters()
            gradients = {own_name(n): p.grad.clone() for n, p in named if p.grad is not None}
            save_file(gradients, settings["gradients"])

        def on_step_end(self, args, state, control, **kwargs):
            lines.answer({"loss": sum(losses)})

    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(settings, folder, Reader())
        rows = json.loads(pathlib.Path(settings["rows"]).read_text())
        inject(trainer, rows)
        step = trainer.training_step

        def kept(*arguments, **keywords):
            loss = step(*arguments, **keywords)
            losses.append(float(loss))
            return loss

        trainer.training_step = kept
        trainer.train()


def make_trainer(settings, folder, callback):
    """Return a trainer of the adapter in `settings["adapter"]` over the model, both in float32."""
    import torch
    from datasets import Dataset
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=folder,
        bf16=False,
        use_cpu=True,
        per_device_train_batch_size=settings["micro_batch"],
        gradient_accumulation_steps=settings["num_rows"] // settings["micro_batch"],
        num_generations=2,
        max_completion_length=settings["max_tokens"],
        max_grad_norm=0.0,
        max_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **settings["loss"],
    )
    base = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.float32)
    return GRPOTrainer(
        model=PeftModel.from_pretrained(base, settings["adapter"], is_trainable=True),
        reward_funcs=lambda completions, **columns: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["unused"] * settings["num_rows"]}),
        callbacks=[callback],
    )


def inject(trainer, rows):
    """Have the trainer take `rows` for what it sampled; it pads prompts left and completions right."""
    import torch

    def padded(key, value, left=False):
        width = max(len(row[key]) for row in rows)
        filled = [[value] * (width - len(row[key])) for row in rows]
        pairs = zip(rows, filled, strict=True)
        return torch.tensor([pad + row[key] if left else row[key] + pad for row, pad in pairs])

    def mask(key, left=False):
        width = max(len(row[key]) for row in rows)
        lengths = torch.tensor([len(row[key]) for row in rows])[:, None]
        place = torch.arange(width)[None]
        return ((place >= width - lengths) if left else (place < lengths)).long()

    def sampled(inputs):
        return {
            "prompt_ids": padded("prompt", 0, left=True),
            "prompt_mask": mask("prompt", left=True),
            "completion_ids": padded("completion", 0),
            "completion_mask": mask("completion"),
            "advantages": torch.tensor([row["advantage"] for row in rows]),
            "old_per_token_logps": padded("old", 0.0),
            "num_items_in_batch": torch.tensor(sum(len(row["completion"]) for row in rows)),
        }

    trainer._generate_and_score_completions = sampled


def own_name(name):
    """Return the parameter's name without what PEFT puts around it."""
    return name.removeprefix("base_model.model.").removesuffix(".default.weight")
