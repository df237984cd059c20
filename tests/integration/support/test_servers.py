"""The servers of the tests: each test has a place of its own, and a killed server starts again with its data."""

from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
import redis


@pytest.mark.parametrize("turn", [1, 2])
def test_a_test_gets_an_empty_postgresql_database(postgres_url, turn):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE seen (turn int)")


@pytest.mark.parametrize("turn", [1, 2])
def test_a_test_gets_an_empty_mariadb_database(mariadb_url, turn):
    parts = urlsplit(mariadb_url)
    with pymysql.connect(
        host=parts.hostname, port=parts.port, user=parts.username, database=parts.path[1:]
    ) as connection:
        connection.cursor().execute("CREATE TABLE seen (turn int)")


@pytest.mark.parametrize("name", ["postgresql", "mariadb", "redis", "beanstalk"])
def test_a_killed_server_starts_again_on_its_port(own_server, name):
    server = own_server(name, durable=True)
    server.kill()
    server.start()
    server.kind.ping(server.port)


def test_what_a_durable_redis_acknowledged_survives_its_death(own_server):
    server = own_server("redis", durable=True)
    with redis.Redis.from_url(server.url) as connection:
        connection.set("kept", "yes")
        server.kill()
        server.start()
        assert connection.get("kept") == b"yes"
