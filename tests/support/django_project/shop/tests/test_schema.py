"""The tables of Tenure in the migrations of Django."""

import os
from io import StringIO
from unittest import skipIf

from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase, override_settings

from tenure.integrations.django import get_app
from tenure.integrations.django.checks import check_tables
from tenure.integrations.django.schema import missing_tables

IN_MEMORY = bool(os.environ.get("PROJECT_IN_MEMORY"))


def tables():
    return sorted(name for name in connection.introspection.table_names() if name.startswith("tenure_"))


class SchemaTests(TransactionTestCase):
    def test_no_model_has_changed_since_the_migration(self):
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)

    def test_the_plan_and_the_sql_can_be_shown(self):
        out = StringIO()
        call_command("sqlmigrate", "tenure", "0001", stdout=out, no_color=True)
        if not connection.is_in_memory_db() if connection.vendor == "sqlite" else True:
            self.assertIn("CREATE TABLE", out.getvalue())

    def test_zero_drops_the_tables_and_migrate_creates_them_again(self):
        before = tables()
        try:
            call_command("migrate", "tenure", "zero", verbosity=0)
            self.assertEqual(tables(), [])
            call_command("migrate", "shop", verbosity=0)
            self.assertEqual(tables(), [])
            self.assertEqual(check_tables(databases=["default"]), [])
        finally:
            call_command("migrate", verbosity=0)
        self.assertEqual((tables(), missing_tables("default")), (before, []))
        self.assertEqual(get_app().jobs.counts(), {})

    @skipIf(IN_MEMORY, "jobs in memory have no tables")
    def test_tables_that_are_gone_are_a_warning(self):
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE tenure_schema")
        self.addCleanup(call_command, "migrate", verbosity=0)
        self.addCleanup(call_command, "migrate", "tenure", "zero", verbosity=0)
        self.assertEqual([each.id for each in check_tables(databases=["default"])], ["tenure.W002"])

    def test_a_router_can_keep_the_tables_away(self):
        class Router:
            def allow_migrate(self, db, app_label, **hints):
                return app_label != "tenure"

        call_command("migrate", "tenure", "zero", verbosity=0)
        try:
            with override_settings(DATABASE_ROUTERS=[Router()]):
                call_command("migrate", verbosity=0)
                self.assertEqual(tables(), [])
        finally:
            call_command("migrate", "tenure", "zero", verbosity=0)
            call_command("migrate", verbosity=0)
