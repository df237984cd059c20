"""The jobs of the web application: they run in its application context, in a worker."""

from flask import current_app, render_template_string

from tenure import Tenure
from tenure.integrations.flask import FlaskTenure

jobs = Tenure()
tenure = FlaskTenure(jobs)


@jobs.job(max_retries=5)
def send_welcome(email: str) -> str:
    """What a mail server would send."""
    return render_template_string("Welcome to {{ config.SHOP }}, {{ email }}!", email=email)


@jobs.job
async def send_reminder(email: str) -> str:
    return f"{email}, your account at {current_app.config['SHOP']} waits for you."
