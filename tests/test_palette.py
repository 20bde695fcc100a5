"""One palette everywhere: colour-blind people can tell its colours apart, and text in them can be read."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import namesrv_stream
from namesrv_stream.history import palette

STYLE = (Path(namesrv_stream.__file__).parent / "console" / "page" / "style.css").read_text("utf-8")
LIGHT, DARK = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
SHADES = {name: getattr(palette, name.upper()) for name in ("came", "left", "asked", "late")}
SIGHTS = {
    "all cones": np.eye(3),
    "no long cones": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no middle cones": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no short cones": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""Colours as people see them, as matrices on linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.0."""
LEAST_DISTANCE = 14
"""Distance of two colours in CIELAB; 2.3 can just be noticed. The palette of Okabe and Ito has 14 itself."""
READABLE = 4.5
"""WCAG 2.2, level AA: least contrast of text."""


def linear(colour):
    channels = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(colour):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(colour, 0, 1) / to_xyz.sum(axis=1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least_distance(colours):
    """Return the distance of the two colours that are most alike to some eyes, and these colours."""
    return min(
        (np.linalg.norm(lab(sight @ linear(one)) - lab(sight @ linear(other))), one, other)
        for sight in map(np.array, SIGHTS.values())
        for one, other in combinations(colours, 2)
    )


def contrast(one, other):
    darker, lighter = sorted(linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def variable(block, name):
    return re.search(rf"--{name}: (#[0-9a-f]{{6}})", block)[1]


@pytest.mark.parametrize("colours", [
    {paint.colour for paint in palette.ENDS.values()} | {palette.IN_ROUTES},
    {paint.colour for paint in palette.KINDS.values()},
    set(palette.SHARES.values()),
    *({shades[ground] for shades in SHADES.values()} for ground in range(3)),
], ids=["ends", "kinds", "shares", "terminal", "light page", "dark page"])  # fmt: skip
def test_colours_that_stand_together_differ_to_all_eyes(colours):
    distance, *pair = least_distance(colours)
    assert distance >= LEAST_DISTANCE, pair


def test_kinds_of_events_differ_by_colour_or_by_hatch():
    assert len(set(palette.KINDS.values())) == len(palette.KINDS)


@pytest.mark.parametrize("block", [LIGHT, DARK], ids=["light", "dark"])
def test_text_on_the_page_can_be_read(block):
    found = {(name, ground): contrast(variable(block, name), variable(block, ground))
             for name in SHADES for ground in ("paper", "sheet")}  # fmt: skip
    assert min(found.values()) >= READABLE, found


def test_a_share_has_text_that_can_be_read_on_its_colour():
    grounds = {bound: "#ffffff" if bound < palette.LIGHT_SHARE else "#000000" for bound in palette.SHARES}
    found = {bound: contrast(palette.SHARES[bound], text) for bound, text in grounds.items()}
    assert min(found.values()) >= 3, found  # large cells of one figure each
