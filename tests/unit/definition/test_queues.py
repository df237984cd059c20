"""Queue classes, and valid names of queues."""

import pytest

from tenure.definition.handler import Queues
from tenure.errors import InvalidHandler, InvalidJob


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
