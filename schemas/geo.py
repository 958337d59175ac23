"""Places on the earth: points, the areas that filters ask for, and distances in metres.

A point is `{"lat": 52.5, "lon": 13.4}`, in degrees. What holds of areas is what Qdrant says: the border of an area is
outside of it, and so is that of a hole; an area reaches over the 180th meridian if its left side is east of its right
one; a polygon has straight sides between latitudes and longitudes, and does not reach over that meridian.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Final, NamedTuple, Self

from pydantic import Field, model_validator

from schemas.fields import Strict

EARTH_RADIUS: Final = 6_371_008.8
"""Metres: the mean radius of the IUGG, with which Qdrant computes."""

_NEARLY: Final = 1e-12
"""Share of its terms beyond which a difference of doubles has the right sign."""

Latitude = Annotated[float, Field(ge=-90, le=90, allow_inf_nan=False)]
Longitude = Annotated[float, Field(ge=-180, le=180, allow_inf_nan=False)]


class Coordinates(NamedTuple):
    """A point in degrees."""

    lat: float
    lon: float

    @property
    def on_earth(self) -> bool:
        """True if the degrees are those of a point on the earth."""
        return abs(self.lat) <= 90 and abs(self.lon) <= 180

    def distance(self, other: "Coordinates") -> float:
        """Metres along the sphere. Source: the haversine formula, in the form that Qdrant has it."""
        lat, lat_of_other = math.radians(self.lat), math.radians(other.lat)
        north, east = math.radians(other.lat - self.lat), math.radians(other.lon - self.lon)
        root = math.sin(north / 2) ** 2 + math.cos(lat) * math.cos(lat_of_other) * math.sin(east / 2) ** 2
        return 2 * EARTH_RADIUS * math.asin(math.sqrt(min(1.0, root)))


def read_coordinates(value: object) -> Coordinates | None:
    """The point that a value of a payload is; None if it is none."""
    match value:
        case {"lat": int() | float() as lat, "lon": int() | float() as lon} if bool not in {type(lat), type(lon)}:
            return Coordinates(float(lat), float(lon))
    return None


class GeoPoint(Strict):
    """A point: degrees north of the equator, and degrees east of Greenwich."""

    lat: Latitude
    lon: Longitude

    @property
    def coordinates(self) -> Coordinates:
        return Coordinates(self.lat, self.lon)


class GeoCircle(GeoPoint):
    """The places that are less than some metres away from a point."""

    radius_m: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def contains(self, at: Coordinates) -> bool:
        return self.coordinates.distance(at) < self.radius_m


class GeoBox(Strict):
    """The places between two latitudes and two longitudes."""

    top_left: GeoPoint
    bottom_right: GeoPoint

    @model_validator(mode="after")
    def _within_half(self) -> Self:
        # By an index, Qdrant finds only a part of a wider one, and nothing within all of the earth.
        west, east = self.top_left.lon, self.bottom_right.lon
        if east - west + 360 * (west > east) > 180:
            raise ValueError("at most 180 degrees from the left side to the right one are expected; ask for two boxes")
        return self

    def contains(self, at: Coordinates) -> bool:
        west, east = self.top_left.lon < at.lon, at.lon < self.bottom_right.lon
        between = west or east if self.top_left.lon > self.bottom_right.lon else west and east
        return between and self.bottom_right.lat < at.lat < self.top_left.lat


Ring = Annotated[list[GeoPoint], Field(min_length=3, max_length=1000)]
"""The corners of a polygon, in either direction; the first need not come again as the last."""


class GeoPolygon(Strict):
    """The places within a ring of corners, and in none of its holes."""

    exterior: Ring
    interiors: list[Ring] = Field(default=[], max_length=100)

    @property
    def rings(self) -> Sequence[Sequence[GeoPoint]]:
        """The exterior, and behind it the holes, each closed."""
        # Qdrant wants four corners or more.
        rings = (self.exterior, *self.interiors)
        return [ring if ring[0] == ring[-1] and len(ring) > 3 else [*ring, ring[0]] for ring in rings]

    def contains(self, at: Coordinates) -> bool:
        exterior, *holes = [_wind(ring, at) for ring in self.rings]
        return exterior not in (None, 0) and not any(hole != 0 for hole in holes)


def _wind(ring: Sequence[GeoPoint], at: Coordinates) -> int | None:
    """The winding number of a ring around a place; None if the place is on the ring."""
    winding = 0
    for a, b in pairwise(ring):
        turn = _turn(a, b, at)
        on_line = min(a.lat, b.lat) <= at.lat <= max(a.lat, b.lat) and min(a.lon, b.lon) <= at.lon
        if turn == 0 and on_line and at.lon <= max(a.lon, b.lon):
            return None
        winding += (a.lat <= at.lat < b.lat and turn > 0) - (b.lat <= at.lat < a.lat and turn < 0)
    return winding


def _turn(a: GeoPoint, b: GeoPoint, at: Coordinates) -> float:
    """Above 0 if the place is left of the line from `a` to `b`, 0 if it is on it: exactly."""
    one, other = (b.lon - a.lon) * (at.lat - a.lat), (at.lon - a.lon) * (b.lat - a.lat)
    if abs(one - other) > _NEARLY * (abs(one) + abs(other)):
        return one - other
    x, y, lon, lat = map(Fraction, (a.lon, a.lat, at.lon, at.lat))
    exact = (Fraction(b.lon) - x) * (lat - y) - (lon - x) * (Fraction(b.lat) - y)
    return (exact > 0) - (exact < 0)
