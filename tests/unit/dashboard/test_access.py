"""What the roles of the dashboard may see and do."""

import pytest

from tenure.app.dashboard.access import ACTIONS, PAGES_OF_ALL_QUEUES, Access, everything
from tenure.errors import AccessDenied


def test_a_user_without_a_role_may_change_nothing():
    access = Access(user="ada")

    assert [action for action in ACTIONS if access.may(action)] == []


def test_an_operator_may_do_all_that_deletes_nothing():
    access = Access(user="ada", role="operator")

    refused = [action for action in ACTIONS if not access.may(action)]

    assert refused == ["jobs.delete", "dead.delete"]


def test_an_admin_may_do_and_read_all():
    access = everything("ada")

    assert all(access.may(action) for action in ACTIONS)
    assert all(access.may_read(page) for page in ("jobs", *PAGES_OF_ALL_QUEUES))


def test_a_list_of_actions_narrows_the_role_and_never_widens_it():
    access = Access(user="ada", role="operator", actions=frozenset({"queue.pause", "jobs.delete"}))

    assert access.may("queue.pause")
    assert not access.may("queue.resume")
    assert not access.may("jobs.delete")


def test_pages_by_role():
    readable = {
        role: [page for page in PAGES_OF_ALL_QUEUES if Access(user="ada", role=role).may_read(page)]
        for role in ("viewer", "operator", "admin")
    }

    assert readable == {
        "viewer": ["guards", "doctor"],
        "operator": ["guards", "doctor", "audit"],
        "admin": ["guards", "doctor", "audit", "settings"],
    }


def test_a_user_of_some_queues_reads_no_page_about_all_queues():
    access = Access(user="ada", role="admin", queues=("emails",))

    assert [page for page in PAGES_OF_ALL_QUEUES if access.may_read(page)] == []
    assert access.may_read("jobs")


def test_a_queue_that_the_user_does_not_see_is_refused():
    access = Access(user="ada", role="admin", queues=("emails",))

    access.check_action("queue.pause", "emails")
    with pytest.raises(AccessDenied, match="may not see queue 'invoices'"):
        access.check_action("queue.pause", "invoices")


def test_an_action_above_the_role_is_refused_with_names():
    with pytest.raises(AccessDenied, match=r"user 'ada' with the role 'viewer' may not do 'jobs\.cancel'"):
        Access(user="ada").check_action("jobs.cancel")


def test_an_unknown_role_is_refused():
    with pytest.raises(ValueError, match="must be one of viewer, operator, admin, not 'root'"):
        Access(user="ada", role="root")  # type: ignore[arg-type]


def test_unknown_actions_are_refused():
    with pytest.raises(ValueError, match=r"unknown actions: queue\.delete"):
        Access(user="ada", actions=frozenset({"queue.delete"}))
