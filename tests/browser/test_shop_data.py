"""The data that the other tests look at: a day of the example shop, the same on every backend."""

from collections import Counter

import pytest

from tests.support.browser.shops import Shop

EVERYWHERE = ["sqlite", "postgresql", "mariadb", "redis", "beanstalk"]


@pytest.mark.parametrize("backend", EVERYWHERE, indirect=True)
def test_the_day_of_the_shop_leaves_jobs_in_every_state(shop_on: Shop, backend: str) -> None:
    counts = shop_on.app.parts().queues.counts()
    found = Counter[str]()
    for states in counts.values():
        found.update({state: count for state, count in states.items() if count})
    jobs = shop_on.app.parts().jobs
    assert jobs is not None
    if backend == "beanstalk":  # a broker counts no ended jobs; its store has their records
        assert {"ready", "delayed", "leased", "dead"} <= set(found)
        assert jobs.queues_with("done")
    else:
        assert set(found) == {"ready", "delayed", "parked", "leased", "done", "dead", "cancelled", "expired"}
    assert found["ready"] > 100
    assert found["dead"] > 20


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_day_of_the_shop_is_the_same_each_time(shop_on: Shop) -> None:
    parts = shop_on.app.parts()
    letters = parts.dead_letters.page(limit=100)
    assert Counter(letter.handler for letter in letters) == {"charge_order": 14, "resize_image": 10, "fetch_prices": 3}
    assert (letters[0].id[:12], letters[0].id[-12:]) == ("01a1da97-216", "46c820e4ba1f")
    assert "/srv/shop/shop/prices.py" in letters[0].failures[-1].trace
