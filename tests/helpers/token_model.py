"""A scripted model with a real tokenizer and chat template: what it writes are token ids, as an engine's."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mars_env.types import Completion

TEMPLATE = (
    "{%- if tools %}<|im_start|>system\n# Tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
    "<|im_end|>\n{%- endif %}{%- for m in messages %}"
    "{%- if m.role == 'tool' %}"
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}"
    "{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
    "{%- else %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' + (begin or '') }}{% endif %}"
)
"""As Qwen2.5's writes messages and the results of tools."""


class TokenModel:
    """Writes given texts as token ids of a real tokenizer, as an engine does."""

    name, context = "tokens", 4000

    def __init__(self, *texts, template=TEMPLATE, options=()):
        core = Tokenizer(models.WordLevel({"?": 0} | {chr(i): i for i in range(1, 256)}, unk_token="?"))
        core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        core.decoder = decoders.Fuse()
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", unk_token="?")
        self.tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
        self.tokenizer.chat_template = template
        self.texts, self.prompts, self.template_options = texts, [], dict(options)

    def encode(self, prompt, tools=()):
        if isinstance(prompt[0], int):
            return tuple(prompt)
        return tuple(
            self.tokenizer.apply_chat_template(
                prompt,
                tools=list(tools) or None,
                add_generation_prompt=True,
                return_dict=False,
                **self.template_options,
            )
        )

    async def complete(self, prompt, n, sampling):
        ids = self.encode(prompt)
        text = self.texts[self.tokenizer.decode(ids).count("<|im_start|>assistant") - 1]
        self.prompts.append(ids)
        sampled = (*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id)
        return [
            Completion(text, "stop", ids, sampled, (-0.5,) * len(sampled), versions=((3, len(sampled)),))
            for _ in range(n)
        ]
