"""How many advertisement events a second does the core of the Yahoo streaming benchmark count, all acked?

The events are filtered, projected, joined with a table of campaigns and counted by campaign and window of event time,
in the bolts of the original; the generator is a spout, the table a dict, and the counts stay in memory.
"""

import json
import random
import uuid
from collections import Counter

from benchmarks import meter, workload
from benchmarks.components import CollectingBolt, NumberingSpout
from pystorm_spark import Fields

CAMPAIGNS, ADS_IN_CAMPAIGN, USERS, PAGES = 100, 10, 100, 100
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
EVENTS = 20_000  # events that differ in more than their time
EVENTS_IN_MS = 10  # events per millisecond of event time
WINDOW_MS = 10_000
SKEW_MS, LATE_MS = 50, 60_000  # at most; one event in `ON_TIME` is late
ON_TIME = 100_000
START_MS = 1_700_000_000_000
TASKS = 2  # tasks of the bolt `count`

_rng = random.Random(0)


def _ids(count):
    return [str(uuid.UUID(int=_rng.getrandbits(128), version=4)) for _ in range(count)]


CAMPAIGN_OF = {ad: campaign for campaign in _ids(CAMPAIGNS) for ad in _ids(ADS_IN_CAMPAIGN)}


def _drawn():
    """Make the texts before and after the time of each event."""
    users, pages, ads = _ids(USERS), _ids(PAGES), list(CAMPAIGN_OF)
    for _ in range(EVENTS):
        event = {
            "user_id": _rng.choice(users),
            "page_id": _rng.choice(pages),
            "ad_id": _rng.choice(ads),
            "ad_type": _rng.choice(AD_TYPES),
            "event_type": _rng.choice(EVENT_TYPES),
            "event_time": "TIME",
            "ip_address": "1.2.3.4",
        }
        before, _, after = json.dumps(event).partition("TIME")
        yield before, after


DRAWN = list(_drawn())


def event(number):
    """Make the text of an event. Its time is slightly out of order, and much too early in a few events."""
    time = START_MS + number // EVENTS_IN_MS + number * 7919 % (2 * SKEW_MS + 1) - SKEW_MS
    if number % ON_TIME == ON_TIME - 1:
        time -= number * 7919 % LATE_MS
    before, after = DRAWN[number % EVENTS]
    return f"{before}{time}{after}"


class EventSpout(NumberingSpout):
    outputs = ["event"]

    def next_tuple(self):
        if self.number < self.limit:
            self.collector.emit([event(self.number)], message_id=self.number)
            self.number += 1


class DeserializeBolt(CollectingBolt):
    outputs = ["user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address"]

    def execute(self, tup):
        self.collector.emit(list(json.loads(tup.values[0]).values()), anchors=tup)
        self.collector.ack(tup)


class FilterBolt(CollectingBolt):
    outputs = DeserializeBolt.outputs

    def execute(self, tup):
        if tup.values[4] == "view":
            self.collector.emit(tup.values, anchors=tup)
        self.collector.ack(tup)


class ProjectBolt(CollectingBolt):
    outputs = ["ad_id", "event_time"]

    def execute(self, tup):
        values = tup.values
        self.collector.emit([values[2], values[5]], anchors=tup)
        self.collector.ack(tup)


class JoinBolt(CollectingBolt):
    outputs = ["campaign_id", "event_time"]

    def execute(self, tup):
        ad, time = tup.values
        campaign = CAMPAIGN_OF.get(ad)
        if campaign is None:
            self.collector.fail(tup)
        else:
            self.collector.emit([campaign, time], anchors=tup)
            self.collector.ack(tup)


class CampaignBolt(workload.TellingBolt):
    def execute(self, tup):
        campaign, time = tup.values
        seen = (campaign, int(time) // WINDOW_MS)
        self.found[seen] = self.found.get(seen, 0) + 1
        self.collector.ack(tup)


def bolts(builder, folder):
    builder.set_bolt("deserialize", DeserializeBolt()).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("filter", FilterBolt()).shuffle_grouping("deserialize")
    builder.set_bolt("project", ProjectBolt()).shuffle_grouping("filter")
    builder.set_bolt("join", JoinBolt()).shuffle_grouping("project")
    builder.set_bolt("campaign", CampaignBolt(folder), TASKS).fields_grouping("join", Fields("campaign_id"))


def check(emitted, folder):
    """Check that every view is counted once, for its campaign and its window, by one task."""
    counts = workload.told(folder, "CampaignBolt")
    workload.expect("the tasks of a campaign", len(set().union(*counts)), sum(map(len, counts)))
    found = {seen: count for each in counts for seen, count in each.items()}
    workload.expect("the views of a campaign in a window", found, plainly_counted(emitted))


def plainly_counted(events):
    counts = Counter()
    for number in range(events):
        seen = json.loads(event(number))
        if seen["event_type"] == "view":
            counts[CAMPAIGN_OF[seen["ad_id"]], int(seen["event_time"]) // WINDOW_MS] += 1
    return counts


WORKLOAD = workload.Workload(lambda folder, limit: EventSpout(limit), bolts, check)

if __name__ == "__main__":
    workload.answer("yahoo")
