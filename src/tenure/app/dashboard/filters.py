"""The filter of lists of jobs: as people write it, as an address has it, and as a value.

People write `state:ready,parked queue:emails -handler:send_* "refused"`; the address has
`state=ready&state=parked&queue=emails&-handler=send_*&text=refused`. Both give the same JobQuery, and one JobQuery has
one address. A JobQuery may hold nonsense, because a page shows what the user gave: `fault_of` says what is wrong.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from tenure.clock import MICROSECOND, to_microseconds
from tenure.definition.duration import to_seconds
from tenure.errors import InvalidFilter, InvalidJob
from tenure.events import JOB_STATES
from tenure.suggestions import nearest

SORTS = ("newest", "oldest", "longest")
# In the order of the address.
KEYS = (
    *("state", "queue", "handler", "tag", "reason", "error", "id", "worker", "schedule"),
    *("since", "until", "text", "sort"),
)
_PATTERNS = ("queue", "handler", "reason", "worker")  # a * at the end of their values stands for any text
_SINGLE = ("since", "until", "sort")  # a new value replaces the one before
_NOT_EXCLUDED = ("id", "schedule", *_SINGLE)
_SHOWN_STATES = tuple("running" if state == "leased" else state for state in JOB_STATES)
_SHORTEST_ID = 4
_MAX_VALUES = 100
_MAX_CHARACTERS = 4000  # of all values together

_TOKEN = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*(?:"|\\?$))+')
_TERM = re.compile(r"(-?)([A-Za-z_]+):(.*)", re.DOTALL)
_VALUE = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\\?$))+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|\\?$)')
_ESCAPED = re.compile(r"\\(.)")
_NEEDS_QUOTES = re.compile(r'[\s",:\\]|^-|^$')
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class Term(Struct, frozen=True):
    """One part of a filter; a job has one of the `values`, or none of them if the term is `excluded`.

    Of the words of the key `text` a job has all.
    """

    key: str
    values: tuple[str, ...]
    excluded: bool = False

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return f"-{self.key}" if self.excluded else self.key

    @property
    def shown(self) -> tuple[str, ...]:
        """The values in the words of the pages."""
        return (
            tuple("running" if value == "leased" else value for value in self.values)
            if self.key == "state"
            else self.values
        )

    def __str__(self) -> str:
        """The term as people write it."""
        sign, values = "-" if self.excluded else "", [_written(value) for value in self.shown]
        if self.key == "text":
            return " ".join(f"{sign}{value}" for value in values)
        return f"{self.name}:{','.join(values)}"


class FilterFault(Struct, frozen=True, kw_only=True):
    """What is wrong with a filter; `suggestion` is what the user may have meant, `query` the address of that."""

    text: str
    suggestion: str | None = None
    query: str | None = None


class JobQuery(Struct, frozen=True):
    """Which jobs: those that match every term, in the order of the address."""

    terms: tuple[Term, ...] = ()

    def wanted(self, key: str) -> tuple[str, ...]:
        return next((term.values for term in self.terms if term.key == key and not term.excluded), ())

    def unwanted(self, key: str) -> tuple[str, ...]:
        return next((term.values for term in self.terms if term.key == key and term.excluded), ())

    def one(self, key: str) -> str | None:
        return next(iter(self.wanted(key)), None)

    @property
    def keys(self) -> set[str]:
        return {term.key for term in self.terms}

    def states(self) -> tuple[str, ...]:
        """The states of the jobs, in their usual order; empty if any state matches."""
        named, refused = self.wanted("state"), self.unwanted("state")
        if not named and not refused:
            return ()
        return tuple(state for state in JOB_STATES if (not named or state in named) and state not in refused)

    def replaced(self, key: str, *values: str) -> "JobQuery":
        """The same filter with these values of a key, and none that are excluded."""
        others = [term for term in self.terms if term.key != key]
        return _ordered([*others, Term(key, values)] if values else others)

    def without(self, term: Term) -> "JobQuery":
        return JobQuery(tuple(each for each in self.terms if each != term))

    def merged(self, other: "JobQuery") -> "JobQuery":
        """Both filters: values of the same key are alternatives; a time or an order replaces the one before."""
        replaced = {term.key for term in other.terms if term.key in _SINGLE}
        return _ordered([*(term for term in self.terms if term.key not in replaced), *other.terms])

    def pairs(self) -> list[tuple[str, str]]:
        """The parameters of the address."""
        return [(term.name, value) for term in self.terms for value in term.shown]

    def canonical(self) -> str:
        """The query string of the address; equal filters have equal ones."""
        return query_string(self.pairs())

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        """The filter as people write it."""
        return " ".join(map(str, self.terms))


def query_string(pairs: Iterable[tuple[str, str]]) -> str:
    return urlencode(list(pairs), quote_via=quote, safe="*", errors="replace")


def parse(text: str) -> JobQuery:
    """The filter that a text means."""
    return _ordered(_term(token) for token in _TOKEN.findall(text))


def from_parameters(pairs: Iterable[tuple[str, str]]) -> JobQuery:
    """The filter of the parameters of an address; a leading `-` of a name excludes. Empty values are left out."""
    return _from_pairs((name, value) for name, value in pairs if value)


def from_canonical(text: str) -> JobQuery:
    """The filter that a query string means, as actions on all jobs of a filter give it; raises InvalidFilter.

    An empty value is an error here: without its term the filter would select more jobs.
    """
    try:
        query = _from_pairs(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=1000))
    except ValueError as error:
        raise InvalidFilter(f"the filter {text!r:.80} is not a query string: {error}") from error
    if fault := fault_of(query):
        raise InvalidFilter(fault.text)
    return query


def fault_of(query: JobQuery) -> FilterFault | None:
    """The first thing that is wrong with a filter, if there is one."""
    values = [value for term in query.terms for value in term.values]
    if len(values) > _MAX_VALUES or sum(map(len, values)) > _MAX_CHARACTERS:
        return FilterFault(
            text=f"The filter is too long: at most {_MAX_VALUES} values and {_MAX_CHARACTERS} characters."
        )
    return next((fault for term in query.terms if (fault := _fault_of_term(query, term))), None)


def moment_of(text: str, now: int) -> int:
    """The time that `since` or `until` names, in UTC microseconds: `2h` ago, or ISO text; raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - round(to_seconds(text) * MICROSECOND)
        except InvalidJob as error:
            raise ValueError(str(error)) from error
    return to_microseconds(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


def has_pattern(pattern: str, text: str | None) -> bool:
    """Whether a text is the pattern, or begins with it if the pattern ends with a *."""
    if text is None:
        return False
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _from_pairs(pairs: Iterable[tuple[str, str]]) -> JobQuery:
    return _ordered(Term(name.removeprefix("-").lower(), (value,), name.startswith("-")) for name, value in pairs)


def _term(token: str) -> Term:
    found = _TERM.fullmatch(token)
    if found is None:
        excluded = token.startswith("-") and len(token) > 1
        return Term("text", (_unquoted(token[excluded:]),), excluded)
    values = tuple(_unquoted(value) for value in _VALUE.findall(found[3]))
    return Term(found[2].lower(), values or ("",), bool(found[1]))


def _unquoted(text: str) -> str:
    return _QUOTED.sub(lambda found: _ESCAPED.sub(r"\1", found[1]), text)


def _written(value: str) -> str:
    if not _NEEDS_QUOTES.search(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _ordered(terms: Iterable[Term]) -> JobQuery:
    """The terms with one for each key, in the order of the address; unknown keys come last."""
    found: dict[tuple[str, bool], dict[str, None]] = {}
    for term in terms:
        values = (_as_state(value) for value in term.values) if term.key == "state" else term.values
        found.setdefault((term.key, term.excluded), {}).update(dict.fromkeys(values))
    joined = [Term(key, _in_order(key, values), excluded) for (key, excluded), values in found.items() if values]
    return JobQuery(tuple(sorted(joined, key=_place)))


def _as_state(value: str) -> str:
    lowered = value.lower()
    return "leased" if lowered == "running" else lowered


def _in_order(key: str, values: Iterable[str]) -> tuple[str, ...]:
    if key == "text" or key in _SINGLE:
        return tuple(values)
    if key == "state":
        return tuple(
            sorted(values, key=lambda value: JOB_STATES.index(value) if value in JOB_STATES else len(JOB_STATES))
        )
    return tuple(sorted(values))


def _place(term: Term) -> tuple[int, str, bool]:
    return (KEYS.index(term.key) if term.key in KEYS else len(KEYS), term.key, term.excluded)


def _fault_of_term(query: JobQuery, term: Term) -> FilterFault | None:
    if term.key not in KEYS:
        return _unknown_key(query, term)
    if term.excluded and term.key in _NOT_EXCLUDED:
        return FilterFault(text=f"{term.key} can not be excluded: take the - away.")
    if term.key in _SINGLE and len(term.values) > 1:
        return FilterFault(text=f"{term.key} takes one value.")
    return next((fault for value in term.values if (fault := _fault_of_value(query, term, value))), None)


def _unknown_key(query: JobQuery, term: Term) -> FilterFault:
    """Suggests the key that is most like it, or a search for the text, unless that would be wrong too."""
    guess = nearest(term.key, KEYS)
    meant = Term(guess, term.values, term.excluded) if guess else Term("text", (f"{term.key}:{','.join(term.values)}",))
    fixed = query.without(term).merged(JobQuery((meant,)))
    text = f"There is no key “{term.name}”."
    if _fault_of_term(fixed, meant):
        return FilterFault(text=f"{text} Known are {', '.join(KEYS)}.")
    return FilterFault(text=text, suggestion=str(meant), query=fixed.canonical())


def _fault_of_value(query: JobQuery, term: Term, value: str) -> FilterFault | None:
    key = term.key
    if not value.strip():
        return FilterFault(text=f"{key} has no value: write {key}:{_EXAMPLES[key]}.")
    if _UNSTORABLE.search(value):
        return FilterFault(text=f"The value of {key} has characters that no job can have.")
    if key == "state" and value not in JOB_STATES:
        return _unknown_value(query, term, value, "state", _SHOWN_STATES)
    if key == "sort" and value not in SORTS:
        return _unknown_value(query, term, value, "order", SORTS)
    if key in ("since", "until") and not _is_moment(value):
        return FilterFault(text=f"“{value}” is not a time: write {key}:2h, {key}:3d or {key}:2026-11-15T14:00.")
    if key in _PATTERNS and "*" in value[:-1]:
        return FilterFault(text=f"In “{value}” a * can stand only at the end.")
    if key == "id" and len(value) < _SHORTEST_ID:
        return FilterFault(text=f"“{value}” is too short for an id: give at least {_SHORTEST_ID} characters.")
    return None


_EXAMPLES = dict(
    zip(
        KEYS,
        (
            *("ready", "emails", "send_*", "tenant-17", "timeout", "refused", "0a6be2d9", "billing-1", "nightly"),
            *("2h", "1d", "refused", "newest"),
        ),
        strict=True,
    )
)


def _unknown_value(query: JobQuery, term: Term, value: str, what: str, known: Sequence[str]) -> FilterFault:
    text = f"Unknown {what} “{value}”."
    guess = nearest(value, known)
    if guess is None:
        return FilterFault(text=f"{text} Known are {', '.join(known)}.")
    values = tuple(guess if each == value else each for each in term.values)
    fixed = _ordered([*query.without(term).terms, Term(term.key, values, term.excluded)])
    return FilterFault(text=text, suggestion=guess, query=fixed.canonical())


def _is_moment(text: str) -> bool:
    try:
        moment_of(text, now=0)
    except (ValueError, OverflowError):
        return False
    return True
