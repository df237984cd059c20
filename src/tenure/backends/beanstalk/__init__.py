"""Beanstalkd: a tube for each queue, a reservation as the lease, buried jobs as the dead letters."""
