# SPDX-License-Identifier: MIT
"""The rooms of the house, from the ground up, and which room stands on which."""

# A room uses itself, the rooms it stands on, and whatever those use. A name that is no room of the
# list is a door: one file of another room (its .h, .c and object) that may be used, and no more of it.
STANDS_ON = {
    "common": [],
    "common/command": ["common"],
    "common/http": ["common"],
    "loader/column": ["common"],
    "loader/store": ["loader/column"],
    "loader/unpack": ["loader/store"],
    "loader/csv": ["loader/unpack"],
    "loader/idx": ["loader/unpack"],
    "loader/parquet": ["loader/store"],
    "loader/rows": ["loader/store"],
    "loader/cache": ["loader/rows"],
    "loader/sqlite": ["loader/store"],
    "loader/postgres": ["loader/store"],
    "loader/device": ["common"],
    "loader/feed": ["loader/store", "loader/device"],
    "loader": ["loader/csv", "loader/idx", "loader/parquet", "loader/rows", "loader/sqlite", "loader/postgres",
               "loader/cache", "loader/feed", "common/command"],
    "loader/tool": ["loader"],
    "loader/python": ["loader"],  # by tombola.h alone, as other programs
    "sampler/shuffle": ["common"],
    "sampler/frame": ["sampler/shuffle"],
    "sampler/build": ["sampler/frame", "loader/store", "loader/store_open"],
    "sampler/order": ["sampler/frame"],
    "sampler/design": ["sampler/order", "loader/store", "loader/store_apart"],  # neyman reads values of rows
    "sampler/journal": ["common"],
    "sampler/ledger": ["sampler/journal", "sampler/order"],
    "sampler/stream": ["sampler/design", "sampler/ledger", "sampler/build", "common/http/metrics"],  # counters of a stream
    "sampler/batch": ["sampler/stream", "loader/feed/sampler_batch"],  # its header
    "sampler/service": ["sampler/stream", "common/command"],  # --rows A:B
    "sampler/api": ["common/http", "sampler/batch", "sampler/service"],
    "sampler": ["sampler/api"],
    "trainer/compute": ["loader/device"],
    "trainer/cluster": ["common"],
    "trainer/events": ["common"],
    "trainer/model": ["trainer/compute", "loader"],
    "trainer/ledger": ["common"],
    "trainer/checkpoint": ["trainer/model", "trainer/ledger"],
    "trainer/onnx": ["trainer/checkpoint"],
    "trainer/wire": ["trainer/model", "trainer/ledger"],
    "trainer/server": ["trainer/checkpoint", "trainer/wire", "common/http"],
    "trainer/exchange": ["trainer/checkpoint", "trainer/wire", "trainer/cluster", "loader/feed"],
    "trainer/run": ["trainer/server", "trainer/exchange", "trainer/events"],
    "trainer": ["trainer/run", "trainer/onnx"],
}
ROOMS = list(STANDS_ON)
TOPS = [room for room in ROOMS if "/" not in room]
DOORS = sorted({name for below in STANDS_ON.values() for name in below if name not in STANDS_ON})


def room_of(name):
    """The room of a file or an object, by its path from the root."""
    return name.rpartition("/")[0]


USES = {}  # room -> all rooms and doors that it may use; KeyError: a room of the list stands on a later one
for _room, _below in STANDS_ON.items():
    USES[_room] = {_room}.union(*(USES[name] if name in STANDS_ON else {name} for name in _below))


def may_use(user, used):
    """Whether a file may include, or an object may call, another one."""
    return not USES[room_of(user)].isdisjoint({room_of(used), used.partition(".")[0]})


def rule(room):
    """The rule that was broken, for a message."""
    return f"{room} stands on {', '.join(STANDS_ON[room]) or 'nothing'}"
