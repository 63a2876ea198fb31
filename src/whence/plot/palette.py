"""Which colour means what, in light and in dark, for the terminal, the page and the charts."""

from typing import Literal

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, Theme] = ("light", "dark")

# Page furniture. `paper` is also the zero of both scales, so that nothing is drawn where nothing came from.
# `source` is what came from elsewhere, `own` what is left of a token itself, `against` what speaks against a
# prediction, `constant` what belongs to no token.
FURNITURE: dict[Theme, dict[str, str]] = {
    "light": {
        "paper": "#ffffff",
        "ink": "#1b1f24",
        "muted": "#59636e",
        "special": "#6e7781",
        "line": "#d5dbe2",
        "soft": "#f4f6f8",
        "link": "#1d5ba9",
        "source": "#3287da",
        "own": "#f0b429",
        "against": "#d9481c",
        "constant": "#b9c1ca",
    },
    "dark": {
        "paper": "#13161c",
        "ink": "#e8ebef",
        "muted": "#a3adb8",
        "special": "#8e98a3",
        "line": "#323a45",
        "soft": "#1c2129",
        "link": "#67aee2",
        "source": "#3e92d3",
        "own": "#d99f1e",
        "against": "#f0764a",
        "constant": "#56606c",
    },
}

# Stops are equal steps of OKLab lightness along one hue, so equal differences look equal.
SEQUENTIAL: dict[Theme, tuple[str, ...]] = {
    "light": ("#ffffff", "#c7e7ff", "#94ccfe", "#66b0f5", "#4293e4", "#2a76c9", "#1d5ba9", "#10408a", "#05276b"),
    "dark": ("#13161c", "#192b47", "#194172", "#165a9b", "#1a75be", "#3e92d3", "#67aee2", "#8fcaf1", "#b8e5ff"),
}
DIVERGING: dict[Theme, tuple[str, ...]] = {
    "light": (
        *("#7e3307", "#97470f", "#b15b17", "#cb701f", "#e3882f", "#f3a557", "#fbc389", "#fee2c2"),
        *("#ffffff", "#caeaff", "#99d3ff", "#6dbafe", "#49a0f0", "#3287da", "#236ebe", "#1456a3", "#053e88"),
    ),
    "dark": (
        *("#fbbd6e", "#e5a150", "#cf8530", "#b96a00", "#a05000", "#823c00", "#612c03", "#3e2010"),
        *("#13161c", "#182943", "#193d6b", "#175391", "#186cb3", "#2a85cd", "#4ba0df", "#6abaf2", "#8ad4ff"),
    ),
}

# Okabe & Ito's eight, plus a grey, on light and on dark paper: black becomes near-white, yellow is deepened on white.
Color = tuple[str, str]
ORANGE: Color = ("#e69f00", "#e69f00")
SKY: Color = ("#56b4e9", "#56b4e9")
GREEN: Color = ("#009e73", "#009e73")
YELLOW: Color = ("#b3a200", "#f0e442")
BLUE: Color = ("#0072b2", "#2a93d5")
VERMILION: Color = ("#d55e00", "#d55e00")
PURPLE: Color = ("#cc79a7", "#cc79a7")
BLACK: Color = ("#000000", "#f2f2f2")
GREY: Color = ("#8c8c8c", "#8c8c8c")


def opposed(theme: Theme) -> tuple[str, ...]:
    """Signed parts of a prediction: what is against it, nothing, what is for it, as a scale with zero in the middle."""
    ends, steps = (FURNITURE[theme]["against"], FURNITURE[theme]["paper"]), len(SEQUENTIAL[theme]) - 1
    return (*(_between(ends, step / steps) for step in range(steps)), *SEQUENTIAL[theme])


def amount(share: float, theme: Theme) -> str:
    """The colour of an amount between 0 and 1, as #rrggbb."""
    return _between(SEQUENTIAL[theme], share)


def signed(value: float, theme: Theme) -> str:
    """The colour of a signed value between -1 and 1, as #rrggbb."""
    return _between(DIVERGING[theme], (value + 1) / 2)


def ink_on(color: str) -> str:
    """Black or white, whichever contrasts more with the colour beneath (WCAG relative luminance)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _rgb(color))]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"


def _between(stops: tuple[str, ...], share: float) -> str:
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    below = min(int(place), len(stops) - 2)
    low, high = _rgb(stops[below]), _rgb(stops[below + 1])
    return "#" + "".join(f"{round(a + (b - a) * (place - below)):02x}" for a, b in zip(low, high, strict=True))


def _rgb(color: str) -> tuple[int, ...]:
    return tuple(int(color[place : place + 2], 16) for place in (1, 3, 5))
