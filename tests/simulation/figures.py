"""What the run is judged by."""

from tests.simulation.world import World, zipf_tenants

INSTANCES = 8
TENANTS = 200
LOAD = 32_000
OUTAGE = (10, 20)


def play(seconds=30, load=LOAD, tenants=TENANTS, cut=None, seed=1):
    return World(zipf_tenants(tenants, load), INSTANCES, seconds, seed=seed, cut=cut).run()


def judge(world):
    """Overshoot, usable share, false refusals and the price, as flat figures."""
    over = sorted(
        max(tenant.allowed - tenant.entitled(world.seconds), 0) / tenant.entitled(world.seconds)
        for tenant in world.tenants
    )
    usable = [
        tenant.allowed / min(tenant.entitled(world.seconds), tenant.asked)
        for tenant in world.tenants
        if tenant.saturated
    ]
    below = [tenant for tenant in world.tenants if not tenant.saturated]
    tally = world.tally
    return {
        "overshoot_p99": over[int(len(over) * 0.99)],
        "overshoot_max": over[-1],
        "usable_share_mean": sum(usable) / len(usable),
        "usable_share_min": min(usable),
        "refused_below_limit_share": sum(t.refused for t in below) / sum(t.asked for t in below),
        "store_calls_per_decision": tally.calls / tally.decisions,
        "waiting_share": tally.waits / tally.decisions,
        "waiting_hot_decisions": tally.hot_waits,
        "decisions": tally.decisions,
    }


def judge_outage(world, cut=OUTAGE):
    """What all instances together let through while the store was away, and after, against the limit."""
    first, last = cut
    during = max(_admitted(t, first, last) / t.entitled(last - first) for t in world.tenants)
    after = max(_admitted(t, last, last + 3) / t.entitled(3) for t in world.tenants if t.saturated)
    figures = judge(world)
    return {
        "degraded_sum_over_limit": during,
        "degraded_return_over_limit": after,
        "degraded_overshoot_max": figures["overshoot_max"],
        "degraded_refused_below_limit_share": figures["refused_below_limit_share"],
        "degraded_waiting_hot_decisions": figures["waiting_hot_decisions"],
    }


def _admitted(tenant, first, last):
    return sum(tenant.series[first:last])


def saturation(world):
    """For each second, what the saturated tenants were let through as a share of what their limits refill."""
    saturated = [tenant for tenant in world.tenants if tenant.saturated]
    refill = sum(tenant.quota.count / 60 for tenant in saturated)
    return [
        sum(tenant.series[second] if second < len(tenant.series) else 0 for tenant in saturated) / refill
        for second in range(world.seconds)
    ]
