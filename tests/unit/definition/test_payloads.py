"""Payloads: declared types survive the round trip, and what JSON would change is refused with its path."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.definition.handler import from_function
from tenure.definition.payload import Shape
from tenure.errors import InvalidPayload

NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)


class Unknown: ...


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Path:
    points: list[Point]
    closed: bool = False
    label: str | None = None


class Order(msgspec.Struct):
    id: int
    placed: datetime
    lines: list[Point] = []


class Renamed(msgspec.Struct, rename="camel"):
    placed_at: datetime


class Customer(pydantic.BaseModel):
    name: str
    joined: datetime
    scores: dict[str, float] = {}


class Aliased(pydantic.BaseModel):
    user_id: int = pydantic.Field(alias="userId")


class Company(pydantic.BaseModel):
    staff: list[Customer]


class Options(TypedDict):
    depth: int


@dataclass
class Uncomparable:
    items: list[int]

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other):
        return self is other


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('abc é☃\n"\\'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def travel(declared, value):
    """The value as a handler that declares this type sees it."""
    shape = Shape(declared)
    return shape.unpack(shape.pack(value))


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (int, 2**63),
        (int, -(10**30)),
        (float, 0.1),
        (str, "é☃𝄞\x00\n"),
        (bool, True),
        (bytes, b"\x00\xff"),
        (datetime, NOON),
        (date, date(2030, 6, 1)),
        (timedelta, timedelta(hours=1, seconds=5)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (Colour, Colour.RED),
        (int | None, None),
        (int | None, 3),
        (Literal["a", "b"], "a"),
        (list[datetime], [NOON, NOON]),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (set[str], {"a", "b"}),
        (frozenset[int], frozenset({1, 2})),
        (dict[str, bytes], {"a": b"x"}),
        (dict[int, str], {1: "a", 2: "b"}),
        (dict[date, int], {date(2030, 6, 1): 1}),
        (Options, {"depth": 2}),
        (Point, Point(1, 2)),
        (Path, Path([Point(1, 2), Point(3)], closed=True)),
        (Order, Order(1, NOON, [Point(1, 2)])),
        (Renamed, Renamed(NOON)),
        (Customer, Customer(name="Ada", joined=NOON, scores={"a": 0.5})),
        (Company, Company(staff=[Customer(name="Ada", joined=NOON)])),
        (Aliased, Aliased(userId=7)),
        (list[Customer], [Customer(name="Ada", joined=NOON)]),
        (dict[str, Order | None], {"a": Order(1, NOON), "b": None}),
    ],
)
def test_a_declared_type_comes_back_as_it_was_sent(declared, value):
    returned = travel(declared, value)

    assert returned == value
    assert type(returned) is type(value)


@given(json_values)
def test_any_json_value_comes_back_unchanged(value):
    assert travel(Any, value) == value


@pytest.mark.parametrize(
    ("declared", "sent", "received"),
    [
        (Any, (1, (2, 3)), [1, [2, 3]]),
        (list[int], (1, 2), [1, 2]),
        (set[int], [1, 2], {1, 2}),
        (float, 1, 1.0),
        (datetime, "2030-06-01T12:00:00Z", NOON),
        (Point, {"x": 1}, Point(1, 0)),
        (Order, {"id": 1, "placed": NOON}, Order(1, NOON)),
        (Renamed, {"placedAt": NOON}, Renamed(NOON)),
        (Path, Path((Point(1),)), Path([Point(1)])),  # type: ignore[arg-type]
        (set[datetime], [NOON], {NOON}),
        (Customer, {"name": "Ada", "joined": "2030-06-01T12:00:00Z"}, Customer(name="Ada", joined=NOON)),
    ],
)
def test_what_fits_the_declared_type_is_accepted_in_its_plain_form(declared, sent, received):
    assert travel(declared, sent) == received


def test_a_type_without_equality_is_compared_member_by_member():
    assert travel(Uncomparable, Uncomparable([1, 2])).items == [1, 2]


def test_a_tuple_beside_a_declared_type_is_no_reason_to_refuse():
    def ship(items, at: datetime, label: bytes): ...

    handler = from_function("ship", ship, {})

    raw = handler.shape.pack({"items": (1, 2), "at": NOON, "label": b"x"})

    assert raw == b'{"items":[1,2],"at":"2030-06-01T12:00:00Z","label":"eA=="}'


@pytest.mark.parametrize(
    ("value", "path", "advice"),
    [
        ({"a": float("nan")}, r"\$\.a is nan", "JSON has no such number; send None or text"),
        ({"a": [1.0, float("inf")]}, r"\$\.a\[1\] is inf", "JSON has no such number"),
        ({"a": {"b": float("-inf")}}, r"\$\.a\.b is -inf", "JSON has no such number"),
        ({"a": b"x"}, r"\$\.a is b'x'", "bytes need a handler that declares the type bytes, or send text"),
        ({"a": [{"b": {1, 2}}]}, r"\$\.a\[0\]\.b is \{1, 2\}", "declares the type set"),
        ({"a": {1: "x"}}, r"\$\.a\[1\] is 1", "JSON objects have text keys; declare dict\\[int, …\\]"),
        ([{True: "x"}], r"\$\[0\]\[True\] is True", "JSON objects have text keys"),
        ({"a": lambda: None}, r"\$\.a is <function", "callables stay in their process; register a handler"),
        ({"a": object()}, r"\$\.a is <object", "object objects cannot be carried; send plain JSON values"),
        ({"a": NOON}, r"\$\.a is datetime", "declare the type datetime on the handler's parameter"),
        ({"a": Colour.RED}, r"\$\.a is <Colour.RED", "declare the type Colour"),
        ({"a": Point(1)}, r"\$\.a is Point\(", "declare the type Point"),
        ({"a": Customer(name="Ada", joined=NOON)}, r"\$\.a is Customer\(", "declare the type Customer"),
        (float("nan"), r"\$ is nan", "JSON has no such number"),
        (b"x", r"\$ is b'x'", "bytes need a handler"),
    ],
)
def test_what_json_would_change_is_refused_with_its_path_and_advice(value, path, advice):
    with pytest.raises(InvalidPayload, match=f"the payload cannot be carried: {path}.*{advice}"):
        Shape().pack(value)


def test_the_culprit_is_named_and_not_the_value_beside_it():
    def notify(at: datetime, callback): ...

    handler = from_function("notify", notify, {})

    with pytest.raises(InvalidPayload, match=r"\$\.callback is <function"):
        handler.shape.pack({"at": NOON, "callback": lambda: None})


def test_a_wrong_type_is_told_without_blaming_its_neighbour():
    def notify(at: datetime, times: int): ...

    handler = from_function("notify", notify, {})

    with pytest.raises(InvalidPayload, match=r"Expected `int`, got `str` - at `\$\.times`$"):
        handler.shape.pack({"at": NOON, "times": "twice"})


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        (float, float("nan"), r"Expected `float`, got `null`; \$ is nan; JSON has no such number"),
        (list[float], [1.0, float("inf")], r"\$\[1\] is inf; JSON has no such number"),
        (dict[str, float], {"a": float("nan")}, r"\$\.a is nan"),
        (int, True, "Expected `int`, got `bool`"),
        (int, 1.5, "Expected `int`, got `float`"),
        (Literal["a", "b"], "c", "Invalid enum value 'c'"),
        (Point, {"y": 1}, "Object missing required field `x`"),
        (Path, {"points": [{"x": "a"}]}, r"Expected `int`, got `str` - at `\$\.points\[0\]\.x`"),
        (Customer, {"name": "Ada"}, "joined\n  Field required"),
        (datetime, "yesterday", "Invalid RFC3339 encoded datetime"),
        (float | None, float("nan"), r"\$ is nan; JSON has no such number"),
        (Path, Path([], label=float("nan")), r"\$\.label is nan"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_its_declared_type_is_refused(declared, value, message):
    with pytest.raises(InvalidPayload, match=message):
        Shape(declared).pack(value)


def test_a_type_of_which_nothing_is_known_cannot_be_read_from_json():
    with pytest.raises(InvalidPayload, match="values of type Unknown cannot be read from JSON"):
        Shape(Unknown).pack({"a": 1})


def test_the_payload_of_a_function_is_the_object_of_its_arguments():
    def draw(x: int, y: int): ...

    handler = from_function("draw", draw, {})

    with pytest.raises(InvalidPayload, match=r"the payload does not fit its handler: .* must be a mapping"):
        handler.shape.pack(Point(1, 2))


def test_text_that_utf8_cannot_carry_is_refused():
    with pytest.raises(InvalidPayload, match="surrogates not allowed"):
        Shape().pack({"a": "\ud800"})


def test_a_payload_that_holds_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(InvalidPayload, match="nested too deeply"):
        Shape().pack(loop)


def test_a_huge_number_survives_exactly():
    assert travel(Any, {"n": 10**400 + 7}) == {"n": 10**400 + 7}


@dataclass
class Basket:
    tags: set[str] = field(default_factory=set)
    sizes: dict[int, str] = field(default_factory=dict)
    when: datetime | None = None


@given(
    st.builds(
        Basket,
        tags=st.sets(st.text(max_size=5), max_size=4),
        sizes=st.dictionaries(st.integers(), st.text(max_size=5), max_size=4),
        when=st.none() | st.datetimes(timezones=st.just(UTC)),
    )
)
def test_any_value_of_a_declared_dataclass_comes_back_equal(basket):
    assert travel(Basket, basket) == basket
