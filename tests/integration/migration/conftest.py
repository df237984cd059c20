"""An app, the adapter for Celery, and a Redis with a prefix of its own."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tenure import Tenure
from tenure.integrations.celery import CeleryApp


@pytest.fixture
def app():
    with Tenure("memory://") as app:
        yield app


@pytest.fixture
def celery(app):
    return CeleryApp(app, highest_priority=0)


@pytest.fixture
def prefix(redis_url):
    return parse_qs(urlsplit(redis_url).query)["prefix"][0] + ":"


@pytest.fixture
def client(redis_url):
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(urlsplit(redis_url)._replace(query="").geturl()) as client:
        yield client
