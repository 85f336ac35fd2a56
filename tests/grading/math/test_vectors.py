import pytest

from mars_env.grading.math.nodes import Unreadable
from mars_env.grading.math.parser import read
from mars_env.grading.math.symbolic import judge


@pytest.mark.parametrize(
    ("reference", "answer", "same"),
    [
        (r"\vec a\times\vec b", r"-(\vec b\times\vec a)", True),
        (
            r"\overrightarrow{AB}\times\overrightarrow{AC}",
            r"\overrightarrow{AC}\times\overrightarrow{AB}",
            False,
        ),
        (r"(\vec a\cdot\vec b)\vec c", r"\vec a(\vec b\cdot\vec c)", False),
        (r"\mathbf{A}^{-1}\mathbf{B}", r"\mathbf{B}\mathbf{A}^{-1}", False),
        (r"A^{-1} B", "B A^{-1}", False),
        (r"2A^{-1} B", r"2\cdot A^{-1} B", True),
        (r"2(\vec a\times\vec b)", r"2\vec a\times\vec b", True),
        (r"\mathbf{a}\cdot\mathbf{b}", r"\mathbf{b}\cdot\mathbf{a}", True),
        ("3x+5", r"\mathbf{3x+5}", True),
        ("e^x", r"\mathbf{e}^x", True),
    ],
)
def test_products(reference, answer, same):
    assert judge(reference, answer)[0] is same


def test_derivatives():
    assert read(r"\frac{dy}{dx}").kind == "sym"
    assert read(r"\frac{d}{d+1}").kind == "div"
    assert not judge(r"\frac{\partial f}{\partial x}", r"\frac{\partial f}{\partial y}")[0]
    with pytest.raises(Unreadable):
        read(r"\frac{d}{dx} x^2")
