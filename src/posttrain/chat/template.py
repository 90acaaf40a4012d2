"""Messages to tokens and back, through the tokenizer's own chat template.

What the policy wrote is never tokenised again: a conversation grows by appending, so only prompts,
demonstrations and what stands between two turns of the policy are rendered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from posttrain.chat.tool_calls import SYNTAXES, Syntax, describe, syntax_of
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
    `tool_syntax` names how the policy writes calls of tools; '' goes by the template.
    """

    tokenizer: PreTrainedTokenizerBase
    stop_tokens: frozenset[int]
    system: str = ""
    tool_syntax: str = ""

    def __post_init__(self) -> None:
        _ = self.syntax  # an unknown one is noticed at once

    @property
    def syntax(self) -> Syntax:
        """Return how the policy writes calls of tools; raise ConfigError for an unknown `tool_syntax`."""
        if not self.tool_syntax:
            return syntax_of(str(self.tokenizer.chat_template or PLAIN))
        if self.tool_syntax not in SYNTAXES:
            raise ConfigError(
                f"there is no tool syntax {self.tool_syntax!r}",
                key="tool_syntax",
                hint=f"Choose one of {', '.join(SYNTAXES)}.",
            )
        return SYNTAXES[self.tool_syntax]

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the tokens of a conversation up to where the policy starts to write.

        `tools` are JSON schemas in OpenAI's form. Where the template leaves them out, a short text in the
        system message describes them; where it leaves out the messages' calls, the content shows them.
        """
        if self.system and messages[0].role != "system":
            messages = [Message("system", self.system), *messages]
        calls = [call.name for message in messages for call in message.tool_calls]
        if calls and not _all_in(calls, self._render(messages)):
            messages = [replace(m, content=self.written(m), tool_calls=()) for m in messages]
        names = [str(tool["function"]["name"]) for tool in tools]
        text = self._render(messages, tools)
        if tools and (text == self._render(messages) or not _all_in(names, text)):
            text = self._described(messages, describe(tools, self.syntax))
        return self._encode(text)

    def message(self, tokens: Sequence[int], turn: int = 0) -> Message:
        """Return a turn of the policy as a message with its text and the calls of tools in it.

        Ids of calls are made of the policy's `turn` and the call's place: nine letters and digits, since
        some templates take no others.
        """
        text = self.text(tokens)
        calls = self.syntax.read(text).calls
        numbered = (replace(c, id=f"t{turn % 1000:03d}c{int(c.id):04d}") for c in calls)
        return Message("assistant", text, tuple(numbered))

    def written(self, message: Message) -> str:
        """Return what the policy would write to say a message with calls, in its own syntax."""
        parts = [message.content] if message.content else []
        parts += [self.syntax.write(message.tool_calls)] if message.tool_calls else []
        return "\n".join(parts)

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

        Special tokens that stand in the messages' text are taken apart, since observations quote what the
        policy wrote. Raises ConfigError where the template renders an earlier turn otherwise once `messages`
        follow it: the tokens already sampled would then not be a prefix of the conversation.
        """
        messages = self._observations(messages)
        head = self._render([_QUESTION])
        whole = self._render([_QUESTION, Message("assistant", _ANSWER), *messages])
        before, found, after = whole.partition(_ANSWER)
        # Some templates put a space before an answer, which the policy writes itself.
        if not found or before.rstrip() != head.rstrip():
            raise self._unfit("changes earlier turns once others follow", "Keep to one turn per task")
        return self._after_stop(after)

    def _observations(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages without special tokens, as the user's where there is no role for tools."""
        plain = [replace(message, content=self._taken_apart(message.content)) for message in messages]
        results = [message for message in plain if message.role == "tool"]
        if not results or self._takes(results):
            return plain
        said = [f"Tool result: {m.content}" if m.role == "tool" else m.content for m in plain]
        return [Message("user", "\n".join(said))]

    def _takes(self, results: Sequence[Message]) -> bool:
        """Tell whether the template shows results of tools, rather than refuse or drop them."""
        shown = [replace(result, content=f"{_ANSWER}-{i}") for i, result in enumerate(results)]
        try:
            text = self._render([_QUESTION, Message("assistant", _ANSWER), *shown])
        except ConfigError:
            return False
        return _all_in([message.content for message in shown], text)

    def _taken_apart(self, text: str) -> str:
        """Return a text in which no special token of the tokenizer is left, a space put into each."""
        for token in sorted(self._special_tokens(), key=len, reverse=True):
            if len(token) > 1 and not token.isspace():
                while token in text:
                    text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    def _special_tokens(self) -> set[str]:
        added = self.tokenizer.added_tokens_decoder.values()
        return {str(token) for token in added if token.special} | set(self.tokenizer.all_special_tokens)

    def _described(self, messages: Sequence[Message], about: str) -> str:
        """Render messages with a text on the tools in the system message, or else before the first one."""
        first = messages[0]
        if first.role == "system":
            return self._render([replace(first, content=f"{first.content}\n\n{about}"), *messages[1:]])
        try:
            text = self._render([Message("system", about), *messages])
        except ConfigError:
            text = ""
        if about in text:
            return text
        return self._render([replace(first, content=f"{about}\n\n{first.content}"), *messages[1:]])

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


def _all_in(texts: Sequence[str], whole: str) -> bool:
    return all(text in whole for text in texts)


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
