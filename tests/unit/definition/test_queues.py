"""Queue classes, and valid names of queues."""

import pytest

from tenure.definition.queues import Queues
from tenure.errors import InvalidHandler, InvalidJob, UnknownQueue


class Emails:
    name = "emails"
    aliases = ("Mail", "letters")


class Reports:
    name = "reports"


@pytest.fixture
def queues():
    queues = Queues()
    queues.add(Emails)
    queues.add(Reports())
    return queues


def test_a_name_stands_for_itself(queues):
    assert queues.resolve("emails") == "emails"


def test_a_name_that_is_not_registered_stands_for_itself(queues):
    assert queues.resolve("other") == "other"


@pytest.mark.parametrize("alias", ["Mail", "mail", "MAIL", "letters", "Letters"])
def test_an_alias_is_known_in_any_case(queues, alias):
    assert queues.resolve(alias) == "emails"


def test_a_class_stands_for_its_queue(queues):
    assert queues.resolve(Emails) == "emails"


def test_an_instance_stands_for_its_queue(queues):
    assert queues.resolve(Reports()) == "reports"


def test_an_alias_need_not_be_a_queue_name(queues):
    queues.alias("The Mail!", "emails")

    assert queues.resolve("the mail!") == "emails"


def test_a_conflicting_alias_is_refused_with_its_owner(queues):
    with pytest.raises(
        InvalidJob, match="the alias 'MAIL' already stands for queue 'emails'; choose another for 'reports'"
    ):
        queues.alias("MAIL", "reports")


def test_the_same_alias_may_be_said_twice(queues):
    queues.alias("mail", "emails")

    assert queues.resolve("mail") == "emails"


def test_a_name_that_cannot_name_a_queue_is_refused(queues):
    with pytest.raises(InvalidJob, match="'no such queue!' cannot name a queue"):
        queues.resolve("no such queue!")


def test_an_alias_for_a_name_that_cannot_name_a_queue_is_refused(queues):
    with pytest.raises(InvalidJob, match="'not a queue' cannot name a queue"):
        queues.alias("short", "not a queue")


def test_the_classes_of_some_queues_come_once_and_in_order(queues):
    classes = queues.classes(["reports", "emails", "other", "emails"])

    assert [cls.name for cls in classes] == ["reports", "emails"]


@pytest.mark.parametrize("hook", ["setup", "refresh"])
def test_a_hook_that_is_a_generator_function_is_refused(queues, hook):
    def generate(self, worker):
        yield worker

    with pytest.raises(InvalidHandler, match=f"{hook} of queue 'films' is a generator function"):
        queues.add(type("Films", (), {"name": "films", hook: generate})())
    assert queues.classes(["films"]) == []


class Films:
    name = "films"
    aliases = ("movies",)

    def setup(self, worker):
        return self, worker


def test_a_class_whose_hooks_need_an_instance_gets_one(queues):
    queues.add(Films)

    (films,) = queues.classes(["films"])
    assert films.setup("worker-1") == (films, "worker-1")


def test_a_class_that_cannot_be_made_without_arguments_is_refused(queues):
    class Named(Films):
        def __init__(self, name):
            self.name = name

    with pytest.raises(InvalidHandler, match="pass an instance"):
        queues.add(Named)
    assert queues.classes(["films"]) == []


def test_hooks_that_belong_to_the_class_need_no_instance(queues):
    class Archive:
        name = "archive"
        refresh = classmethod(lambda cls, worker: (cls, worker))

        def __init__(self, folder): ...

    queues.add(Archive)
    assert queues.classes(["archive"]) == [Archive]


@pytest.mark.parametrize("given", [Films, Films(), "films", "MOVIES"])
def test_looking_for_a_queue_does_not_replace_the_registered_instance(queues, given):
    registered = Films()
    queues.add(registered)

    assert queues.resolve_or_add(given) == "films"
    assert queues.classes(["films"]) == [registered]


def test_looking_for_a_new_class_adds_it_with_its_aliases(queues):
    assert (queues.resolve_or_add(Films), queues.resolve("movies")) == ("films", "films")


def test_another_class_under_the_same_name_is_refused_where_it_is_looked_for(queues):
    queues.add(Films())

    with pytest.raises(InvalidJob, match="queue 'films' is registered with 'Films', not with 'Other'"):
        queues.resolve_or_add(type("Other", (), {"name": "films"}))


@pytest.mark.parametrize("spelling", ["reports", "Reports", "REPORTS"])
def test_a_known_name_is_found_in_any_case(queues, spelling):
    assert queues.resolve(spelling) == "reports"


def test_the_first_spelling_is_the_name():
    queues = Queues(["Invoices"])
    queues.know("invoices")

    assert [queues.resolve(each) for each in ("invoices", "Invoices", "INVOICES")] == ["Invoices"] * 3


def test_a_class_takes_the_spelling_that_was_known_before_it():
    queues = Queues(["reports"])
    shouting = type("Shouting", (), {"name": "REPORTS", "aliases": ("papers",)})
    queues.add(shouting)

    assert [queues.resolve(each) for each in (shouting, shouting(), "PAPERS", "Reports")] == ["reports"] * 4
    assert queues.classes(["reports"]) == [shouting]


def test_a_name_that_becomes_known_later_is_found_from_then_on(queues):
    assert queues.resolve("Invoices") == "Invoices"
    queues.know("invoices")

    assert queues.resolve("Invoices") == "invoices"


def test_an_alias_goes_before_a_name_that_no_class_has():
    queues = Queues(["mail"])
    assert queues.resolve("mail") == "mail"
    queues.alias("mail", "emails")

    assert queues.resolve("Mail") == "emails"


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_registered_class_is_found_by_its_path(queues, separator):
    assert queues.resolve(f"{__name__}{separator}Reports") == "reports"


def test_the_path_of_a_class_that_is_not_registered_is_never_imported(queues):
    path = f"{__name__}.Films"

    assert queues.find(path) is None
    assert queues.resolve(path) == path  # a name like any other


def test_the_default_queue_is_always_known(queues):
    assert queues.known("Default") == "default"


@pytest.mark.parametrize("given", ["REPORTS", "letters", Emails, Reports()])
def test_a_known_queue_is_resolved_for_certain(queues, given):
    assert queues.known(given) in ("reports", "emails")


def test_an_unknown_queue_is_refused_with_the_nearest_name(queues):
    with pytest.raises(UnknownQueue, match=r"^no queue 'reprots' is known; did you mean 'reports'\? A new queue"):
        queues.known("reprots")


def test_an_unknown_queue_that_is_like_no_other_is_refused_with_the_known_ones(queues):
    with pytest.raises(UnknownQueue, match=r"^no queue 'zebra' is known; known ones: default, emails, reports\. A new"):
        queues.known("zebra")


def test_strict_queues_refuse_what_they_do_not_know():
    queues = Queues(["reports"], strict=True)

    assert queues.resolve("Reports") == "reports"
    assert queues.resolve_or_add(Films) == "films"  # a class is no typo
    with pytest.raises(UnknownQueue, match="did you mean 'reports'"):
        queues.resolve("reprots")


def test_unknown_names_are_not_remembered(queues):
    for number in range(100):
        queues.resolve(f"tenant-{number}")

    assert len(queues._found) == 0
