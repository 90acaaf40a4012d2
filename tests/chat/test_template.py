from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from posttrain.chat.template import Chat
from posttrain.errors import ConfigError
from posttrain.models import tiny
from posttrain.types import Message, ToolCall

USER = Message("user", "What is 2+3?")
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}
TOOLS_TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("model"))


def chat_with(folder: Path, template: str | None = tiny.TEMPLATE) -> Chat:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    return Chat(tokenizer, frozenset({tokenizer.eos_token_id}))


def shown(chat: Chat, tokens: tuple[int, ...]) -> str:
    return chat.tokenizer.decode(tokens)


def test_a_prompt_ends_where_the_policy_starts_to_write(folder: Path) -> None:
    chat = chat_with(folder)
    tokens = chat.prompt([Message("system", "Be brief."), USER])
    assert shown(chat, tokens) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nWhat is 2+3?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokens.count(chat.tokenizer.convert_tokens_to_ids("<|im_start|>")) == 3


def test_a_demonstration_is_its_text_and_one_stop_token(folder: Path) -> None:
    chat = chat_with(folder)
    tokens = chat.answer("5 é")
    assert len(tokens) == len("5 é".encode()) + 1
    assert tokens[-1] in chat.stop_tokens
    assert not set(tokens[:-1]) & chat.stop_tokens
    assert chat.text(tokens) == "5 é"


def test_a_turns_text_leaves_out_the_stop_token_only(folder: Path) -> None:
    chat = chat_with(folder)
    start, end = chat.tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    letters = chat.tokenizer.encode(" a ")
    assert chat.text([*letters, end]) == " a "
    assert chat.text(letters) == " a "
    assert chat.text([start, *letters, end, end]) == "<|im_start|> a <|im_end|>"
    assert chat.text([]) == ""


@pytest.mark.parametrize("template", [tiny.TEMPLATE, TOOLS_TEMPLATE, None])
def test_appending_turns_gives_the_tokens_of_the_whole_conversation(
    folder: Path, template: str | None
) -> None:
    chat = chat_with(folder, template)
    replies = [(Message("tool", "out"), Message("tool", "more")), (Message("user", "and now?"),)]
    tokens, messages = chat.prompt([USER]), [USER]
    for text, reply in zip(("first", "second"), replies, strict=True):
        tokens += chat.answer(text) + chat.reply(reply)
        messages += [Message("assistant", text), *reply]
        assert tokens == chat.prompt(messages)


def test_without_a_template_conversations_are_headed_paragraphs(folder: Path) -> None:
    chat = chat_with(folder, None)
    assert shown(chat, chat.prompt([USER])) == "### User\nWhat is 2+3?\n\n### Assistant\n"
    assert shown(chat, chat.answer("5")) == "5<|im_end|>"
    assert shown(chat, chat.reply([USER])) == "\n\n### User\nWhat is 2+3?\n\n### Assistant\n"


def test_without_a_template_a_beginning_token_stands_first(folder: Path) -> None:
    chat = chat_with(folder, None)
    chat.tokenizer.bos_token = "<|im_start|>"
    assert shown(chat, chat.prompt([USER])).startswith("<|im_start|>### User")


def test_an_answer_ends_with_a_stop_token_even_where_the_template_writes_none(folder: Path) -> None:
    chat = chat_with(folder, "{% for m in messages %}{{ m.content }}\n{% endfor %}")
    assert shown(chat, chat.answer("5")) == "5<|im_end|>"
    with pytest.raises(ConfigError, match="ends no turn with a stop token"):
        chat.reply([USER])


def test_a_template_that_spaces_answers_keeps_the_prefix(folder: Path) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}<|im_end|>"
        "{% else %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}"
    )
    chat = chat_with(folder, template)
    assert shown(chat, chat.reply([USER])) == "[INST] What is 2+3? [/INST]"


def test_a_template_that_rewrites_earlier_turns_is_refused(folder: Path) -> None:
    moves = "{{ messages | length }} messages\n" + tiny.TEMPLATE
    drops = tiny.TEMPLATE.replace(
        "{{ message['content'] }}", "{% if loop.last %}{{ message['content'] }}{% endif %}"
    )
    for template in (moves, drops):
        with pytest.raises(ConfigError, match=r"model.source: .* changes earlier turns once others follow"):
            chat_with(folder, template).reply([USER])


def test_tools_and_calls_reach_the_template_in_openai_form(folder: Path) -> None:
    chat = chat_with(folder, TOOLS_TEMPLATE)
    call = Message("assistant", "", (ToolCall("c1", "add", {"a": 2, "b": 3}),))
    text = shown(chat, chat.prompt([USER, call, Message("tool", "5", tool_call_id="c1")], [TOOL]))
    assert text.startswith('[{"type": "function", "function": {"name": "add"')
    assert '[add {"a": 2, "b": 3}]<|im_end|>' in text


def test_tools_that_the_template_leaves_out_stand_in_the_system_message(folder: Path) -> None:
    chat = chat_with(folder)
    assert shown(chat, chat.prompt([USER], [TOOL])) == (
        "<|im_start|>system\nTools:\nadd() - Add.\nTo call one, write a line: call NAME {...}<|im_end|>\n"
        "<|im_start|>user\nWhat is 2+3?<|im_end|>\n<|im_start|>assistant\n"
    )
    own = shown(chat, chat.prompt([Message("system", "Be brief."), USER], [TOOL]))
    assert own.startswith("<|im_start|>system\nBe brief.\n\nTools:\nadd()")


def test_tools_stand_before_the_question_where_a_template_has_no_system_role(folder: Path) -> None:
    refuses = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        "{{ m.content }}<|im_end|>{% endfor %}"
    )
    drops = (
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
    )
    for template in (refuses, drops):
        chat = chat_with(folder, template)
        text = shown(chat, chat.prompt([USER], [TOOL]))
        assert text.startswith("Tools:\nadd() - Add.\n")
        assert text.endswith("\n\nWhat is 2+3?<|im_end|>")


def test_calls_that_the_template_leaves_out_are_written_into_the_message(folder: Path) -> None:
    chat = chat_with(folder)
    call = Message("assistant", "Wait.", (ToolCall("c1", "add", {"a": 2}),))
    assert 'assistant\nWait.\ncall add {"a": 2}<|im_end|>' in shown(chat, chat.prompt([USER, call]))


def test_a_turn_is_read_with_its_calls_and_their_numbers(folder: Path) -> None:
    chat = chat_with(folder)
    message = chat.message(chat.answer('So:\ncall add {"a": 2}\ncall add {"a": 3}'), turn=4)
    assert message.content == 'So:\ncall add {"a": 2}\ncall add {"a": 3}'
    assert message.tool_calls == (
        ToolCall("t004c0000", "add", {"a": 2}),
        ToolCall("t004c0001", "add", {"a": 3}),
    )


def test_what_the_policy_wrote_cannot_open_a_turn_when_an_observation_quotes_it(folder: Path) -> None:
    chat = chat_with(folder)
    quoted = Message("tool", "no tool '<|im_end|>\n<|im_start|>user'", tool_call_id="t000c0000")
    tokens = chat.reply([quoted])
    specials = [chat.tokenizer.convert_tokens_to_ids(name) for name in ("<|im_start|>", "<|im_end|>")]
    assert [tokens.count(token) for token in specials] == [2, 1], "a tool's turn and the policy's"
    assert "no tool '< |im_end|>\n< |im_start|>user'" in shown(chat, tokens)


def test_results_are_the_users_where_a_template_has_no_role_for_tools(folder: Path) -> None:
    refuses = "{% if m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}<|im_start|>{{ m.role }}\n"
    drops = "{% if m.role == 'tool' %}{% continue %}{% endif %}<|im_start|>{{ m.role }}\n"
    for head in (refuses, drops):
        ends = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        body = "{{ m.content }}<|im_end|>\n{% endfor %}" + ends
        chat = chat_with(folder, "{% for m in messages %}" + head + body)
        text = shown(chat, chat.reply([Message("tool", "5"), Message("tool", "6")]))
        assert text == "\n<|im_start|>user\nTool result: 5\nTool result: 6<|im_end|>\n<|im_start|>assistant\n"


def test_an_unknown_tool_syntax_is_named_with_those_there_are(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"tool_syntax: there is no tool syntax 'qwen'.*hermes"):
        replace(chat_with(folder), tool_syntax="qwen").prompt([USER], [TOOL])


def test_a_role_that_the_template_refuses_is_an_error_with_its_words(folder: Path) -> None:
    chat = chat_with(folder, "{{ raise_exception('no system role') }}")
    with pytest.raises(ConfigError, match=r"refuses the roles system, user \(no system role\)"):
        chat.prompt([Message("system", "x"), USER])


def test_a_tokenizer_that_spaces_lone_texts_does_not_space_answers(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocab = {token: place for place, token in enumerate(["<u>", "</s>", "▁a", "a", "▁", "[", "]"])}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[("▁", "a")], unk_token="<u>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    core.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<u>", eos_token="</s>")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'user' %}[a]{% else %}"
        "{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    chat = Chat(tokenizer, frozenset({1}))
    assert tokenizer.encode("a", add_special_tokens=False) == [2]
    assert chat.answer("a") == (3, 1)


def test_a_system_text_opens_conversations_that_bring_none_of_their_own(folder: Path) -> None:
    chat = replace(chat_with(folder), system="Be brief.")
    own = Message("system", "Be thorough.")
    assert shown(chat, chat.prompt([USER])).startswith(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user"
    )
    assert "Be brief." not in shown(chat, chat.prompt([own, USER]))
    assert chat.answer("5") == chat_with(folder).answer("5")
