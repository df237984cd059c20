"""RedisBackend: the contract, put together from its roles.

A lease is a member of a sorted set, lost when it is reaped; whoever can remove it settles the job in the same step.
`abandon` leaves the record where it is. Order is strict: priority, then enqueue. Time is the server's.
A reply that never came is asked about: a claim by its owner token, a settlement by what it left, a put by its id.
"""

from tenure.backends.redis.chronicle import RedisChronicle
from tenure.backends.redis.claiming import Claiming
from tenure.backends.redis.connections import Line
from tenure.backends.redis.doubts import Doubts
from tenure.backends.redis.facts import RedisFacts
from tenure.backends.redis.guarding import RedisGuarding
from tenure.backends.redis.ledger import RedisLedger
from tenure.backends.redis.listing import RedisListing
from tenure.backends.redis.names import Names
from tenure.backends.redis.putting import Putting
from tenure.backends.redis.records import RedisRecords
from tenure.backends.redis.roster import RedisRoster
from tenure.backends.redis.scripts import Scripts
from tenure.backends.redis.settling import Settling
from tenure.backends.redis.statistics import RedisStatistics
from tenure.backends.redis.steering import RedisSteering


class RedisBackend:
    """Every verb belongs to one of the roles; all of them share the connections and the scripts."""

    def __init__(self, line: Line, scripts: Scripts, names: Names, is_cluster: bool = False) -> None:
        doubts = Doubts()
        records = RedisRecords(line, scripts, names)
        guarding = None if is_cluster else RedisGuarding(scripts, names)
        claiming = Claiming(line, scripts, names, doubts)
        settling = Settling(scripts, names, doubts, guarding)
        steering = RedisSteering(line, scripts, names)
        roster = RedisRoster(scripts, names)
        self.put = Putting(line, scripts, names).put
        self.lease, self.reap = claiming.lease, claiming.reap
        self.ack, self.nack, self.abandon, self.renew = settling.ack, settling.nack, settling.abandon, settling.renew
        self.counts, self.find, self.trim = records.counts, records.find, records.trim
        self.heads, self.oldest = records.heads, records.oldest
        self.dead, self.replay, self.discard = records.dead, records.replay, records.discard
        self.bury = records.bury
        self.cancel, self.asked_to_stop = steering.cancel, steering.asked_to_stop
        self.note_progress, self.reschedule = steering.note_progress, steering.reschedule
        self.greet, self.part, self.workers = roster.greet, roster.part, roster.workers
        listing = RedisListing(scripts, names, records.queues, records.found)
        self.queues_with, self.page = listing.queues_with, listing.page
        statistics = RedisStatistics(scripts, names)
        self.note_tallies, self.tallies = statistics.note_tallies, statistics.tallies
        self.fold_tallies, self.drop_tallies = statistics.fold_tallies, statistics.drop_tallies
        if guarding is not None:  # on a cluster what spans queues would lie on different servers
            self.holders = records.holders
            self.change, self.look, self.sweep = guarding.change, guarding.look, guarding.sweep
            self.park, self.rouse = settling.park, guarding.rouse
        self.ledger = RedisLedger(line, scripts, names)
        self.chronicle = RedisChronicle(line, scripts, names)
        self.facts = RedisFacts(line).facts
        self.close = line.close
