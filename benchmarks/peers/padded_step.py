"""One optimizer step of plain transformers and PEFT on padded rows; the peer of `posttrain bench learner`.

What most trainers do: every row has its own prompt, the head sees the completion's positions alone, rows
go through in micro-batches of about the same number of tokens as ours.
"""

import time


def main(lines, settings):
    """Answer each line with the time of a step; `settings` are posttrain.bench.updates.UpdateSettings."""
    import torch

    torch.set_num_threads(settings["threads"])
    model = make_model(settings)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, fused=True)
    shape, device = settings["shape"], model.device
    rows, width = shape["groups"] * shape["attempts"], shape["prompt"] + shape["completion"]
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(model.config.vocab_size, (rows, width), generator=generator).to(device)
    advantages = torch.randn(rows, generator=generator).to(device)
    lines.answer({"num_trainable": sum(parameter.numel() for parameter in trained)})
    while lines.wait():
        started, cpu = time.perf_counter(), time.process_time()
        update(model, optimizer, trained, tokens, advantages, settings)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        lines.answer(
            {
                "seconds": time.perf_counter() - started,
                "cpu_seconds": time.process_time() - cpu,
                "num_tokens": rows * shape["completion"],
                "matmul_flops": 0.0,
            }
        )


def make_model(settings):
    """Return the model with a LoRA adapter on all its linear layers, ready to train."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    device = settings["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    base = AutoModelForCausalLM.from_pretrained(
        settings["model"], dtype=getattr(torch, settings["dtype"]), attn_implementation="sdpa"
    ).to(device)
    if settings["checkpointing"]:
        base.gradient_checkpointing_enable({"use_reentrant": False})
        base.enable_input_require_grads()
    lora = LoraConfig(
        r=settings["rank"], lora_alpha=settings["alpha"], target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(base, lora).train()


def update(model, optimizer, trained, tokens, advantages, settings):
    """Step once on all rows: the policy gradient, each row the mean over its completion's tokens."""
    import torch

    shape = settings["shape"]
    rows_at_once = max(1, settings["token_budget"] // (shape["prompt"] + shape["completion"]))
    for start in range(0, len(tokens), rows_at_once):
        part, weight = tokens[start : start + rows_at_once], advantages[start : start + rows_at_once]
        mask = torch.ones_like(part)
        logits = model(part, attention_mask=mask, logits_to_keep=shape["completion"] + 1).logits[:, :-1]
        targets = part[:, -shape["completion"] :]
        logprobs = torch.log_softmax(logits.float(), -1).gather(2, targets[..., None])[..., 0]
        ratio = (logprobs - logprobs.detach()).exp()
        loss = -(ratio * weight[:, None]).mean(1).sum() / len(tokens)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad()
