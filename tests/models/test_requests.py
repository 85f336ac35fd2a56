import pytest
from dialects import DIALECTS, Writer, make_tokenizer

from mars_env.errors import ConfigError

TEMPLATE = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}hello"


def test_messages_that_a_template_refuses_are_a_config_error():
    writer = Writer(make_tokenizer(*DIALECTS["gemma"][:2], TEMPLATE))
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    assert writer.encode(chat[1:])
    with pytest.raises(ConfigError):
        writer.encode(chat)
