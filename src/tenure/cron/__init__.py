"""What runs by the clock: when schedules are due, in which order, and what follows when they were missed."""
