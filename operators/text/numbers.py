"""Numbers and sizes: one spelling for each value, however people write it."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

NUMBER: Final = (
    r"(?:(?<!\d,)\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:\.\d{3})+,\d+|\d+(?:\.\d+)++|(?<!\d,)\d+,\d+(?!,?\d)"
    r"|(?<![\d/])\d{1,2}/\d{1,2}(?![\d/])|\d+)"
)
"""A regular expression that matches one number: with a decimal point or comma, in dotted groups, or a fraction."""

_THOUSANDS: Final = re.compile(r"(?:\d+(?:,\d{3})+\.\d+|\d+(?:\.\d{3})+,\d+)")
_LONGEST: Final = 18
"""Characters of a number at most that is read as a value."""

_NAMES: Final[Mapping[str, str]] = {
    "mm": "millimeter millimetre millimètre",
    "cm": "centimeter centimetre zentimeter centimètre",
    "dm": "",
    "m": "meter metre mètre",
    "km": "kilometer kilometre kilomètre",
    "um": "\u03bcm",
    "in": "inch zoll pouce",
    "ft": "foot feet",
    "mg": "milligram milligramm milligramme",
    "g": "gr gram gramm gramme",
    "kg": "kilo kilogram kilogramm kilogramme",
    "lb": "pound",
    "oz": "ounce",
    "ml": "milliliter millilitre",
    "cl": "",
    "dl": "",
    "l": "ltr liter litre",
    "w": "watt",
    "kw": "kilowatt",
    "wh": "",
    "kwh": "",
    "v": "volt",
    "kv": "",
    "a": "amp ampere ampère",
    "ma": "",
    "mah": "",
    "ah": "",
    "hz": "hertz",
    "khz": "kilohertz",
    "mhz": "megahertz",
    "ghz": "gigahertz",
    "kb": "kilobyte",
    "mb": "megabyte mo",
    "gb": "gigabyte go",
    "tb": "terabyte to",
    "nm": "",
    "bar": "",
    "psi": "",
    "db": "decibel",
    "mm2": "",
    "cm2": "",
    "m2": "sqm qm",
    "cm3": "ccm",
    "m3": "",
}
UNITS: Final[Mapping[str, str]] = {
    name: sign
    for sign, names in _NAMES.items()
    for name in (sign, *names.split(), *(f"{each}{'es' if each.endswith('ch') else 's'}" for each in names.split()))
}
"""Names of units, English, German and French, in one number and many, and the sign of each."""

_METRIC: Final[Mapping[str, tuple[str, Decimal]]] = {
    sign: (base, Decimal(factor))
    for base, parts in {
        "m": {"mm": "0.001", "cm": "0.01", "dm": "0.1"},
        "kg": {"mg": "0.000001", "g": "0.001"},
        "l": {"ml": "0.001", "cl": "0.01", "dl": "0.1"},
    }.items()
    for sign, factor in parts.items()
}


def normal_number(written: str) -> str:
    """The number with a decimal point, and without separators of thousands where it has both: 1.299,00 is 1299.00.

    Digits behind the point stay, for version 1.10 is not 1.1.
    """
    if _THOUSANDS.fullmatch(written):
        point = max(written.rfind("."), written.rfind(","))
        written = re.sub("[.,]", "", written[:point]) + "." + written[point + 1 :]
    return written.replace(",", ".")


def sizes(number: str, unit: str) -> Iterator[str]:
    """The spellings by which a size is searched: that of the value with the unit's sign, and in the metric base unit.

    `number` is in its normal form, `unit` in small letters. Without a value or a known unit there are none.
    """
    sign = UNITS.get(unit)
    if sign is None:
        return
    if "/" in number:
        yield number + sign
        return
    if len(number) > _LONGEST or number.count(".") > 1:
        return
    value = Decimal(number)
    yield _plain(value) + sign
    if sign in _METRIC:
        base, factor = _METRIC[sign]
        yield _plain(value * factor) + base


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
