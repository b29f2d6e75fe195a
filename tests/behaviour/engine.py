"""What the behaviour tests ask of an engine: a cluster, and two ways to let it work.

An engine without simulated time implements both by waiting.
"""

from pystorm_spark import LocalCluster, TopologyBuilder


def make_cluster():
    return LocalCluster(simulated_time=True)


def run_until_idle(cluster):
    """Return when no spout has anything to emit and no tuple is on its way."""
    cluster.wait_until_idle()


def advance(cluster, secs):
    """Return when the topologies have lived for `secs` more."""
    cluster.advance_time(secs)


def run(cluster, topology, conf=None, name="topology"):
    """Submit `topology` and let it work until it is idle."""
    handle = cluster.submit_topology(name, conf, topology)
    run_until_idle(cluster)
    return handle


def component(cluster, component_id, name="topology"):
    """The counts and errors of one component."""
    return cluster.topology_info(name).components[component_id]


def chain(spout, *bolts):
    """The spout "spout" and behind it, one after the other and shuffled, bolts "a", "b", "c"."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    source = "spout"
    for bolt_id, bolt in zip("abc", bolts, strict=False):
        builder.set_bolt(bolt_id, bolt).shuffle_grouping(source)
        source = bolt_id
    return builder.create_topology()
