"""Encoding of a table's columns: the record by which new rows are encoded alike."""

from __future__ import annotations

from enum import StrEnum

from streamhalf.results.base import Record


class ColumnUse(StrEnum):
    """Uses of a column."""

    NUMBER = "number"
    CATEGORY = "category"
    DATE = "date"
    DROPPED = "dropped"


class Part(StrEnum):
    """Parts of a column that a feature can hold."""

    VALUE = "value"
    IS = "is"
    OTHER = "other"
    MISSING = "missing"
    DAYS = "days"
    YEAR_SIN = "year sin"
    YEAR_COS = "year cos"
    WEEK_SIN = "week sin"
    WEEK_COS = "week cos"
    HOUR_SIN = "hour sin"
    HOUR_COS = "hour cos"


class DropReason(StrEnum):
    """Why a column, or a feature of one, is left out."""

    ASKED = "asked"
    CONSTANT = "constant"
    EMPTY = "empty"
    IDENTIFIER = "identifier"
    MANY_VALUES = "many values"
    COLLINEAR = "collinear"


class FeatureRecord(Record, frozen=True):
    """A feature made of a column; `value` is what an indicator stands for."""

    name: str
    part: Part = Part.VALUE
    value: str = ""


class ColumnRecord(Record, frozen=True):
    """A column of a table, and the features made of it.

    `gaps` are counted where the encoding was made; `fill` takes their place. `known` are the values
    of a category that rarer ones are told from; `base` is the one without an indicator.
    """

    name: str
    use: ColumnUse
    features: tuple[FeatureRecord, ...] = ()
    gaps: int = 0
    fill: float | None = None
    known: tuple[str, ...] = ()
    base: str | None = None
    reason: DropReason | None = None


class EncodingRecord(Record, frozen=True):
    """How rows of a table become features, column by column; `dtype` is that of the features."""

    columns: tuple[ColumnRecord, ...]
    dtype: str = "float64"

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of the features in their order."""
        return tuple(one.name for column in self.columns for one in column.features)

    @property
    def used(self) -> tuple[str, ...]:
        """Return the names of the columns that features are made of."""
        return tuple(column.name for column in self.columns if column.features)
