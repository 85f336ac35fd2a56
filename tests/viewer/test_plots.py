"""Plots: well-formed images, the same bytes for the same data."""

import xml.etree.ElementTree as ElementTree

from made_by_make import needed

from mars_env.viewer import plots

needed("matplotlib", "plots")

CURVES = {"Solver": [(0, 30.0), (10, 40.0)], "System <b> $x$": [(0, 29.0), (10, 70.0)]}


def test_curves_are_a_well_formed_svg_and_the_same_each_time():
    image = plots.training_curves(CURVES, ylabel="accuracy, %")
    assert ElementTree.fromstring(image).tag.endswith("svg")
    assert image == plots.training_curves(CURVES, ylabel="accuracy, %")
    assert b"http://" not in image.replace(b"http://www.w3.org", b"").replace(
        b"http://purl.org", b""
    ).replace(b"http://creativecommons.org", b"").replace(b"https://matplotlib.org", b"")
