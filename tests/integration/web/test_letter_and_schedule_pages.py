"""The pages of dead letters and schedules in a browser without scripts: texts are escaped, forms and links work."""

import html
import json
import re

import pytest

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.wire.signing import new_key
from tests.support.web_app import browser_of

HOSTILE = "<script>alert(1)</script>\"'\x1b[31m"


@pytest.fixture
def app(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", keys=[new_key().dump()], environment="development") as app:
        app.is_mended = False

        @app.job(queue="mail")
        def send(user: int) -> None:
            if not app.is_mended:
                raise ValueError(HOSTILE)

        for user in range(7):
            app.enqueue(app.define("send", {"user": user}).named(f"{HOSTILE} {user}").build())
        app.schedule("send", {"user": 1}).named("<b>nightly</b>").daily_at("02:30", timezone="Europe/Madrid")
        app.schedule("send", {"user": 2}).named("hourly").hourly().depends_on("<b>nightly</b>")
        app.worker("mail", burst=True).run()
        yield app


@pytest.fixture
def admin(app, opened):
    return browser_of(opened(app, lambda _: everything("ada")))


def links(text, wanted):
    found = [html.unescape(each) for each in re.findall(r'href="([^"]*)"', text)]
    return [each for each in found if wanted in each]


def form_fields(text, action):
    """The fields of the form that is posted to this action, with their values."""
    form = re.search(rf'<form[^>]*method="post" action="[^"]*{re.escape(action)}"[^>]*>(.*?)</form>', text, re.DOTALL)[
        1
    ]
    found = re.findall(r'<input[^>]*name="([^"]*)"(?:[^>]*value="([^"]*)")?', form)
    return {name: html.unescape(value) for name, value in found}


class TestLetters:
    def test_a_group_is_opened_by_a_link_and_shows_hostile_texts_as_texts(self, admin):
        closed = admin.get("/dead").text
        assert "1 group, 7 letters" in closed
        (link,) = links(closed, "group=")
        opened = admin.get(link)
        assert opened.status_code == 200
        assert "<script>alert" not in opened.text
        assert "&lt;script&gt;alert(1)" in opened.text
        assert "\x1b" not in opened.text
        assert "2 more of this group" in opened.text
        assert opened.text.count('name="ids"') == 5

    def test_the_forms_try_some_letters_and_then_replay_the_rest(self, app, admin):
        (link,) = links(admin.get("/dead").text, "group=")
        app.is_mended = True
        fields = form_fields(admin.get(link).text, "/act/dead.replay")
        answer = admin.post("/act/dead.replay", data={**fields, "first": "3", "why": "mended"})
        assert (answer.status_code, answer.headers["location"]) == (303, link)
        page = admin.get(link).text
        assert "3 letters are tried." in page
        assert "Offered when the trial has ended well." in page
        again = admin.post("/act/dead.replay", data={**fields, "first": "3", "why": "mended"})
        assert again.status_code == 303
        assert "is not started again" in admin.get(link).text
        app.worker("mail", burst=True).run()
        admin.post("/act/queue.pause", data={"queue": "mail", "why": "test", "back": "/dead"})  # drops what is cached
        page = admin.get(link).text
        assert "All letters of the trial succeeded." in page
        (rest,) = links(page, "/act/dead.replay")
        asked = admin.get(rest).text
        assert "Replay 4 letters?" in asked
        answer = admin.post("/act/dead.replay", data={**form_fields(asked, "/act/dead.replay"), "why": "all well"})
        assert answer.status_code == 303
        assert "No letter matches" in admin.get(link).text or "No letter is left." in admin.get(link).text

    def test_a_trial_without_a_reason_asks_again(self, app, admin):
        (link,) = links(admin.get("/dead").text, "group=")
        fields = form_fields(admin.get(link).text, "/act/dead.replay")
        answer = admin.post("/act/dead.replay", data={**fields, "first": "3", "why": ""})
        assert answer.status_code == 400
        assert "Say why" in answer.text
        assert len(list(app.dead_letters().find())) == 7

    def test_letters_are_downloaded_as_lines_of_json(self, app, admin):
        (link,) = links(admin.get("/dead?queue=mail").text, "/dead/export")
        answer = admin.get(link)
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert answer.headers["content-disposition"] == 'attachment; filename="dead-letters.jsonl"'
        assert [json.loads(line)["payload"]["user"] for line in answer.text.splitlines()] == list(range(7))
        assert app.parts().audit.page(limit=1)[0].action == "dead.export"

    def test_a_filter_in_the_address_and_in_the_text_field(self, admin):
        assert admin.get("/dead?q=queue:mail+refused").headers["location"] == "/dead?queue=mail&text=refused"
        wrong = admin.get("/dead?q=queues:mail")
        assert wrong.status_code == 400
        assert links(wrong.text, "queue=mail")
        assert "name=&#34;ids" not in wrong.text
        assert 'name="ids"' not in wrong.text
        nothing = admin.get("/dead?queue=nope").text
        assert "No letter matches" in nothing
        assert "There are 7 letters without this filter." in nothing

    def test_a_viewer_gets_no_actions(self, app, opened):
        viewer = browser_of(opened(app, lambda _: Access(user="eve")))
        (link,) = links(viewer.get("/dead").text, "group=")
        page = viewer.get(link).text
        for action in ("/act/dead.replay", "/act/dead.delete", "/dead/export", 'name="ids"', "Trial"):
            assert action not in page
        assert viewer.get("/dead/export?all=1").status_code == 403
        assert viewer.post("/act/dead.replay", data={"all": "1", "why": "test"}).status_code == 403

    def test_no_letters_is_good_news(self, app, admin):
        app.dead_letters().discard([letter.id for letter in app.dead_letters().find()])
        assert "No dead letters" in admin.get("/dead").text


class TestSchedules:
    def test_schedules_are_shown_and_their_names_escaped(self, admin):
        page = admin.get("/schedules").text
        assert "&lt;b&gt;nightly&lt;/b&gt;" in page
        assert "<b>nightly" not in page
        (link,) = {each for each in links(page, "name=") if "nightly" in each and "/act/" not in each}
        panel = admin.get(link).text
        assert "At 02:30 every day in Europe/Madrid, on queue <strong>mail</strong>." in panel
        assert "Next ticks" in panel
        assert "needed by" in panel

    def test_a_schedule_is_run_now_once_for_each_form(self, app, admin):
        app.is_mended = True
        (ask, *_) = links(admin.get("/schedules?name=hourly").text, "/act/schedule.run?name=hourly")
        asked = admin.get(ask).text
        assert "Run hourly now?" in asked
        fields = form_fields(asked, "/act/schedule.run")
        for text in ("hourly is enqueued.", "was run by this form before"):
            answer = admin.post("/act/schedule.run", data=fields)
            assert answer.status_code == 303
            assert text in admin.get(answer.headers["location"]).text
        assert len(app.cron.history("hourly")) == 1

    def test_a_schedule_is_paused_and_the_pause_is_undone(self, app, admin):
        (ask, *_) = links(admin.get("/schedules?name=hourly").text, "/act/schedule.pause?name=hourly")
        fields = form_fields(admin.get(ask).text, "/act/schedule.pause")
        answer = admin.post("/act/schedule.pause", data={**fields, "why": "test"})
        page = admin.get(answer.headers["location"]).text
        assert "hourly is paused." in page
        admin.post("/act/schedule.resume", data=form_fields(page, "/act/schedule.resume"))
        assert app.cron.ledger.paused() == {}

    def test_unknown_names_wrong_filters_and_no_match(self, admin):
        assert admin.get("/schedules?name=nope").status_code == 404
        assert admin.get("/schedules?q=state:ready").status_code == 400
        assert "No schedule matches" in admin.get("/schedules?q=zzz").text

    def test_a_viewer_gets_no_actions(self, app, opened):
        viewer = browser_of(opened(app, lambda _: Access(user="eve")))
        page = viewer.get("/schedules?name=hourly").text
        assert "/act/" not in page
        assert viewer.post("/act/schedule.run", data={"name": "hourly"}).status_code == 403
