"""A module with a task that is not called `tasks`."""

from django_tasks import task


@task
def write_letter():
    return "Dear Sir"
