"""The dashboard in the admin."""

import hashlib

from django.contrib.auth.models import Permission, User
from django.test import Client, TransactionTestCase, override_settings

from shop.jobs import welcome
from tenure.integrations.django import get_app
from tenure.integrations.django.dashboard import close_dashboard

ROOT = "/admin/tenure/backgroundjobs"
OWN = {"HTTP_ORIGIN": "http://testserver", "HTTP_SEC_FETCH_SITE": "same-origin"}
FORM = {"content_type": "application/x-www-form-urlencoded"}


class DashboardTests(TransactionTestCase):
    def setUp(self):
        self.addCleanup(close_dashboard)

    def sign_in(self, *permissions, **flags):
        user = User.objects.create_user("ada", password="secret", is_staff=True, **flags)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client = Client(enforce_csrf_checks=True)
        client.force_login(user)
        return client

    def test_a_stranger_is_sent_to_the_login_of_the_admin(self):
        answer = self.client.get(f"{ROOT}/queues?window=24h")
        self.assertRedirects(answer, f"/admin/login/?next={ROOT}/queues%3Fwindow%3D24h", fetch_redirect_response=False)

    def test_staff_without_a_permission_and_users_who_are_no_staff_are_refused(self):
        self.assertEqual(self.sign_in().get(f"{ROOT}/").status_code, 403)
        outsider = User.objects.create_user("eve")
        outsider.user_permissions.set(Permission.objects.filter(codename="admin_jobs"))
        self.client.force_login(outsider)
        self.assertEqual(self.client.get("/ops/").status_code, 403)
        self.assertRedirects(self.client.get(f"{ROOT}/"), f"/admin/login/?next={ROOT}/", fetch_redirect_response=False)

    def test_pages_links_and_static_files_are_below_the_admin(self):
        client = self.sign_in("view_jobs")
        page = client.get(f"{ROOT}/queues")
        self.assertContains(page, f'href="{ROOT}/')
        self.assertContains(page, "ada")
        style = page.text.partition(f'href="{ROOT}/static/tenure.css')[2].partition('"')[0]
        found = client.get(f"{ROOT}/static/tenure.css{style}")
        self.assertEqual((found.status_code, found["Content-Type"].partition(";")[0]), (200, "text/css"))
        self.assertEqual(client.get(f"{ROOT}/nothing").status_code, 404)

    def test_the_dashboard_can_be_at_another_address(self):
        page = self.sign_in("view_jobs").get("/ops/queues")
        self.assertContains(page, 'href="/ops/')

    def test_a_program_with_a_token_needs_no_user_of_django(self):
        token = {"sha256": hashlib.sha256(b"secret").hexdigest()}
        with override_settings(TENURE={"dashboard": {"tokens": {"ci": token}}}):
            found = self.client.get("/ops/api/queues", headers={"Authorization": "Bearer secret"})
            self.assertEqual((found.status_code, found["Content-Type"]), (200, "application/json"))
            refused = self.client.get("/ops/api/queues", headers={"Authorization": "Bearer guess"})
            self.assertEqual(refused.status_code, 401)

    def test_a_viewer_may_not_act(self):
        client = self.sign_in("view_jobs")
        self.assertEqual(client.post(f"{ROOT}/act/queue.pause", "queue=emails", **OWN, **FORM).status_code, 403)
        self.assertFalse(get_app().guards.paused("emails"))

    def test_an_operator_acts_and_the_audit_log_names_the_user(self):
        welcome.enqueue(user="ada")
        client = self.sign_in("operate_jobs")
        form = "queue=emails&why=migration&back=/queues"
        answer = client.post(f"{ROOT}/act/queue.pause", form, **OWN, **FORM)
        self.assertEqual((answer.status_code, answer["Location"]), (303, f"{ROOT}/queues"))
        self.assertIn("emails", get_app().guards.paused("emails"))
        self.assertContains(client.get(f"{ROOT}/audit"), "ada")

    def test_a_form_of_another_site_is_refused(self):
        client = self.sign_in("operate_jobs")
        foreign = {"HTTP_ORIGIN": "https://evil.example", "HTTP_SEC_FETCH_SITE": "cross-site"}
        answer = client.post(f"{ROOT}/act/queue.pause", "queue=emails", **foreign, **FORM)
        self.assertEqual(answer.status_code, 403)
        self.assertFalse(get_app().guards.paused("emails"))

    def test_a_superuser_sees_the_settings_and_others_do_not(self):
        self.assertEqual(self.sign_in(is_superuser=True).get(f"{ROOT}/settings").status_code, 200)
        User.objects.all().delete()
        self.assertEqual(self.sign_in("operate_jobs").get(f"{ROOT}/settings").status_code, 403)

    def test_the_admin_links_to_the_dashboard_for_those_who_may_see_it(self):
        self.assertContains(self.sign_in("view_jobs").get("/admin/"), f'href="{ROOT}/"')
        User.objects.all().delete()
        self.assertNotContains(self.sign_in().get("/admin/"), ROOT)
