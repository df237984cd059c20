"""The jobs of the demo: one succeeds, one succeeds after retries, one needs a fix first, and one does nothing."""

from pathlib import Path

from tenure import Backoff, Context, Tenure

app = Tenure()  # without settings, the backend is a SQLite file in the current folder


@app.job
def greet(name: str) -> str:
    return f"Hello, {name}!"


@app.job(max_retries=5, backoff=Backoff(base=0.3))
def fetch_rates(ctx: Context, currency: str) -> str:
    if ctx.attempt < 3:
        raise ConnectionError("the exchange did not answer")
    return f"1 {currency} is 1.0000 {currency}"


@app.job(max_retries=1, backoff=Backoff(strategy="fixed", base=0.5))
def print_invoice(number: int) -> str:
    if not Path("paper").exists():
        raise OSError("the printer is out of paper")
    return f"printed invoice {number}"


@app.job(queue="bulk")
def count(number: int) -> None:
    """Do nothing: these jobs show the speed."""
