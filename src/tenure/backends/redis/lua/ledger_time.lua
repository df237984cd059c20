-- The time that all schedulers use.
return time()
