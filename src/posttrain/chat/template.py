"""Messages to tokens and back, through the tokenizer's own chat template.

What the policy wrote is never tokenised again: a conversation grows by appending, so only prompts,
demonstrations and what stands between two turns of the policy are rendered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from posttrain.errors import ConfigError
from posttrain.types import Message

PLAIN = (
    "{% if bos_token and bos_token != eos_token %}{{ bos_token }}{% endif %}"
    "{% for message in messages %}### {{ message['role'] | capitalize }}\n{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}### Assistant\n{% endif %}"
)
"""The template of tokenizers that bring none: headed paragraphs, each answer ended by the end token."""

_QUESTION = Message("user", "question")
_ANSWER = "sentinel-of-an-answer"


@dataclass(frozen=True, slots=True)
class Chat:
    """Render conversations for one tokenizer; `stop_tokens` (not empty) end a turn of the policy.

    `system`, if not empty, opens every conversation that brings no system message of its own.
    """

    tokenizer: PreTrainedTokenizerBase
    stop_tokens: frozenset[int]
    system: str = ""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the tokens of a conversation up to where the policy starts to write.

        `tools` are JSON schemas in OpenAI's form. Raises ConfigError where the template leaves out
        the tools or the messages' tool calls.
        """
        if self.system and messages[0].role != "system":
            messages = [Message("system", self.system), *messages]
        text = self._render(messages, tools)
        if tools and text == self._render(messages):
            raise self._unfit("leaves out the task's tools", "Describe the tools in a system message")
        lost = [c.name for m in messages for c in m.tool_calls if c.name not in text]
        if lost:
            raise self._unfit(
                f"leaves out calls of {lost[0]!r}", "Write the calls into the message's content"
            )
        return self._encode(text)

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the tokens that the policy would have written to say `text`, the stop token included."""
        head = self._render([_QUESTION])
        start, whole = self._encode(head), self._encode(head + text)
        # Encoded behind the prompt, since some tokenizers put a space before a text that stands alone.
        written = whole[len(start) :] if whole[: len(start)] == start else self._encode(text)
        return written + self._ending()

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of one turn of the policy, without its stop token.

        Other special tokens are shown, not dropped.
        """
        if tokens and tokens[-1] in self.stop_tokens:
            tokens = tokens[:-1]
        text = self.tokenizer.decode(
            list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return what follows a turn ended by its stop token, up to where the policy writes again.

        Raises ConfigError where the template renders an earlier turn otherwise once `messages` follow
        it: the tokens already sampled would then not be a prefix of the conversation.
        """
        head = self._render([_QUESTION])
        whole = self._render([_QUESTION, Message("assistant", _ANSWER), *messages])
        before, found, after = whole.partition(_ANSWER)
        # Some templates put a space before an answer, which the policy writes itself.
        if not found or before.rstrip() != head.rstrip():
            raise self._unfit("changes earlier turns once others follow", "Keep to one turn per task")
        return self._after_stop(after)

    def _after_stop(self, text: str) -> tuple[int, ...]:
        tokens = self._encode(text)
        stops = [place for place, token in enumerate(tokens) if token in self.stop_tokens]
        if not stops:
            raise self._unfit("ends no turn with a stop token", "Keep to one turn per task")
        return tokens[stops[0] + 1 :]

    def _ending(self) -> tuple[int, ...]:
        """Return what the template puts after an answer, up to and including the stop token."""
        whole = self._render([_QUESTION, Message("assistant", _ANSWER)], generate=False)
        tokens = self._encode(whole.partition(_ANSWER)[2])
        stops = [place for place, token in enumerate(tokens) if token in self.stop_tokens]
        return tokens[: stops[0] + 1] if stops else (self._end_token(),)

    def _end_token(self) -> int:
        end = self.tokenizer.eos_token_id
        return end if isinstance(end, int) and end in self.stop_tokens else min(self.stop_tokens)

    def _render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), generate: bool = True
    ) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                [_plain(message) for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                chat_template=None if self.tokenizer.chat_template else PLAIN,
                add_generation_prompt=generate,
                tokenize=False,
            )
        except TemplateError as error:
            roles = ", ".join(message.role for message in messages)
            raise self._unfit(f"refuses the roles {roles} ({error})", "Change the task's messages") from error
        assert isinstance(text, str)
        return text

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _unfit(self, problem: str, hint: str) -> ConfigError:
        return ConfigError(
            f"the chat template of {self.tokenizer.name_or_path or 'this tokenizer'} {problem}",
            key="model.source",
            hint=f"{hint}, or choose a model with another template.",
        )


def _plain(message: Message) -> dict[str, Any]:
    """Return a message in OpenAI's form, with call arguments as an object, as templates expect them."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": dict(c.arguments)}}
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain
