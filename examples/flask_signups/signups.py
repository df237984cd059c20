"""A Flask application that sends a welcome after each sign-up, and a reminder a day later.

Start the web server and a worker, in this folder:

    flask --app signups:web run
    tenure --app signups:jobs work
"""

from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue

from tenure import Tenure

jobs = Tenure("sqlite:///signups.db")


@jobs.job(max_retries=5)
def send_welcome(email: str) -> str:
    return f"Welcome, {email}!"


@jobs.job
def send_reminder(email: str) -> str:
    return f"{email}, your account waits for you."


web = Flask(__name__)


@web.post("/signups")
def sign_up() -> ResponseReturnValue:
    """A second click on the button sends no second welcome."""
    email = request.form["email"]
    welcome = send_welcome.using(idempotency_key=f"welcome {email}", tags=[email]).enqueue(email)
    send_reminder.using(delay="1d", unique=f"reminder {email}", tags=[email]).enqueue(email)
    return jsonify(id=welcome), 202


@web.get("/signups/<email>/mails")
def list_mails(email: str) -> ResponseReturnValue:
    """What was sent to this address, and what will be."""
    return jsonify([info.as_dict() for info in jobs.jobs.find(tags=[email])])


@web.delete("/signups/<email>")
def forget(email: str) -> ResponseReturnValue:
    """Cancel the mails that have not been sent yet."""
    cancelled = jobs.jobs.cancel(tags=[email])
    return jsonify(cancelled.counts)
