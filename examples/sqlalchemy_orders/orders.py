"""A script that stores an order and the job that ships it in one transaction: both exist, or neither does.

python orders.py
"""

from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tenure import Tenure

DATABASE = "shop.db"
jobs = Tenure(f"sqlite:///{DATABASE}")
engine = create_engine(f"sqlite:///{DATABASE}")


class Table(DeclarativeBase):
    pass


class Order(Table):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    article: Mapped[str]
    shipped: Mapped[bool] = mapped_column(default=False)


@jobs.job(max_retries=3)
def ship(order_id: int) -> str:
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, order_id)
        order.shipped = True
        return f"{order.article} is on its way"


def place_order(article: str) -> str:
    """Store an order with its job; an error stores neither."""
    with Session(engine) as session, session.begin():
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
    with Session(engine) as session:
        for order in session.scalars(select(Order)):
            print(order.id, order.article, "shipped" if order.shipped else "waits")


if __name__ == "__main__":
    main()
