"""Overlap: may a tick start while an earlier one has not ended?"""

import pytest

from tenure.cron.decision import Admission, admit


@pytest.mark.parametrize(
    ("policy", "unfinished", "admission"),
    [
        ("allow", 0, Admission.START),
        ("allow", 7, Admission.START),
        ("skip", 0, Admission.START),
        ("skip", 1, Admission.SKIP),
        ("queue_one", 0, Admission.START),
        ("queue_one", 1, Admission.WAIT),
        ("queue_one", 2, Admission.SKIP),
    ],
)
def test_the_policy_and_what_is_unfinished_decide(policy, unfinished, admission):
    assert admit(policy, unfinished) is admission
