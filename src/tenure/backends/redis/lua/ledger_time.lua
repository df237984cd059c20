-- The time that every scheduler goes by.
return time()
