"""The jobs of the web application; workers import this module, and nothing of the web."""

import time

from pydantic import BaseModel

from tenure import Context, Tenure

jobs = Tenure()  # the settings are in tenure.toml


class Report(BaseModel):
    month: int
    lines: int


@jobs.job(queue="reports", max_retries=3, give_up_on=ValueError)
def make_report(ctx: Context, month: int) -> Report:
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")
    days = 28
    for day in range(1, days + 1):
        time.sleep(0.03)  # what a database would take
        ctx.progress(day, days)
    return Report(month=month, lines=days)
