import pytest
from jinja2 import TemplateError

from mars_env.errors import ConfigError
from mars_env.models.requests import TokenWriter


class Gemma(TokenWriter):
    """A model, and its tokenizer, whose template knows no system message."""

    name, vocabulary = "gemma", 9

    chat_template = "..."

    @property
    def tokenizer(self):
        return self

    def apply_chat_template(self, messages, **options):
        if messages[0]["role"] == "system":
            raise TemplateError("System role not supported")
        return [1, 2]


def test_messages_that_a_template_refuses_are_told_with_what_to_do():
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    assert Gemma().encode(chat[1:]) == (1, 2)
    with pytest.raises(ConfigError):
        Gemma().encode(chat)
