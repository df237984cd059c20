"""A Flask application that sends a welcome after each sign-up, and a reminder a day later."""

from uuid import uuid4

from flask import Flask, abort, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from jobs import jobs, send_reminder, send_welcome, tenure

from tenure.integrations.flask import jobs_blueprint, mount_dashboard
from tenure.web import wsgi


def create_app() -> Flask:
    web = Flask(__name__, template_folder=".")
    web.config.update(SHOP="the lamp shop", SECRET_KEY="for development only", TENURE_URL="sqlite:///signups.db")
    web.config.from_prefixed_env()  # FLASK_SECRET_KEY, FLASK_TENURE_URL
    tenure.init_app(web)
    web.register_blueprint(jobs_blueprint(jobs, authorize=lambda _, job: session.get("visitor") in job.tags))
    mount_dashboard(web, wsgi(jobs))  # who may sign in is in tenure.toml
    web.add_url_rule("/", view_func=page, methods=["GET"])
    web.add_url_rule("/signups", view_func=sign_up, methods=["POST"])
    return web


def page() -> str:
    visitor = session.get("visitor")
    mails = [] if visitor is None else [jobs.jobs.get(found.id) for found in jobs.jobs.find(tags=[visitor])]
    return render_template("page.html", mails=mails)


def sign_up() -> ResponseReturnValue:
    """A second click on the button sends no second welcome.

    The tag names the visitor, because anyone can type an address: visitors see only the mails that they asked for.
    """
    email = request.form.get("email", "").strip() or abort(400)
    visitor = session.setdefault("visitor", uuid4().hex)
    send_welcome.using(unique=f"welcome {email}", tags=[visitor]).enqueue(email)
    send_reminder.using(delay="1d", unique=f"reminder {email}", tags=[visitor]).enqueue(email)
    return redirect(url_for("page"))
