"""Jobs, their keys, and settings."""

from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import SimpleTestCase, TransactionTestCase, override_settings

from shop.jobs import pay, welcome
from tenure.errors import InvalidHandler, SettingsError
from tenure.integrations.django import get_app, job
from tenure.integrations.django.checks import check_deployment, check_settings
from tenure.integrations.django.configuration import configuration, derived_keys


class DefinitionTests(SimpleTestCase):
    def test_keys_are_the_path_of_a_function_or_its_name(self):
        self.assertEqual((pay.key, welcome.key), ("shop.pay", "mails.welcome"))

    def test_a_key_that_is_taken_is_refused(self):
        with self.assertRaisesRegex(InvalidHandler, "already registered under 'shop.pay'"):
            job(name="shop.pay")(pay.original)

    def test_jobs_modules_are_discovered_with_their_schedules(self):
        self.assertIn("shop.pay", get_app().registry.keys())
        self.assertEqual([each.name for each in get_app().schedules.all()], ["mails.welcome"])

    def test_lower_names_are_those_of_tenure_and_upper_ones_those_of_django(self):
        with override_settings(TENURE={"lease": 20, "DEFER": "on_commit"}):
            found = configuration()
        self.assertEqual((found.settings.lease, found.options.defer), (20.0, "on_commit"))

    def test_an_unknown_name_is_refused_with_the_nearest_one(self):
        for given, advice in (({"max_retry": 1}, "'max_retries'"), ({"LEASE": 1}, "'lease'"), ({"DEFFER": 1}, "DEFER")):
            with self.subTest(given), override_settings(TENURE=given), self.assertRaisesRegex(SettingsError, advice):
                configuration()

    def test_an_unknown_alias_and_an_unknown_deferral_are_refused(self):
        with override_settings(TENURE={"DATABASE": "jobs"}), self.assertRaisesRegex(SettingsError, "'jobs'"):
            configuration()
        with override_settings(TENURE={"DEFER": "later"}), self.assertRaisesRegex(SettingsError, "outbox, on_commit"):
            configuration()

    def test_the_key_follows_from_the_secret_key_and_fallbacks_verify(self):
        with override_settings(SECRET_KEY="a" * 60):
            (first,) = derived_keys()
        with override_settings(SECRET_KEY="b" * 60, SECRET_KEY_FALLBACKS=["a" * 60]):
            signer, fallback = derived_keys()
        self.assertEqual(fallback, first)
        self.assertNotEqual(signer, first)
        self.assertNotIn("a" * 20, first)

    def test_keys_of_the_settings_replace_the_derived_ones(self):
        key = "own:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
        with override_settings(TENURE={"keys": [key]}):
            self.assertEqual(configuration().settings.keys, (key,))


class CheckTests(SimpleTestCase):
    def test_settings_that_cannot_be_used_are_an_error(self):
        with override_settings(TENURE={"max_retry": 1}):
            (found,) = check_settings()
        self.assertEqual((found.id, found.is_serious()), ("tenure.E001", True))

    def test_a_deployment_is_warned_of_public_keys_and_of_jobs_in_memory(self):
        self.assertEqual([each.id for each in check_deployment()], ["tenure.W003"])
        with override_settings(TENURE={"url": "memory://"}, SECRET_KEY="x" * 60):
            self.assertEqual([each.id for each in check_deployment()], ["tenure.W004"])

    def test_defer_never_with_atomic_requests_is_a_warning(self):
        from django.db import connection

        connection.settings_dict["ATOMIC_REQUESTS"] = True
        self.addCleanup(connection.settings_dict.__setitem__, "ATOMIC_REQUESTS", False)
        with override_settings(TENURE={"url": "redis://server.invalid", "DEFER": "never"}):
            self.assertEqual([each.id for each in check_settings()], ["tenure.W001"])


class CommandTests(TransactionTestCase):
    def test_call_command_runs_a_command_and_reports_its_failure(self):
        call_command("tenure", "jobs", "list", "--json")
        with self.assertRaises(CommandError) as caught:
            call_command("tenure", "jobs", "show", "none")
        self.assertNotEqual(caught.exception.returncode, 0)
