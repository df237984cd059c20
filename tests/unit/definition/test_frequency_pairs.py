"""What two words of a schedule mean together, in either order.

A word without a time means midnight, unless another word says which minutes or hours are meant.
"""

import pytest

from tenure import Job
from tenure.definition.builder import JobBuilder

WORDS = {
    "every_minute": ("every_minute",),
    "every_fifteen_minutes": ("every_fifteen_minutes",),
    "minutes": ("minutes", [0, 30]),
    "hourly": ("hourly",),
    "every_hour 2": ("every_hour", 2),
    "hours": ("hours", [9, 17]),
    "between_hours": ("between_hours", 9, 17),
    "daily": ("daily",),
    "daily_at 02:30": ("daily_at", "02:30"),
    "weekdays": ("weekdays",),
    "weekdays 07:00": ("weekdays", "07:00"),
    "monthly": ("monthly",),
    "days": ("days", [1, 3]),
    "days_of_month": ("days_of_month", [1, 15]),
    "months": ("months", [1, 7]),
    "cron": ("cron", "5 4 * * *"),
}
PAIRS = """
every_minute           every_minute           * * * * *
every_minute           every_fifteen_minutes  */15 * * * *
every_minute           minutes                0,30 * * * *
every_minute           hourly                 0 * * * *
every_minute           every_hour 2           0 */2 * * *
every_minute           hours                  * 9,17 * * *
every_minute           between_hours          * 9-17 * * *
every_minute           daily                  * * * * *
every_minute           daily_at 02:30         30 2 * * *
every_minute           weekdays               * * * * 1-5
every_minute           weekdays 07:00         0 7 * * 1-5
every_minute           monthly                * * 1 * *
every_minute           days                   * * * * 1,3
every_minute           days_of_month          * * 1,15 * *
every_minute           months                 * * * 1,7 *
every_minute           cron                   5 4 * * *
every_fifteen_minutes  every_minute           * * * * *
every_fifteen_minutes  every_fifteen_minutes  */15 * * * *
every_fifteen_minutes  minutes                0,30 * * * *
every_fifteen_minutes  hourly                 0 * * * *
every_fifteen_minutes  every_hour 2           0 */2 * * *
every_fifteen_minutes  hours                  */15 9,17 * * *
every_fifteen_minutes  between_hours          */15 9-17 * * *
every_fifteen_minutes  daily                  */15 * * * *
every_fifteen_minutes  daily_at 02:30         30 2 * * *
every_fifteen_minutes  weekdays               */15 * * * 1-5
every_fifteen_minutes  weekdays 07:00         0 7 * * 1-5
every_fifteen_minutes  monthly                */15 * 1 * *
every_fifteen_minutes  days                   */15 * * * 1,3
every_fifteen_minutes  days_of_month          */15 * 1,15 * *
every_fifteen_minutes  months                 */15 * * 1,7 *
every_fifteen_minutes  cron                   5 4 * * *
minutes                every_minute           * * * * *
minutes                every_fifteen_minutes  */15 * * * *
minutes                minutes                0,30 * * * *
minutes                hourly                 0 * * * *
minutes                every_hour 2           0 */2 * * *
minutes                hours                  0,30 9,17 * * *
minutes                between_hours          0,30 9-17 * * *
minutes                daily                  0,30 * * * *
minutes                daily_at 02:30         30 2 * * *
minutes                weekdays               0,30 * * * 1-5
minutes                weekdays 07:00         0 7 * * 1-5
minutes                monthly                0,30 * 1 * *
minutes                days                   0,30 * * * 1,3
minutes                days_of_month          0,30 * 1,15 * *
minutes                months                 0,30 * * 1,7 *
minutes                cron                   5 4 * * *
hourly                 every_minute           * * * * *
hourly                 every_fifteen_minutes  */15 * * * *
hourly                 minutes                0,30 * * * *
hourly                 hourly                 0 * * * *
hourly                 every_hour 2           0 */2 * * *
hourly                 hours                  0 9,17 * * *
hourly                 between_hours          0 9-17 * * *
hourly                 daily                  0 * * * *
hourly                 daily_at 02:30         30 2 * * *
hourly                 weekdays               0 * * * 1-5
hourly                 weekdays 07:00         0 7 * * 1-5
hourly                 monthly                0 * 1 * *
hourly                 days                   0 * * * 1,3
hourly                 days_of_month          0 * 1,15 * *
hourly                 months                 0 * * 1,7 *
hourly                 cron                   5 4 * * *
every_hour 2           every_minute           * */2 * * *
every_hour 2           every_fifteen_minutes  */15 */2 * * *
every_hour 2           minutes                0,30 */2 * * *
every_hour 2           hourly                 0 * * * *
every_hour 2           every_hour 2           0 */2 * * *
every_hour 2           hours                  0 9,17 * * *
every_hour 2           between_hours          0 9-17 * * *
every_hour 2           daily                  0 */2 * * *
every_hour 2           daily_at 02:30         30 2 * * *
every_hour 2           weekdays               0 */2 * * 1-5
every_hour 2           weekdays 07:00         0 7 * * 1-5
every_hour 2           monthly                0 */2 1 * *
every_hour 2           days                   0 */2 * * 1,3
every_hour 2           days_of_month          0 */2 1,15 * *
every_hour 2           months                 0 */2 * 1,7 *
every_hour 2           cron                   5 4 * * *
hours                  every_minute           * 9,17 * * *
hours                  every_fifteen_minutes  */15 9,17 * * *
hours                  minutes                0,30 9,17 * * *
hours                  hourly                 0 * * * *
hours                  every_hour 2           0 */2 * * *
hours                  hours                  * 9,17 * * *
hours                  between_hours          * 9-17 * * *
hours                  daily                  * 9,17 * * *
hours                  daily_at 02:30         30 2 * * *
hours                  weekdays               * 9,17 * * 1-5
hours                  weekdays 07:00         0 7 * * 1-5
hours                  monthly                * 9,17 1 * *
hours                  days                   * 9,17 * * 1,3
hours                  days_of_month          * 9,17 1,15 * *
hours                  months                 * 9,17 * 1,7 *
hours                  cron                   5 4 * * *
between_hours          every_minute           * 9-17 * * *
between_hours          every_fifteen_minutes  */15 9-17 * * *
between_hours          minutes                0,30 9-17 * * *
between_hours          hourly                 0 * * * *
between_hours          every_hour 2           0 */2 * * *
between_hours          hours                  * 9,17 * * *
between_hours          between_hours          * 9-17 * * *
between_hours          daily                  * 9-17 * * *
between_hours          daily_at 02:30         30 2 * * *
between_hours          weekdays               * 9-17 * * 1-5
between_hours          weekdays 07:00         0 7 * * 1-5
between_hours          monthly                * 9-17 1 * *
between_hours          days                   * 9-17 * * 1,3
between_hours          days_of_month          * 9-17 1,15 * *
between_hours          months                 * 9-17 * 1,7 *
between_hours          cron                   5 4 * * *
daily                  every_minute           * * * * *
daily                  every_fifteen_minutes  */15 * * * *
daily                  minutes                0,30 * * * *
daily                  hourly                 0 * * * *
daily                  every_hour 2           0 */2 * * *
daily                  hours                  0 9,17 * * *
daily                  between_hours          0 9-17 * * *
daily                  daily                  0 0 * * *
daily                  daily_at 02:30         30 2 * * *
daily                  weekdays               0 0 * * 1-5
daily                  weekdays 07:00         0 7 * * 1-5
daily                  monthly                0 0 1 * *
daily                  days                   0 0 * * 1,3
daily                  days_of_month          0 0 1,15 * *
daily                  months                 0 0 * 1,7 *
daily                  cron                   5 4 * * *
daily_at 02:30         every_minute           * 2 * * *
daily_at 02:30         every_fifteen_minutes  */15 2 * * *
daily_at 02:30         minutes                0,30 2 * * *
daily_at 02:30         hourly                 0 * * * *
daily_at 02:30         every_hour 2           0 */2 * * *
daily_at 02:30         hours                  30 9,17 * * *
daily_at 02:30         between_hours          30 9-17 * * *
daily_at 02:30         daily                  30 2 * * *
daily_at 02:30         daily_at 02:30         30 2 * * *
daily_at 02:30         weekdays               30 2 * * 1-5
daily_at 02:30         weekdays 07:00         0 7 * * 1-5
daily_at 02:30         monthly                30 2 1 * *
daily_at 02:30         days                   30 2 * * 1,3
daily_at 02:30         days_of_month          30 2 1,15 * *
daily_at 02:30         months                 30 2 * 1,7 *
daily_at 02:30         cron                   5 4 * * *
weekdays               every_minute           * * * * 1-5
weekdays               every_fifteen_minutes  */15 * * * 1-5
weekdays               minutes                0,30 * * * 1-5
weekdays               hourly                 0 * * * 1-5
weekdays               every_hour 2           0 */2 * * 1-5
weekdays               hours                  0 9,17 * * 1-5
weekdays               between_hours          0 9-17 * * 1-5
weekdays               daily                  0 0 * * 1-5
weekdays               daily_at 02:30         30 2 * * 1-5
weekdays               weekdays               0 0 * * 1-5
weekdays               weekdays 07:00         0 7 * * 1-5
weekdays               monthly                0 0 1 * 1-5
weekdays               days                   0 0 * * 1,3
weekdays               days_of_month          0 0 1,15 * 1-5
weekdays               months                 0 0 * 1,7 1-5
weekdays               cron                   5 4 * * *
weekdays 07:00         every_minute           * 7 * * 1-5
weekdays 07:00         every_fifteen_minutes  */15 7 * * 1-5
weekdays 07:00         minutes                0,30 7 * * 1-5
weekdays 07:00         hourly                 0 * * * 1-5
weekdays 07:00         every_hour 2           0 */2 * * 1-5
weekdays 07:00         hours                  0 9,17 * * 1-5
weekdays 07:00         between_hours          0 9-17 * * 1-5
weekdays 07:00         daily                  0 7 * * 1-5
weekdays 07:00         daily_at 02:30         30 2 * * 1-5
weekdays 07:00         weekdays               0 7 * * 1-5
weekdays 07:00         weekdays 07:00         0 7 * * 1-5
weekdays 07:00         monthly                0 7 1 * 1-5
weekdays 07:00         days                   0 7 * * 1,3
weekdays 07:00         days_of_month          0 7 1,15 * 1-5
weekdays 07:00         months                 0 7 * 1,7 1-5
weekdays 07:00         cron                   5 4 * * *
monthly                every_minute           * * 1 * *
monthly                every_fifteen_minutes  */15 * 1 * *
monthly                minutes                0,30 * 1 * *
monthly                hourly                 0 * 1 * *
monthly                every_hour 2           0 */2 1 * *
monthly                hours                  0 9,17 1 * *
monthly                between_hours          0 9-17 1 * *
monthly                daily                  0 0 1 * *
monthly                daily_at 02:30         30 2 1 * *
monthly                weekdays               0 0 1 * 1-5
monthly                weekdays 07:00         0 7 1 * 1-5
monthly                monthly                0 0 1 * *
monthly                days                   0 0 1 * 1,3
monthly                days_of_month          0 0 1,15 * *
monthly                months                 0 0 1 1,7 *
monthly                cron                   5 4 * * *
days                   every_minute           * * * * 1,3
days                   every_fifteen_minutes  */15 * * * 1,3
days                   minutes                0,30 * * * 1,3
days                   hourly                 0 * * * 1,3
days                   every_hour 2           0 */2 * * 1,3
days                   hours                  * 9,17 * * 1,3
days                   between_hours          * 9-17 * * 1,3
days                   daily                  0 0 * * 1,3
days                   daily_at 02:30         30 2 * * 1,3
days                   weekdays               0 0 * * 1-5
days                   weekdays 07:00         0 7 * * 1-5
days                   monthly                0 0 1 * 1,3
days                   days                   0 0 * * 1,3
days                   days_of_month          0 0 1,15 * 1,3
days                   months                 0 0 * 1,7 1,3
days                   cron                   5 4 * * *
days_of_month          every_minute           * * 1,15 * *
days_of_month          every_fifteen_minutes  */15 * 1,15 * *
days_of_month          minutes                0,30 * 1,15 * *
days_of_month          hourly                 0 * 1,15 * *
days_of_month          every_hour 2           0 */2 1,15 * *
days_of_month          hours                  * 9,17 1,15 * *
days_of_month          between_hours          * 9-17 1,15 * *
days_of_month          daily                  0 0 1,15 * *
days_of_month          daily_at 02:30         30 2 1,15 * *
days_of_month          weekdays               0 0 1,15 * 1-5
days_of_month          weekdays 07:00         0 7 1,15 * 1-5
days_of_month          monthly                0 0 1 * *
days_of_month          days                   0 0 1,15 * 1,3
days_of_month          days_of_month          0 0 1,15 * *
days_of_month          months                 0 0 1,15 1,7 *
days_of_month          cron                   5 4 * * *
months                 every_minute           * * * 1,7 *
months                 every_fifteen_minutes  */15 * * 1,7 *
months                 minutes                0,30 * * 1,7 *
months                 hourly                 0 * * 1,7 *
months                 every_hour 2           0 */2 * 1,7 *
months                 hours                  * 9,17 * 1,7 *
months                 between_hours          * 9-17 * 1,7 *
months                 daily                  0 0 * 1,7 *
months                 daily_at 02:30         30 2 * 1,7 *
months                 weekdays               0 0 * 1,7 1-5
months                 weekdays 07:00         0 7 * 1,7 1-5
months                 monthly                0 0 1 1,7 *
months                 days                   0 0 * 1,7 1,3
months                 days_of_month          0 0 1,15 1,7 *
months                 months                 0 0 * 1,7 *
months                 cron                   5 4 * * *
cron                   every_minute           * 4 * * *
cron                   every_fifteen_minutes  */15 4 * * *
cron                   minutes                0,30 4 * * *
cron                   hourly                 0 * * * *
cron                   every_hour 2           0 */2 * * *
cron                   hours                  5 9,17 * * *
cron                   between_hours          5 9-17 * * *
cron                   daily                  5 4 * * *
cron                   daily_at 02:30         30 2 * * *
cron                   weekdays               5 4 * * 1-5
cron                   weekdays 07:00         0 7 * * 1-5
cron                   monthly                5 4 1 * *
cron                   days                   5 4 * * 1,3
cron                   days_of_month          5 4 1,15 * *
cron                   months                 5 4 * 1,7 *
cron                   cron                   5 4 * * *
"""
WITHOUT_TIME = {
    "daily": "* * *",
    "weekly": "* * 0",
    "monthly": "1 * *",
    "quarterly": "1 */3 *",
    "yearly": "1 1 *",
    "weekdays": "* * 1-5",
    "weekends": "* * 6-7",
    "sundays": "* * 0",
    "mondays": "* * 1",
    "tuesdays": "* * 2",
    "wednesdays": "* * 3",
    "thursdays": "* * 4",
    "fridays": "* * 5",
    "saturdays": "* * 6",
}


@pytest.fixture
def builder():
    return JobBuilder(Job(handler="report"), lambda job, backend: "")


def apply(builder, word):
    method, *arguments = WORDS[word]
    return getattr(builder, method)(*arguments)


@pytest.mark.parametrize("line", PAIRS.strip().splitlines())
def test_two_words_mean(builder, line):
    first, second, expression = line[:23].strip(), line[23:46].strip(), line[46:]
    assert apply(apply(builder, first), second).build().cron == expression


def test_every_pair_of_the_words_is_in_the_table():
    assert len(PAIRS.strip().splitlines()) == len(WORDS) ** 2


@pytest.mark.parametrize(("word", "days"), WITHOUT_TIME.items())
def test_a_word_without_a_time_keeps_the_minutes_and_hours_of_others(builder, word, days):
    getattr(builder.every_fifteen_minutes().between_hours(9, 17), word)()
    assert builder.build().cron == f"*/15 9-17 {days}"


@pytest.mark.parametrize(("word", "days"), WITHOUT_TIME.items())
def test_a_word_without_a_time_gives_way_to_later_minutes_and_hours(builder, word, days):
    getattr(builder, word)()
    assert builder.build().cron == f"0 0 {days}"
    assert builder.between_hours(9, 17).every_fifteen_minutes().build().cron == f"*/15 9-17 {days}"


@pytest.mark.parametrize(("word", "days"), WITHOUT_TIME.items())
def test_midnight_that_was_named_is_kept(builder, word, days):
    getattr(builder.hourly(), word)("00:00")
    assert builder.every_five_minutes().build().cron == f"*/5 0 {days}"


@pytest.mark.parametrize(
    ("word", "expression"),
    [
        ("every_minute", "*/7 * * * 1,3"),
        ("every_x_minutes", "*/7 * * * 1,3"),
        ("hourly", "7 * * * 1,3"),
        ("hourly_at", "7 * * * 1,3"),
        ("every_hour", "0 */7 * * 1,3"),
        ("minutes", "7 * * * 1,3"),
        ("hours", "* 7 * * 1,3"),
        ("days_of_month", "0 0 7 * 1,3"),
        ("months", "0 0 * 7 1,3"),
    ],
)
def test_a_list_of_days_means_midnight_unless_minutes_or_hours_are_set(builder, word, expression):
    assert getattr(builder.days([1, 3]), word)(7).build().cron == expression
