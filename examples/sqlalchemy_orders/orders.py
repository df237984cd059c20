"""A script that stores an order and the job that ships it in one transaction: both exist, or neither does.

python orders.py
"""

from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from tenure import PROVIDED, Tenure
from tenure.integrations.sqlalchemy import dispose_after_fork, provide_session

DATABASE = "shop.db"
jobs = Tenure(f"sqlite:///{DATABASE}")
engine = dispose_after_fork(create_engine(f"sqlite:///{DATABASE}"))
sessions = sessionmaker(engine)
provide_session(jobs, sessions, commit=True)  # each job has a session, which is committed if the job succeeds


class Table(DeclarativeBase):
    pass


class Order(Table):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    article: Mapped[str]
    shipped: Mapped[bool] = mapped_column(default=False)


@jobs.job(max_retries=3)
def ship(order_id: int, session: Session = PROVIDED) -> str:
    order = session.get_one(Order, order_id)
    order.shipped = True
    thank.using(connection=session).enqueue(order.id)  # exists only if the order is stored as shipped
    return f"{order.article} is on its way"


@jobs.job
def thank(order_id: int) -> str:
    return f"thank you for order {order_id}"


def place_order(article: str) -> str:
    """Store an order with its job; an error stores neither."""
    with sessions.begin() as session:
        order = Order(article=article)
        session.add(order)
        session.flush()
        handle = ship.using(connection=session).enqueue(order.id)
        if article == "a unicorn":
            raise LookupError(f"{article} is out of stock")
    return handle


def main() -> None:
    jobs.migrate()
    Table.metadata.create_all(engine)
    handle = place_order("a lamp")
    try:
        place_order("a unicorn")
    except LookupError as error:
        print(error)
    jobs.worker(burst=True).run()
    print(jobs.handle(handle).result())
    for job in jobs.jobs.find(handler="thank"):
        print(jobs.result(job.id))
    with sessions() as session:
        for order in session.scalars(select(Order)):
            print(order.id, order.article, "shipped" if order.shipped else "waits")


if __name__ == "__main__":
    main()
