"""Beanstalkd: a tube per queue, a reservation as the lease, the buried jobs as the dead letters."""
