import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.code.extract import complete_prompt, extract_program


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("print(1)", "print(1)"),
        ("```python\na\n```", "a\n"),
        ("```Python\na\n```", "a\n"),
        ("```py\na\n```", "a\n"),
        ("```python title=x\na\n```", "a\n"),
        ("``` python\na\n```", "a\n"),
        ("~~~python\na\n~~~", "a\n"),
        ("\ufeff```python\na\n```", "a\n"),
        ("```\na\n```", "a\n"),
        ("```python\na\n```\nor\n```python\nb\n```", "b\n"),
        ("```python\na\n```\nIt prints\n```\n1\n```", "a\n"),
        ("```\na\n```\nRun it:\n```bash\npython x.py\n```", "a\n"),
        ("```python\na\n", "a\n"),
        ("```python\na", "a\n"),
        ("```python\nx = '''\n```js\n'''\n```", "x = '''\n```js\n'''\n"),
        ("````python\nx = '''\n```\n'''\n````", "x = '''\n```\n'''\n"),
        ("<think>\n```python\nno\n```\n</think>\n```python\nyes\n```", "yes\n"),
        ("```python\nno\n```\n</think>\n```python\nyes\n```", "yes\n"),
        ("</think>print(1)", "print(1)"),
        ("```python\na\n```\n```python\n```", "a\n"),
        ("```python\r\na\r\n```", "a\r\n"),
        ("1. So:\n\n   ```python\n   if a:\n       b\n   ```\n", "if a:\n    b\n"),
        ("- So:\n\n      ```python\n      if a:\n          b\n      ```\n", "if a:\n    b\n"),
        ("   ```python\na\n   ```", "a\n"),
        ("```python\nx = '''\n    ```\n    b\n    ```\n'''\n```", "x = '''\n    ```\n    b\n    ```\n'''\n"),
        ("```python\na\n```<|im_end|>", "a\n"),
        ("```python\na\n```<|im_end|>\n<|im_start|>user\n```python\nb\n```", "a\n"),
        ("```python\na\n```\nDone.<|eot_id|>\n```python\nb\n```", "a\n"),
        ("```python\na<|im_end|>", "a\n"),
        ("print(1)<|im_end|>\n<|im_start|>user", "print(1)"),
        ("<|im_start|>assistant\n```python\na\n```", "a\n"),
        (
            "<|channel|>analysis<|message|>```python\nb\n```<|end|><|channel|>final<|message|>```python\na\n```",
            "a\n",
        ),
        ("```python\nprint('</s><|im_end|>')\n```", "print('</s><|im_end|>')\n"),
        ("print('<|im_end|>')", "print('<|im_end|>')"),
        ("Here's the code: ```python\na\n```", "a\n"),
        ("<answer>```python\na\n```</answer>", "a\n"),
        ("```python\na\n```</answer><|im_end|>\n```python\nb\n```", "a\n"),
        ("```python\na```", "a\n"),
        ("```python\nprint('a')```</answer>", "print('a')\n"),
        ("```python\na```\nThis is `a`.", "a\n"),
        ("```python\na # ```\n```", "a # ```\n"),
        ('```python\nx = """\na: ```\n"""\nb', 'x = """\na: ```\n"""\nb\n'),
        ("```python:solution.py\na\n```\nor\n```\nb\n```", "a\n"),
        ("```python3.11\na\n```", "a\n"),
        ("x = '''\n  As in: ```python\n'''", "x = '''\n  As in: ```python\n'''"),
        ("# As in: ```python\nx = 1", "# As in: ```python\nx = 1"),
        ("```python\nprint('<think>')\n```", "print('<think>')\n"),
        (
            "<think>no</think>\n```python\ns = re.sub(r'</think>', '', s)\n```",
            "s = re.sub(r'</think>', '', s)\n",
        ),
        ("<think>\n```python\nno('</think>')\n```\n</think>\n```python\nyes\n```", "yes\n"),
    ],
)
def test_programs(text, program):
    found, why = extract_program(text)
    assert (found or "").replace("\r", "") == program.replace("\r", "") and why == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "```js\nx\n```",
        "```\n```",
        "<think>print(1)",
        "<|channel|>analysis<|message|>x",
        "<think>a</think>b<think>c",
        "<think>\n```python\nprint('</think>')\n```",
        "<think>So: ```python\nprint('<think>')\n```",
        "It isn't hard. <think> I'd write ```python\nprint(1)\n```",
        "So: ```js\nx\n```",
        "```pythonic\nx\n```",
    ],
)
def test_none(text):
    assert extract_program(text)[0] is None


def test_the_block_that_defines_the_function():
    text = "```python\ndef f(x):\n    return x\n```\nFor example:\n```python\nprint(f(2))\n```"
    assert extract_program(text, "f")[0].startswith("def f")
    assert extract_program(text)[0].startswith("print")
    assert extract_program(text, "g")[0].startswith("print")
    assert extract_program("```python\nf = lambda x: x\n```\n```python\nf == 2\n```", "f")[0].startswith(
        "f = "
    )


@given(st.text(st.sampled_from("`~\npython <think>/a")))
def test_any_text(text):
    found, why = extract_program(text)
    assert (found is None) == bool(why)


def test_a_docstring_without_fences_around_it_is_no_block():
    program = "def f():\n    '''\n    ```python\n    f()\n    ```\n    '''\n"
    assert extract_program(program) == (program, "")


@pytest.mark.parametrize(
    "piece", ["'<|im_end|>' ", "    ```python\n", "- ```\n", "<|im_end|>#\n", "```", "a```\n"]
)
def test_long_texts(piece):
    assert extract_program("x = 1 #" + piece * 100_000)[0]


PROMPT = "from typing import List\n\n\ndef near(x: List[int]) -> bool:\n    ''' Doc. '''\n"


@pytest.mark.parametrize(
    "code",
    [
        "    return bool(x)\n",
        "    y = x\n    return bool(y)",
        "return bool(x)",
        "y = x\n    return bool(y)",
        "if x:\n    return True\nreturn False",
        "for i in x:\n        return True\n    return False",
        "def near(x: List[int]) -> bool:\n    return bool(x)",
        "from typing import List\n\ndef near(x: List[int]) -> bool:\n    return bool(x)",
        PROMPT + "    return bool(x)",
        "\n\n    return bool(x)\n",
        "# a comment\n    return bool(x)",
    ],
)
def test_completing_a_prompt(code):
    namespace = {}
    exec(complete_prompt(PROMPT, code, "near"), namespace)  # noqa: S102  (texts of this test)
    assert namespace["near"]([1]) is True and namespace["near"]([]) in (False, None)
