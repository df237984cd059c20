"""A module with a task that is not called `tasks`."""

from task_api import task


@task
def write_letter():
    return "Dear Sir"
