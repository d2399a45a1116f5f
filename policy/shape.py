"""What every part of the gateway document has in common."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt

from model.snapshot import Dimension
from policy.scalar import RATE_WORDS, Rate, parse_rate, scalar

Flag = StrictBool
Count = Annotated[StrictInt, Field(ge=1, le=1_000_000)]
Whole = Annotated[StrictInt, Field(ge=0, le=1_000_000)]
Text = Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^[^\x00-\x1f\x7f]+$")]
File = Text
"""A file; a relative one is relative to the folder of the document."""

Quoted = Annotated[Rate, *scalar(parse_rate, RATE_WORDS)]
ErrorStyle = Literal["problem", "tpp-messages"]
AnswerField = Literal["draft", "remaining", "x-ratelimit", "ratelimit-legacy"]


class Shape(BaseModel):
    """A mapping of the document: immutable, and a key that it does not know is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class LimitShape(Shape):
    """A limit: a rate, what it is counted by, what one request costs. `enforced: false` counts and never refuses."""

    rate: Quoted
    per: Annotated[tuple[Dimension, ...], Field(min_length=1)] = (Dimension.CLIENT, Dimension.ROUTE)
    cost: Count = 1
    enforced: Flag = True


def _spell_out(value: object) -> object:
    return {"rate": value} if isinstance(value, str) else value


LimitEntry = Annotated[LimitShape, BeforeValidator(_spell_out, json_schema_input_type=str | LimitShape)]
"""A limit, or only its rate."""
