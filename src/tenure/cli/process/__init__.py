"""The process of a worker or a scheduler: signals, pid file, title, watchdog, restart and the processes it starts."""
